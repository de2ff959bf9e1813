"""A run folder: `config.json`, `log.jsonl`, TensorBoard events, checkpoints `best` and `last`,
`result.json`."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from unicorn_maml.errors import DivergedError, UsageError
from unicorn_maml.files import read_object, recover_folder, write_json, write_text
from unicorn_maml.methods.build import ModelSpec
from unicorn_maml.methods.method import Method
from unicorn_maml.names import option_name
from unicorn_maml.settings import PretrainSettings, TrainSettings, to_json
from unicorn_maml.training.checkpoint import Checkpoint, refusing_nonsense, save_checkpoint
from unicorn_maml.training.start import Pixels

__all__ = ["RunFolder"]

_NOT_RECORDED = {"out", "resume"}
_PATHS = {"store", "init", "teacher"}
_FREE_TO_CHANGE = {"device", "compile"}  # when a run is continued: rounding apart, the same


def _same(name: str, first: Any, second: Any) -> bool:
    """Whether two values of a setting are the same; a path may be spelled in several ways."""
    if name in _PATHS and isinstance(first, str) and isinstance(second, str):
        return Path(first).resolve() == Path(second).resolve()
    return bool(first == second)


class RunFolder:
    """Opens a new run folder, or one to resume, and keeps its log and its checkpoints.

    `epoch` is the last one that is saved, `best_entry` what was logged of the best one, and
    `seconds` the time that all of them took.
    """

    def __init__(
        self,
        settings: TrainSettings | PretrainSettings,
        spec: ModelSpec,
        pixels: Pixels,
        store_checksum: str,
    ):
        self._settings, self._spec, self._pixels = settings, spec, pixels
        self._store_checksum = store_checksum
        self.epoch = 0
        self.best_entry: dict[str, Any] = {"epoch": 0, "validation_accuracy": -1.0}
        self.seconds = 0.0
        self.folder = settings.folder
        self.best, self.last = self.folder / "best", self.folder / "last"
        self._log = self.folder / "log.jsonl"
        self._tensorboard: SummaryWriter | None = None
        config = {k: v for k, v in to_json(settings).items() if k not in _NOT_RECORDED}
        if settings.resume:
            self._refuse_other_settings(config, to_json(type(settings)()))
            recover_folder(self.best)
            recover_folder(self.last)
        else:
            self._refuse_other_files()
            write_json(self.folder / "config.json", config)

    def _refuse_other_files(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"{self.folder} is a file; choose another --out.")
        # A `.new` file is what a run leaves that was killed before it could begin.
        if self.folder.is_dir() and any(
            not path.name.endswith(".new") for path in self.folder.iterdir()
        ):
            raise UsageError(
                f"{self.folder} already holds a run or other files; continue that run with "
                "--resume, or choose another --out."
            )

    def _refuse_other_settings(self, config: dict[str, Any], defaults: dict[str, Any]) -> None:
        if not (self.folder / "config.json").is_file():
            raise UsageError(f"There is no run in {self.folder} to resume; check --out.")
        recorded = read_object(self.folder / "config.json")
        if ("method" in recorded) != ("method" in config):
            kind, command = (
                ("meta-training", "train") if "method" in recorded else ("pre-training", "pretrain")
            )
            raise UsageError(
                f"{self.folder} holds a run of {kind}; continue it with `unicorn-maml {command} "
                f"--out {shlex.quote(str(self.folder))} --resume`."
            )
        # What an older version did not record yet has its default there.
        recorded = {**defaults, **recorded}
        for name in sorted(config.keys() - _FREE_TO_CHANGE):
            if not _same(name, recorded[name], config[name]):
                raise UsageError(
                    f"The run in {self.folder} has {option_name(name)} {recorded[name]}, not "
                    f"{config[name]}; resume it without that option, or choose another --out."
                )

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Close the event file at the end; of a run that diverges, say what is kept of it."""
        try:
            yield
        except DivergedError as error:
            self._abandon()
            kept = f" Epoch {self.epoch} is kept in {self.last}." if self.epoch else ""
            raise DivergedError(f"{error}{kept}") from error
        finally:
            self._close()

    def go_on(self, begun: Checkpoint | None) -> None:
        """Go back to the end of the last saved epoch, or to the beginning."""
        if begun:
            with refusing_nonsense(self.last):
                self.epoch, self.best_entry = int(begun.metrics["epoch"]), begun.metrics["best"]
                self.seconds = float(begun.metrics["run_seconds"])
        self._forget_after(self.epoch)

    def save(self, entry: dict[str, Any], method: Method, state: dict[str, Tensor]) -> None:
        """Keep an epoch: its line of the log, the model, and the state that resuming needs.

        `last` comes last: should the process die before, the epoch is done again, with the same
        outcome, and its line in the log is dropped first.
        """
        self.log(entry)
        if entry.get("validation_accuracy", -1.0) > self.best_entry["validation_accuracy"]:
            self.best_entry = entry
            self._write_checkpoint(self.best, entry, method, None)
        self._write_checkpoint(self.last, entry, method, state)
        self.epoch = entry["epoch"]

    def _write_checkpoint(
        self, folder: Path, entry: dict[str, Any], method: Method, state: dict[str, Tensor] | None
    ) -> None:
        save_checkpoint(
            folder,
            method,
            spec=self._spec,
            settings=replace(self._settings, resume=False),
            pixel_mean=self._pixels[0],
            pixel_std=self._pixels[1],
            metrics={
                **entry,
                "best": self.best_entry,
                "run_seconds": self.seconds,
                "store_checksum": self._store_checksum,
            },
            training_state=state,
        )

    def log(self, entry: dict[str, Any]) -> None:
        """Add an epoch to the log and to TensorBoard, and its time to that of the run."""
        self.seconds += entry["seconds"]
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        if self._tensorboard is None:
            self._tensorboard = SummaryWriter(self.folder, purge_step=entry["epoch"])
        for name, value in entry.items():
            if name != "epoch":
                self._tensorboard.add_scalar(name, value, entry["epoch"])
        self._tensorboard.flush()

    def _forget_after(self, epoch: int) -> None:
        """Drop what was logged after `epoch`: those epochs will be done again."""
        if not self._log.exists():
            return
        kept = []
        for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                if json.loads(line)["epoch"] <= epoch:
                    kept.append(line)
            except (ValueError, TypeError, KeyError):  # cut off when the process was killed
                break
        write_text(self._log, "".join(line + "\n" for line in kept))

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result of the whole run."""
        write_json(self.folder / "result.json", {**result, "folder": str(self.folder)})

    def _abandon(self) -> None:
        """Take a run away that diverged before it saved anything, so that it can be begun anew."""
        if self.last.is_dir():
            return
        self._close()
        for path in [self.folder / "config.json", self._log, *self.folder.glob("events.*")]:
            path.unlink(missing_ok=True)

    def _close(self) -> None:
        """Close the event file."""
        if self._tensorboard is not None:
            self._tensorboard.close()
