"""A classifier in the manner of scikit-learn that learns from a few photos per class."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from unicorn_maml.classifier.fitting import OnInnerStep, adapt_to_photos
from unicorn_maml.classifier.saved import (
    Saved,
    load_classifier,
    refusing_nonsense,
    save_classifier,
)
from unicorn_maml.data.photos import pixels_of_photos
from unicorn_maml.devices import choose_device
from unicorn_maml.errors import UsageError
from unicorn_maml.settings import DEFAULT_MODEL, PhotoSettings

__all__ = ["FewShotClassifier"]


class FewShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Adapts a trained network to a few photos per class.

    `model` is a checkpoint (a folder, or the name of one that comes with the package) or
    `timm/NAME`. `adapt="all"` is the inner loop on all parameters, `"head"` keeps the backbone as
    it is, `"auto"` takes what suits the model and this machine. Inner steps, rate and policy are
    the model's own unless given. Nothing is drawn at random; `random_state` is there because tools
    that work with estimators set it.

    Photos are paths, images of Pillow or arrays (uint8, or floats in 0..1) of any sizes; labels are
    strings or integers. After `fit`: `classes_`, `adapt_` ("all" or "head"), `inner_steps_`,
    `inner_lr_`, `normalization_`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT_MODEL,
        adapt: str = "auto",
        inner_steps: int | None = None,
        inner_lr: float | None = None,
        normalization: str | None = None,
        device: str = "auto",
        random_state: Any = None,
    ):
        self.model = model
        self.adapt = adapt
        self.inner_steps = inner_steps
        self.inner_lr = inner_lr
        self.normalization = normalization
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803
        y: ArrayLike,
        *,
        on_step: OnInnerStep | None = None,
    ) -> "FewShotClassifier":
        """Adapt to photos and their labels.

        `on_step(m, probabilities)` sees the probabilities (photos, classes) of the photos
        themselves after m = 0..M inner steps.
        """
        given = self.get_params()
        del given["random_state"]
        asked = PhotoSettings(**_plain(given))
        labels = _checked_labels(y)
        if len(labels) != len(X):
            raise UsageError(f"There are {len(X)} photos but {len(labels)} labels.")
        self.classes_, slots = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise UsageError("All photos have the same label; give photos of two or more classes.")
        fitted = adapt_to_photos(X, slots, asked, on_step)
        if fitted.note:
            warnings.warn(fitted.note, stacklevel=2)
        self.network_ = fitted.network
        self.adapt_ = fitted.inner_loop.adapt
        self.inner_steps_ = fitted.inner_loop.inner_steps
        self.inner_lr_ = fitted.inner_loop.inner_lr
        self.normalization_ = fitted.inner_loop.normalization
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities (photos, classes) in the order of `classes_`."""
        check_is_fitted(self)
        return self.probabilities_of(pixels_of_photos(X, self.network_.preprocessing))

    def probabilities_of(self, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Probabilities of photos that are prepared already, (n, H, W, C)."""
        logits = self.network_.logits(pixels).double()
        return np.asarray(torch.softmax(logits, 1).numpy())

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each photo."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(1)])

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the adapted classifier; a classifier that was saved there before is replaced."""
        check_is_fitted(self)
        state = {name: getattr(self, name) for name in _FITTED}
        given = _plain(self.get_params())
        save_classifier(Path(folder), Saved(self.network_, self.classes_, given, state))

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "auto") -> "FewShotClassifier":
        """Load an adapted classifier; it needs neither its photos nor its checkpoint."""
        folder = Path(folder)
        with refusing_nonsense(folder):
            saved = load_classifier(folder, choose_device(device))
            classifier = cls(**{**saved.parameters, "device": device})
            classifier.network_, classifier.classes_ = saved.network, saved.classes
            for name in _FITTED:
                setattr(classifier, name, saved.state[name])
        return classifier


_FITTED = ("adapt_", "inner_steps_", "inner_lr_", "normalization_")


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """Parameters as settings and files take them; searches hand over NumPy's numbers."""
    plain = {}
    for name, value in given.items():
        if isinstance(value, np.generic):
            value = value.item()
        plain[name] = os.fspath(value) if isinstance(value, os.PathLike) else value
    return plain


def _checked_labels(y: Any) -> NDArray[Any]:
    if y is None:
        raise UsageError("There are no labels; give one for every photo.")
    labels = np.asarray(y)
    if labels.dtype == object:
        values = labels.ravel().tolist()
        if all(isinstance(value, str) for value in values):
            labels = labels.astype(str)
        elif all(isinstance(value, int) for value in values):
            labels = labels.astype(np.int64)
    elif labels.dtype.kind == "U" and any(not isinstance(value, str) for value in y):
        labels = labels.astype(object)  # NumPy made strings of what was mixed
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        raise UsageError(
            "Labels must be strings or integers, one for every photo; none may be missing, a "
            "fraction, or of another kind than the rest."
        )
    return labels
