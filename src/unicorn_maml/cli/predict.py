"""`unicorn-maml predict`: classify a user's own photos."""

import csv
import io
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.errors import FileError, StoppedError, UnicornError, UsageError
from unicorn_maml.files import check_can_write, unfinished, write_json, write_text
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import PhotoSettings, PredictSettings

if TYPE_CHECKING:
    from unicorn_maml import FewShotClassifier
    from unicorn_maml.data.photo_folders import Photos

__all__ = ["predict", "tell_of_others"]

_UNSURE = "unsure"
_ROWS_SHOWN = 100  # where a file holds them all
_SHOWN = 20


@dataclass(frozen=True)
class _Answer:
    path: Path
    file: str
    label: str  # or `unsure`; labels are as the folders are called, which may be no UTF-8
    ranked: list[tuple[str, float]]  # classes and their probabilities, the most probable first


def predict(settings: PredictSettings) -> None:
    """Classify photos."""
    from unicorn_maml.data.photo_folders import photos_in

    _check_can_write_results(settings)
    queries = photos_in(settings.query) if settings.query else None
    classifier = _classifier(settings)
    if settings.copy_to:
        _check_labels_name_folders(classifier)
    if settings.save:
        classifier.save(settings.save)
        notes.print(f"The classifier is in {settings.save}.", soft_wrap=True)
    if queries is None:
        return
    tell_of_others(queries)
    answers: list[_Answer] = []
    bad: dict[str, str] = {}  # files that cannot be read, and why
    try:
        with progress_bar("classifying", notes) as update:
            for part in _answers(classifier, queries, settings.threshold, bad):
                answers += part
                update(len(answers) + len(bad), len(queries.paths), {})
    except KeyboardInterrupt:
        _write_files(settings, classifier, answers, bad)
        files = " and ".join(str(each) for each in (settings.csv, settings.json) if each)
        kept = f"; the answers so far are in {files}" if files else ""
        raise StoppedError(f"Stopped{kept}.") from None
    in_file = None
    try:  # first: the reader of what is printed may go away (`| head`)
        _write_files(settings, classifier, answers, bad)
        in_file = settings.csv or settings.json
        if settings.copy_to:
            _copy(answers, settings.copy_to)
    finally:  # but a full disk does not cost the answers
        if answers:
            _print_answers(answers, in_file=in_file)
    if bad:
        for file, reason in bad.items():
            notes.print(f"{file} {reason}; it is left out.", soft_wrap=True)
        raise UnicornError(
            f"{len(bad)} of {len(queries.paths)} photos could not be read; the others are done."
            if answers
            else "None of the photos in --query could be read; mend them or name others."
        )


def _check_can_write_results(settings: PredictSettings) -> None:
    if settings.copy_to:
        _check_copy_folder(settings.copy_to)
    if settings.save:
        from unicorn_maml.classifier.saved import check_can_save

        check_can_save(settings.save)
    # A file may lie in one of the new folders, which must not be made for it already.
    new = [each.absolute() for each in (settings.copy_to, settings.save) if each]
    for file in (settings.csv, settings.json):
        if file and not any(folder in file.absolute().parents for folder in new):
            check_can_write(file)


