"""MAML and UNICORN-MAML for few-shot image classification.

`FewShotClassifier` and `load`, which takes the name of a shipped checkpoint or a folder, are here;
all else is imported from the rooms: `unicorn_maml.data`, `models`, `adaptation`, `methods`,
`training`, `evaluation`, `studies`, `classifier`. Nothing is imported before it is asked for, so
that `unicorn-maml --help` answers at once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unicorn_maml.classifier.estimator import FewShotClassifier
    from unicorn_maml.training.checkpoint import load_checkpoint as load

__all__ = ["FewShotClassifier", "__version__", "load"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "FewShotClassifier":
        from unicorn_maml.classifier.estimator import FewShotClassifier

        return FewShotClassifier
    if name == "load":
        from unicorn_maml.training.checkpoint import load_checkpoint

        return load_checkpoint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
