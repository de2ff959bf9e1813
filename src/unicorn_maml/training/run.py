"""A run folder: `config.json`, `log.jsonl`, TensorBoard events, checkpoints `best` and `last`,
`result.json`."""

import json
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.files import read_json, recover_folder, write_json
from unicorn_maml.settings import PretrainSettings, TrainSettings, to_json

__all__ = ["RunFolder", "default_folder"]

# What may differ when a run is continued: neither changes what is computed.
_FREE = {"out", "resume", "device"}


def default_folder(settings: TrainSettings | PretrainSettings) -> Path:
    """Return a folder name made of the settings that tell most runs apart."""
    parts = [settings.backbone, Path(settings.store).name]
    if isinstance(settings, TrainSettings):
        parts = [settings.method, *parts, f"{settings.way}way", f"{settings.shot}shot"]
    else:
        parts = ["pretrained", *parts]
    return Path("runs") / "-".join([*parts, f"seed{settings.seed}"])


class RunFolder:
    """Opens a new run folder, or one to resume, and keeps its log."""

    def __init__(self, folder: Path, settings: TrainSettings | PretrainSettings):
        self.folder = folder
        self.best, self.last = folder / "best", folder / "last"
        self._log = folder / "log.jsonl"
        config = {k: v for k, v in to_json(settings).items() if k not in _FREE - {"device"}}
        if settings.resume and (folder / "config.json").is_file():
            self._refuse_other_settings(config)
            recover_folder(self.best)
            recover_folder(self.last)
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"{folder} already holds a run or other files; continue that run with --resume, or "
                "choose another --out."
            )
        else:
            write_json(folder / "config.json", config)
        self._tensorboard: SummaryWriter | None = None

    def _refuse_other_settings(self, config: dict[str, Any]) -> None:
        try:
            recorded = read_json(self.folder / "config.json")
        except ValueError as error:
            raise FileError(f"{self.folder / 'config.json'} is damaged ({error}).") from error
        for name in sorted((recorded.keys() | config.keys()) - _FREE):
            if recorded.get(name) != config.get(name):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"The run in {self.folder} has {option} {recorded.get(name)}, not "
                    f"{config.get(name)}; resume it without that option, or choose another --out."
                )

    def log(self, entry: dict[str, Any]) -> None:
        """Add an epoch to the log and to TensorBoard."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        if self._tensorboard is None:
            self._tensorboard = SummaryWriter(self.folder, purge_step=entry["epoch"])
        for name, value in entry.items():
            if name != "epoch":
                self._tensorboard.add_scalar(name, value, entry["epoch"])
        self._tensorboard.flush()

    def forget_after(self, epoch: int) -> None:
        """Drop what was logged after `epoch`: those epochs will be done again."""
        if not self._log.exists():
            return
        kept = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["epoch"] <= epoch:
                    kept.append(line)
            except ValueError:  # a line that was cut off when the process was killed
                break
        unfinished = self._log.with_suffix(".new")
        unfinished.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
        unfinished.replace(self._log)

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result of the whole run."""
        write_json(self.folder / "result.json", result)

    def close(self) -> None:
        """Close the event file."""
        if self._tensorboard is not None:
            self._tensorboard.close()
