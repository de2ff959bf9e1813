"""Which class and split an image belongs to: by split csvs, or by the published class lists."""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from unicorn_maml.data.archives import Member, Problem, Sources, shown
from unicorn_maml.data.listing import Item, ListedClass, Listing
from unicorn_maml.errors import FileError

__all__ = ["list_by_class_names", "list_by_csvs"]

_CSVS = {"train.csv": "base", "val.csv": "validation", "test.csv": "novel"}


def list_by_class_names(
    sources: Sources,
    images: Iterable[Member],
    class_of: Callable[[Member], str | None],
    split_of: Mapping[str, str],
) -> Listing:
    """Sort images into the classes of a published list; other images are left out and counted."""
    listing = Listing()
    found: dict[str, list[Item]] = defaultdict(list)
    for image in images:
        name = class_of(image)
        if name is None or name not in split_of:
            listing.not_in_data_set += 1
        else:
            found[name].append(Item(image))
    for name, split in split_of.items():
        if name in found:
            listing.classes.append(ListedClass(name, split, found[name]))
        elif found:
            listing.problems.append(Problem(f"class {name}", f"has no images in {sources.label}"))
    return listing


def list_by_csvs(sources: Sources, images: Iterable[Member]) -> Listing | None:
    """Sort images as `train.csv`, `val.csv` and `test.csv` say, or return None if none is there.

    Their rows are `filename,label` and perhaps more; a first row that begins with `filename` is a
    header. Folders are not part of the file name, unless they are needed to tell files apart.
    """
    csvs = {name: [each for each in sources.members if each.name == name] for name in _CSVS}
    if not any(csvs.values()):
        return None
    listing = Listing()
    by_name: dict[str, list[Member]] = defaultdict(list)
    for image in images:
        by_name[image.name].append(image)
    named: dict[Member, str] = {}
    for csv_name, split in _CSVS.items():
        classes: dict[str, list[Item]] = defaultdict(list)
        for file, label in _rows(sources, csv_name, csvs[csv_name], listing.problems):
            try:
                image = _find(file, label, by_name)
                if image in named:
                    raise FileError(f"is named twice ({named[image]} and {csv_name})")
            except FileError as error:
                listing.problems.append(Problem(f"{csv_name}: {shown(file)}", str(error)))
                continue
            named[image] = csv_name
            classes[label].append(Item(image))
        listing.classes += [ListedClass(label, split, each) for label, each in classes.items()]
    listing.not_in_data_set = sum(map(len, by_name.values())) - len(named)
    return listing


def _find(file: str, label: str, by_name: Mapping[str, list[Member]]) -> Member:
    name = file.rpartition("/")[2]
    candidates = by_name.get(name, [])
    for ending in (f"/{file}", f"/{label}/{name}"):
        if len(candidates) > 1:
            fitting = [each for each in candidates if f"/{each.path}".endswith(ending)]
            candidates = fitting or candidates
    if not candidates:
        raise FileError("is not in the sources; name all folders and archives of the data set")
    if len(candidates) > 1:
        raise FileError("is in the sources more than once; remove the copies")
    return candidates[0]


def _rows(
    sources: Sources, name: str, found: list[Member], problems: list[Problem]
) -> list[tuple[str, str]]:
    if len(found) != 1:
        reason = "is missing; add it, or remove the other csvs to use the published class lists"
        if found:
            reason = f"is there {len(found)} times; keep one"
        problems.append(Problem(name, reason))
        return []
    try:
        text = sources.read(found[0]).decode("utf-8-sig")
        table = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if row]
        if table and table[0][0].lower() == "filename":
            table = table[1:]
        if not table or min(map(len, table)) < 2:
            raise FileError("does not hold `filename,label` rows")
    except (FileError, UnicodeDecodeError, csv.Error) as error:
        problems.append(sources.problem(found[0], f"{error}; get it again"))
        return []
    return [(row[0], row[1]) for row in table]
