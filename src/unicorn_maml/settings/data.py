"""Options of the commands that make and show stores."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from unicorn_maml.checks import check_numbers, check_types, require
from unicorn_maml.settings.words import JSON, DataSetKind, Resampling

__all__ = ["DataPrepareSettings", "DataShowSettings"]


@dataclass(frozen=True, kw_only=True)
class DataPrepareSettings:
    """Build a store from folders and archives of images, without unpacking them to disk."""

    sources: Annotated[list[Path], "folders, zip, tar and npz archives that hold the data set"]
    dataset: Annotated[
        DataSetKind, "which data set it is; `folder` is any tree of class folders"
    ] = "folder"
    out: Annotated[Path | None, "store folder to make; needed  [a store in it is replaced]"] = None
    size: Annotated[
        int | None, "side of the images  [default: 84; omniglot 28; cifar-fs and fc100 32]"
    ] = None
    resample: Annotated[Resampling, "filter that makes images smaller or larger"] = "bilinear"
    on_error: Annotated[
        Literal["stop", "skip"], "bad files: `stop` and list them, or `skip` and leave them out"
    ] = "stop"
    crop_to_box: Annotated[bool, "cub: cut images to the annotated bounding box first"] = False
    rotations: Annotated[
        bool, "omniglot: images turned by 90, 180 and 270 degrees are classes of their own"
    ] = False
    channel_order: Annotated[
        Literal["bgr", "rgb"], "tieredimagenet as npz: order of the colours in the arrays"
    ] = "bgr"
    fractions: Annotated[
        str, "folder without split folders: shares of base, validation and novel classes"
    ] = "0.64,0.16,0.2"
    seed: Annotated[int, "folder without split folders: which classes go where"] = 0
    json: Annotated[Path | None, JSON] = None

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.sources), "Name at least one folder or archive of images.")
        require(self.out is not None, "Say where the store is to be made, with --out FOLDER.")
        check_numbers(self, at_least={"size": 8, "seed": 0})
        require(self.size is None or self.size <= 1024, "--size must be at most 1024.")
        for option, wanted, kind in (
            ("crop-to-box", self.crop_to_box, "cub"),
            ("rotations", self.rotations, "omniglot"),
        ):
            require(not wanted or self.dataset == kind, f"--{option} is for --dataset {kind} only.")
        _ = self.split_fractions

    @property
    def store_folder(self) -> Path:
        """Where the store is made."""
        assert self.out is not None
        return self.out

    @property
    def split_fractions(self) -> tuple[float, float, float]:
        """Shares of base, validation and novel classes."""
        try:
            base, validation, novel = (float(part) for part in self.fractions.split(","))
        except ValueError:
            base = validation = novel = -1.0
        require(
            min(base, validation, novel) >= 0 and abs(base + validation + novel - 1) < 1e-6,
            "--fractions must be three numbers that add up to 1, such as 0.64,0.16,0.2, not "
            f"{self.fractions}.",
        )
        return base, validation, novel


@dataclass(frozen=True, kw_only=True)
class DataShowSettings:
    """Print what is in a store, check that its images are sound, and find duplicates."""

    store: Annotated[str, "store folder, or `glyphs`"]
    image: Annotated[Path | None, "write a PNG with sample images of some classes"] = None
    json: Annotated[Path | None, "write the description to this file"] = None
