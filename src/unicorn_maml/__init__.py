"""MAML and UNICORN-MAML for few-shot image classification.

`FewShotClassifier` is here; all else is imported from the rooms: `unicorn_maml.data`, `models`,
`adaptation`, `methods`, `training`, `evaluation`, `studies`, `classifier`. Nothing is imported
before it is asked for, so that `unicorn-maml --help` answers at once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unicorn_maml.classifier.estimator import FewShotClassifier

__all__ = ["FewShotClassifier", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "FewShotClassifier":
        from unicorn_maml.classifier.estimator import FewShotClassifier

        return FewShotClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
