"""python benchmarks/photo_classifiers.py STORE [--split novel] [--model NAME] [--tasks 1000]

What FewShotClassifier does with a model that was never meta-trained (its head adapts) beside what
one would do instead with the same features: nearest centroid, logistic regression, one nearest
neighbour. All see the same tasks; differences are paired.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from unicorn_maml.adaptation.head_only import adapt_head
from unicorn_maml.classifier.inner_loop import inner_loop_of
from unicorn_maml.classifier.model import PhotoModel, open_model
from unicorn_maml.classifier.network import normalised
from unicorn_maml.cli.failures import failing_in_a_sentence
from unicorn_maml.data.sources import open_store
from unicorn_maml.data.store import ImageStore
from unicorn_maml.data.tasks import TaskSampler
from unicorn_maml.devices import choose_device
from unicorn_maml.intervals import mean_interval
from unicorn_maml.methods.centroid import centroid_logits
from unicorn_maml.methods.features import FeatureLoader, frozen_features
from unicorn_maml.processes import keep_freed_memory
from unicorn_maml.settings import DEFAULT_MODEL, PhotoSettings

_WAY, _QUERY = 5, 15
_OURS = "adapted head"

# From support features (S, D), their slots (S,) and query features (Q, D) to slots (Q,).
Classify = Callable[[Tensor, Tensor, Tensor], Tensor]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("store", help="store folder")
    parser.add_argument("--split", default="novel", help="classes that tasks are drawn from")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="pre-trained checkpoint")
    parser.add_argument("--tasks", type=int, default=1000, help="tasks for each number of shots")
    parser.add_argument("--images", type=int, help="of each class only its first so many images")
    parser.add_argument("--seed", type=int, default=0, help="of the tasks")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    arguments = parser.parse_args()
    keep_freed_memory()
    store = open_store(arguments.store)
    if arguments.images:
        counts = [min(entry.count, arguments.images) for entry in store.classes]
        pairs = zip(store.classes, counts, strict=True)
        store = replace(store, classes=tuple(replace(each, count=n) for each, n in pairs))
    model = open_model(arguments.model)
    features = _features(model, store, arguments.split, choose_device(arguments.device))
    ways = {
        _OURS: _adapted_head(model),
        "nearest centroid": _nearest_centroid,
        "logistic regression": _logistic_regression,
        "1 nearest neighbour": _nearest_neighbour,
    }
    title = f"{arguments.model}, {arguments.split} classes of {store.folder.name}, "
    table = Table("", *ways, title=title + f"{arguments.tasks} tasks")
    for shot in (1, 5, 20):
        sampler = TaskSampler(
            store, arguments.split, way=_WAY, shot=shot, query=_QUERY, seed=arguments.seed
        )
        loader = FeatureLoader(sampler, sampler.rows_of_split(), features)
        scores = _scores(ways, loader, arguments.tasks)
        table.add_row(f"{shot} shot", *(str(mean_interval(each)) for each in scores.values()))
        gains = [scores[_OURS] - each for name, each in scores.items() if name != _OURS]
        cells = (
            f"{mean_interval(gain).mean:+.2f} ± {mean_interval(gain).ci95:.2f}" for gain in gains
        )
        table.add_row("  adapted head minus it", "", *cells)
    Console(highlight=False, width=140).print(table)


@torch.no_grad()
def _features(model: PhotoModel, store: ImageStore, split: str, device: torch.device) -> Tensor:
    """Features (n, D) of all images of the split, in the order of their rows."""
    model.backbone.to(device)
    found = []
    for entry in store.classes_of(split):
        rows = np.array(store.images[entry.start : entry.start + entry.count])
        for start in range(0, len(rows), 64):
            pixels = rows[start : start + 64]
            images = normalised(pixels, model.pixel_mean, model.pixel_std, device)
            found.append(frozen_features(model.backbone, images, "float32").cpu())
    return torch.cat(found)


def _scores(ways: dict[str, Classify], loader: FeatureLoader, tasks: int) -> dict[str, np.ndarray]:
    scores: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(tasks):
        task = loader.load([number])
        given = task.support_images[0], task.support_labels[0], task.query_images[0]
        for name, classify in ways.items():
            right = classify(*given) == task.query_labels[0]
            scores[name].append(100 * float(right.double().mean()))
    return {name: np.array(each) for name, each in scores.items()}


def _adapted_head(model: PhotoModel) -> Classify:
    def classify(support: Tensor, slots: Tensor, query: Tensor) -> Tensor:
        inner_loop = inner_loop_of(PhotoSettings(), "head", model, support, _WAY)
        head = model.head(_WAY)
        weight, bias = adapt_head(head, support[None], slots[None], inner_loop)
        return (query @ weight[0].T + bias[0]).argmax(1)

    return classify


def _nearest_centroid(support: Tensor, slots: Tensor, query: Tensor) -> Tensor:
    return centroid_logits(support[None], slots[None], query[None], _WAY, "cosine")[0].argmax(1)


def _logistic_regression(support: Tensor, slots: Tensor, query: Tensor) -> Tensor:
    fitted = LogisticRegression(max_iter=1000).fit(support.numpy(), slots.numpy())
    return torch.from_numpy(fitted.predict(query.numpy()))


def _nearest_neighbour(support: Tensor, slots: Tensor, query: Tensor) -> Tensor:
    return slots[(F.normalize(query, dim=1) @ F.normalize(support, dim=1).T).argmax(1)]


if __name__ == "__main__":
    with failing_in_a_sentence():
        main()
