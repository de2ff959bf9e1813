"""A classifier that a visitor made: how it came about, its answers, and a copy to take along."""

import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from unicorn_maml import FewShotClassifier
from unicorn_maml.app.uploads import LabelledPhotos
from unicorn_maml.data.photos import pixels_of_photos
from unicorn_maml.errors import UnicornError
from unicorn_maml.settings import PhotoSettings

__all__ = ["Adapted", "Answer", "Step", "adapt"]

_SAVED = "my-classifier"  # folder in the zip file, and its name


@dataclass(frozen=True)
class Step:
    """How well the support photos are told apart after some inner steps."""

    number: int
    accuracy: float  # share of photos whose most probable class is theirs
    probability: float  # of the right class, the mean over the photos


@dataclass(frozen=True, eq=False)  # Gradio hashes what a visit keeps
class Answer:
    """What a photo was taken for, and the support photo whose features are most like its own."""

    photo: Path
    probabilities: dict[str, float]
    nearest: Path
    nearest_label: str


@dataclass(frozen=True, eq=False)
class Adapted:
    """A classifier and the support photos that it was adapted to."""

    classifier: FewShotClassifier
    support: LabelledPhotos
    support_features: Tensor  # (S, D), of unit length
    notes: list[str]

    def classify(self, photos: Sequence[Path]) -> list[Answer]:
        """Classify photos."""
        if not photos:
            return []
        network = self.classifier.network_
        features = network.features(pixels_of_photos(photos, network.preprocessing))
        rows = network.logits_of(features).double().softmax(1).tolist()
        classes = [str(name) for name in self.classifier.classes_]
        nearest = (F.normalize(features) @ self.support_features.T).argmax(1)
        return [
            Answer(
                photo,
                dict(zip(classes, row, strict=True)),
                self.support.paths[place],
                self.support.labels[place],
            )
            for photo, row, place in zip(photos, rows, nearest.tolist(), strict=True)
        ]

    def zipped(self, folder: Path) -> Path:
        """Write the classifier into a zip file that, unpacked, `predict --classifier` takes."""
        self.classifier.save(folder / _SAVED)
        return Path(shutil.make_archive(str(folder / _SAVED), "zip", folder, _SAVED))


def adapt(
    support: LabelledPhotos, asked: PhotoSettings, on_step: Callable[[Step], None]
) -> Adapted:
    """Make a classifier of the photos of a visitor."""
    _, slots = np.unique(support.labels, return_inverse=True)
    rows = np.arange(len(slots))

    def tell(number: int, probabilities: NDArray[np.float64]) -> None:
        right = probabilities.argmax(1) == slots
        on_step(Step(number, float(right.mean()), float(probabilities[rows, slots].mean())))

    chosen = {field.name: getattr(asked, field.name) for field in fields(PhotoSettings)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        try:
            classifier = FewShotClassifier(**chosen)
            classifier.fit(support.paths, support.labels, on_step=tell)
        except UnicornError as error:
            raise type(error)(_with_short_names(str(error), support.paths)) from error
    network = classifier.network_
    features = network.features(pixels_of_photos(support.paths, network.preprocessing))
    notes = [str(warning.message) for warning in told]
    return Adapted(classifier, support, F.normalize(features), notes)


def _with_short_names(sentence: str, paths: Sequence[Path]) -> str:
    """Name photos as the visitor knows them, not by where uploads are kept."""
    for path in paths:
        sentence = sentence.replace(str(path), path.name)
    return sentence
