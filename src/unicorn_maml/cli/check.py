"""`unicorn-maml check`: what to expect of a classifier, from its labelled photos themselves."""

from typing import TYPE_CHECKING, Any

from rich.table import Table

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.cli.predict import tell_of_others
from unicorn_maml.errors import StoppedError, UsageError
from unicorn_maml.files import check_can_write, write_json
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import CheckSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["check"]

_SUSPECTS_SHOWN = 20


def check(settings: CheckSettings) -> None:
    """Estimate accuracy from the labelled photos themselves."""
    import numpy as np

    from unicorn_maml.classifier.checking import check_photos
    from unicorn_maml.data.archives import shown
    from unicorn_maml.data.photo_folders import labelled_photos
    from unicorn_maml.intervals import share_interval

    for file in (settings.image, settings.json):
        check_can_write(file)
    assert settings.support is not None
    photos, labels = labelled_photos(settings.support)
    tell_of_others(photos)
    names, slots = np.unique(labels, return_inverse=True)
    classes = [shown(str(name)) for name in names]
    if np.bincount(slots).max() < 2:
        raise UsageError("Every class has one photo only; add a second one to check a class.")
    try:
        with progress_bar("checking", notes) as update:
            checked = check_photos(photos.paths, slots, settings, update)
    except KeyboardInterrupt:
        raise StoppedError("Stopped.") from None
    if checked.note:
        notes.print(checked.note, soft_wrap=True)
    labelled, taken_for = slots[checked.held_out], checked.probabilities.argmax(1)
    right, held = int((labelled == taken_for).sum()), len(labelled)
    low, high = (100 * share for share in share_interval(right, held))
    loop = checked.inner_loop
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(confusion, (labelled, taken_for), 1)
    own = checked.probabilities[np.arange(held), labelled]
    suspects = [
        {
            "file": photos.name(photos.paths[checked.held_out[place]]),
            "label": classes[labelled[place]],
            "looks_like": classes[taken_for[place]],
            "probability": float(checked.probabilities[place].max()),
            "probability_of_label": float(own[place]),
        }
        for place in np.argsort(own, kind="stable").tolist()
        if labelled[place] != taken_for[place]
    ]
    # Files come first: the reader of what is printed may go away (`| head`).
    if settings.image:
        from unicorn_maml.reporting.confusion import write_confusion

        write_confusion(confusion, classes, settings.image)
    if settings.json:
        result = {
            "accuracy": 100 * right / held,
            "interval": [low, high],
            "photos": held,
            "folds": checked.folds,
            "classes": classes,
            "confusion": confusion.tolist(),
            "look_mislabelled": suspects,
            "model": settings.model,
            "adapt": loop.adapt,
            "inner_steps": loop.inner_steps,
            "inner_lr": loop.inner_lr,
            "normalization": loop.normalization,
        }
        write_json(settings.json, result)
    console.print(
        f"Expected accuracy: {100 * right / held:.1f} % (95% interval {low:.1f} to {high:.1f}); "
        f"{right} of {held} photos right, each held out once, in {checked.folds} folds."
    )
    console.print(
        f"{settings.model}: adapt {loop.adapt}, {loop.inner_steps} inner steps at "
        f"{loop.inner_lr:.3g}, {loop.normalization} normalisation.",
        soft_wrap=True,
    )
    _print_classes(classes, np.bincount(slots), confusion)
    _print_suspects(suspects)
    if settings.image:
        console.print(f"Which classes are taken for which: {settings.image}", soft_wrap=True)


def _print_classes(
    classes: list[str], counts: "NDArray[np.int64]", confusion: "NDArray[np.int64]"
) -> None:
    table = Table("class", "photos", "right", "most often taken for")
    for slot, name in enumerate(classes):
        row = confusion[slot].copy()
        held, right = int(row.sum()), int(row[slot])
        row[slot] = 0
        other = f"{classes[int(row.argmax())]} ({row.max()})" if row.any() else ""
        share = f"{right} of {held}" if held else "not checked: one photo only"
        table.add_row(name, str(counts[slot]), share, other)
    console.print(table)


def _print_suspects(suspects: list[dict[str, Any]]) -> None:
    if not suspects:
        return
    table = Table("look mislabelled", "looks like", "probability", "of its label")
    for each in suspects[:_SUSPECTS_SHOWN]:
        numbers = f"{each['probability']:.2f}", f"{each['probability_of_label']:.2f}"
        table.add_row(each["file"], each["looks_like"], *numbers)
    console.print(table)
    if len(suspects) > _SUSPECTS_SHOWN:
        more = len(suspects) - _SUSPECTS_SHOWN
        console.print(f"and {more} more; --json FILE keeps them all")
