"""Options of `predict`, `check` and `app`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from unicorn_maml.checks import check_numbers, check_positive, check_shares, check_types, require
from unicorn_maml.settings.words import ADAPT, DEVICE, INNER_LR, JSON, STEPS

__all__ = ["DEFAULT_MODEL", "AppSettings", "CheckSettings", "PhotoSettings", "PredictSettings"]

DEFAULT_MODEL = "miniimagenet-resnet12-pretrained"  # of all that is about photos

_OF_THE_MODEL = "  [default: the model's own]"


@dataclass(frozen=True, kw_only=True)
class PhotoSettings:
    """What all classifiers of photos have in common. `None` takes the model's own value."""

    model: Annotated[
        str, "checkpoint folder, name of a checkpoint that comes with the package, or timm/NAME"
    ] = DEFAULT_MODEL
    adapt: Annotated[
        Literal["auto", "all", "head"],
        ADAPT + "; `auto` takes what suits the model, and the head where all would take longer "
        "than 20 seconds",
    ] = "auto"
    inner_steps: Annotated[int | None, STEPS + _OF_THE_MODEL] = None
    inner_lr: Annotated[float | None, INNER_LR + _OF_THE_MODEL] = None
    normalization: Annotated[
        Literal["support", "mixed", "frozen"] | None,
        "batch-norm statistics, as for `train`; not `batch`, under which the answer for a photo "
        "depends on the photos beside it" + _OF_THE_MODEL,
    ] = None
    device: Annotated[str, DEVICE] = "auto"

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"inner_steps": 0})
        check_positive(self, "inner_lr")


_SUPPORT = "folder of labelled photos, one folder per class: PHOTOS/class/photo.jpg"


@dataclass(frozen=True, kw_only=True)
class PredictSettings(PhotoSettings):
    """Classify photos, by a few labelled ones or by a classifier that was saved."""

    support: Annotated[Path | None, _SUPPORT] = None
    classifier: Annotated[
        Path | None, "saved classifier to take instead of --support and a model"
    ] = None
    query: Annotated[Path | None, "photo, or folder of photos, to classify"] = None
    csv: Annotated[Path | None, "write the answers to this file"] = None
    json: Annotated[
        Path | None,
        "write them, with the probabilities of all classes and every setting, to this file",
    ] = None
    save: Annotated[Path | None, "keep the adapted classifier in this folder"] = None
    threshold: Annotated[float, "say `unsure` where the best class is less probable than this"] = (
        0.0
    )
    copy_to: Annotated[
        Path | None, "new folder for copies of the photos, in one folder per class"
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            (self.support is None) != (self.classifier is None),
            "Give either --support FOLDER, with labelled photos, or --classifier FOLDER.",
        )
        require(
            self.query is not None or (self.save is not None and self.support is not None),
            "Give the photos to classify, with --query FOLDER.",
        )
        require(
            self.query is not None or not (self.csv or self.json or self.copy_to or self.threshold),
            "--csv, --json, --copy-to and --threshold are for photos to classify; name those with "
            "--query.",
        )
        check_shares(self, "threshold", one=True)
        require(
            self.save is None or self.classifier is None,
            "--save goes with --support; the classifier in --classifier is saved already.",
        )
        named = (self.csv, self.json, self.save, self.copy_to)
        results = [each.absolute() for each in named if each]
        require(
            len(set(results)) == len(results),
            "--csv, --json, --save and --copy-to write different things; give each its own name.",
        )


@dataclass(frozen=True, kw_only=True)
class CheckSettings(PhotoSettings):
    """Estimate how well a classifier made of these photos will do, from the photos themselves.

    Each photo is classified by a classifier that was adapted to the others (with more than 100
    photos, to nine tenths of them).
    """

    support: Annotated[Path | None, _SUPPORT + "; needed"] = None
    image: Annotated[Path | None, "write a PNG of which classes are taken for which"] = None
    json: Annotated[Path | None, JSON] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.support is not None, "Name the folder of labelled photos with --support.")


@dataclass(frozen=True, kw_only=True)
class AppSettings(PhotoSettings):
    """Open a page for your own photos: name classes, adapt, classify, download the classifier.

    This machine serves it to itself until Ctrl-C. Nothing is sent anywhere, and photos that were
    added are deleted at the end. It needs Gradio, the extra `app` of this package.
    """

    host: Annotated[
        str, "address to listen at; 0.0.0.0 lets all who can reach this machine use the page"
    ] = "127.0.0.1"
    port: Annotated[int, "port to listen at; 0 takes any that is free"] = 7860

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.port <= 65535, f"--port must be in 0..65535, not {self.port}.")