def _classifier(settings: PredictSettings) -> "FewShotClassifier":
    from unicorn_maml import FewShotClassifier
    from unicorn_maml.data.photo_folders import labelled_photos

    if settings.classifier:
        return FewShotClassifier.load(settings.classifier, device=settings.device)
    assert settings.support is not None
    photos, labels = labelled_photos(settings.support)
    tell_of_others(photos)
    asked = {field.name: getattr(settings, field.name) for field in fields(PhotoSettings)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        classifier = FewShotClassifier(**asked).fit(photos.paths, labels)
    for warning in told:
        notes.print(str(warning.message), soft_wrap=True)
    what = "all parameters" if classifier.adapt_ == "all" else "the head"
    notes.print(
        f"Adapted {what} of {settings.model} to {len(labels)} photos of "
        f"{len(classifier.classes_)} classes: {classifier.inner_steps_} inner steps at "
        f"{classifier.inner_lr_:.3g}, {classifier.normalization_} normalisation.",
        soft_wrap=True,
    )
    return classifier


def tell_of_others(photos: "Photos") -> None:
    """Name the files that are no photos."""
    for path in photos.others[:_SHOWN]:
        notes.print(f"{photos.name(path)} is no photo and is left out.", soft_wrap=True)
    if len(photos.others) > _SHOWN:
        notes.print(f"{len(photos.others) - _SHOWN} more files are no photos and are left out.")


def _answers(
    classifier: "FewShotClassifier", queries: "Photos", threshold: float, bad: dict[str, str]
) -> Iterator[list[_Answer]]:
    """Yield answers some photos at a time, so that memory is bounded; add to `bad` as they come."""
    import numpy as np

    from unicorn_maml.data.photos import iterate_pixels

    classes = [str(name) for name in classifier.classes_]
    done = 0
    for part in iterate_pixels(queries.paths, classifier.network_.preprocessing):
        paths = queries.paths[done : done + len(part)]
        done += len(part)
        good = [
            (path, each)
            for path, each in zip(paths, part, strict=True)
            if not isinstance(each, FileError)
        ]
        bad |= {
            queries.name(path): str(each)
            for path, each in zip(paths, part, strict=True)
            if isinstance(each, FileError)
        }
        if not good:
            continue
        probabilities = classifier.probabilities_of(np.stack([pixels for _, pixels in good]))
        ranks = np.argsort(-probabilities, 1, kind="stable")
        answers = []
        for (path, _), row, order in zip(good, probabilities, ranks, strict=True):
            ranked = [(classes[place], float(row[place])) for place in order]
            best, probability = ranked[0]
            label = best if probability >= threshold else _UNSURE
            answers.append(_Answer(path, queries.name(path), label, ranked))
        yield answers


def _print_answers(answers: list[_Answer], *, in_file: Path | None) -> None:
    from unicorn_maml.data.archives import shown

    first = answers[:_ROWS_SHOWN] if in_file else answers
    table = Table("photo", "label", "probability", "runner-up", "its probability")
    for each in first:
        (best, first_share), (runner_up, second_share), *_ = each.ranked
        label = each.label if each.label == best else f"{each.label} ({best}?)"
        numbers = f"{first_share:.2f}", f"{second_share:.2f}"
        table.add_row(each.file, shown(label), numbers[0], shown(runner_up), numbers[1])
    console.print(table)
    if len(first) < len(answers):
        more = len(answers) - len(first)
        console.print(f"and {more} more; all are in {in_file}", soft_wrap=True)
    counts = Counter(each.label for each in answers)
    per_class = Table("label", "photos")
    for label, count in sorted(counts.items()):
        per_class.add_row(shown(label), str(count))
    console.print(per_class)


def _write_files(
    settings: PredictSettings,
    classifier: "FewShotClassifier",
    answers: list[_Answer],
    bad: dict[str, str],
) -> None:
    from unicorn_maml.data.archives import shown

    if settings.csv:
        write_text(settings.csv, _csv(answers))
    if settings.json:
        result = {
            "answers": [
                {
                    "file": each.file,
                    "label": shown(each.label),
                    "probabilities": {shown(name): share for name, share in each.ranked},
                }
                for each in answers
            ],
            "unreadable": bad,
            "threshold": settings.threshold,
            "model": str(classifier.model),
            "adapt": classifier.adapt_,
            "inner_steps": classifier.inner_steps_,
            "inner_lr": classifier.inner_lr_,
            "normalization": classifier.normalization_,
        }
        write_json(settings.json, result)


def _csv(answers: list[_Answer]) -> str:
    from unicorn_maml.data.archives import shown

    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(["file", "label", "best", "probability", "runner_up", "runner_up_probability"])
    for each in answers:
        (best, first_share), (runner_up, second_share), *_ = each.ranked
        numbers = f"{first_share:.6f}", f"{second_share:.6f}"
        label, best, runner_up = map(shown, (each.label, best, runner_up))
        writer.writerow([each.file, label, best, numbers[0], runner_up, numbers[1]])
    return table.getvalue()


def _check_copy_folder(folder: Path) -> None:
    try:
        if folder.exists() and (folder.is_file() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists already; choose another --copy-to.")
        trial = unfinished(folder / "photos" if folder.exists() else folder)
        trial.mkdir(parents=True, exist_ok=True)
        trial.rmdir()
    except OSError as error:
        raise UsageError(
            f"Cannot write {folder} ({error.strerror}); choose another --copy-to."
        ) from error


def _check_labels_name_folders(classifier: "FewShotClassifier") -> None:
    for label in map(str, classifier.classes_):
        # A saved classifier may come from anyone, and its labels must not lead out of the folder.
        if not _names_a_folder(label):
            raise UsageError(f"The label {label!r} cannot be the name of a folder for --copy-to.")


def _names_a_folder(label: str) -> bool:
    try:
        os.fsencode(label)
    except UnicodeEncodeError:
        return False
    in_place = label == Path(label).name and label not in ("", ".", "..")
    return in_place and "\\" not in label and "\0" not in label


def _copy(answers: list[_Answer], folder: Path) -> None:
    """Copy photos into class folders; photos of the same name get numbers."""
    for each in answers:
        target = folder / each.label / each.path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        number = 2
        while target.exists():
            target = target.with_name(f"{each.path.stem}-{number}{each.path.suffix}")
            number += 1
        shutil.copy2(each.path, target)
