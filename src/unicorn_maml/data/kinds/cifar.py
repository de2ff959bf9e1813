"""CIFAR-FS and FC100: the 100 classes of CIFAR-100, 600 images of 32x32 pixels each.

CIFAR-FS has 64 base, 16 validation and 20 novel classes. FC100 keeps superclasses together: 60, 20
and 20 classes of 12, 4 and 4 superclasses.

Accepted: the binary version of CIFAR-100 (`cifar-100-binary.tar.gz`, or its files), or images in
folders named by class, such as `data/apple/....png` or `train/apple/....png`; the published class
lists decide on the split. The Python version of CIFAR-100 holds pickles and is refused: loading a
pickle runs whatever it says.
"""

from collections import defaultdict

from unicorn_maml.data.archives import DAMAGED, Member, Sources
from unicorn_maml.data.class_lists import cifar100_superclasses, published_splits
from unicorn_maml.data.class_splits import list_by_class_names
from unicorn_maml.data.listing import Item, ListedClass, Listing, RawPixels, images_of
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.settings import DataPrepareSettings

__all__ = ["list_cifar"]

_SIDE, _CHANNELS = 32, 3
_LABELS = 2  # bytes before the pixels of a record: superclass, class
_RECORD = _LABELS + _SIDE * _SIDE * _CHANNELS
_BINARIES = ("train.bin", "test.bin")
_NAMES = "fine_label_names.txt"


def list_cifar(sources: Sources, settings: DataPrepareSettings) -> Listing:
    """List the records of the binary version, or else images by the folder they lie in."""
    splits = _class_splits(settings.dataset)
    files = {each.name: each for each in sources.members}
    if any(name in files for name in _BINARIES):
        return _list_records(sources, files, splits)
    if any(each.folder == "cifar-100-python" for each in sources.members):
        raise UsageError(
            f"{sources.label} holds pickles, which are never loaded because they can run any code; "
            "give cifar-100-binary.tar.gz instead, the binary version of the same images."
        )
    return list_by_class_names(sources, images_of(sources), lambda image: image.folder, splits)


def _class_splits(dataset: str) -> dict[str, str]:
    splits = published_splits(dataset)
    if dataset != "fc100":
        return splits
    return {name: splits[above] for name, above in cifar100_superclasses().items()}


def _list_records(sources: Sources, files: dict[str, Member], splits: dict[str, str]) -> Listing:
    """List both parts of CIFAR-100, because the few-shot data sets split by class instead."""
    missing = [name for name in (*_BINARIES, _NAMES) if name not in files]
    if missing:
        raise FileError(f"{sources.label} lacks {' and '.join(missing)}; get the archive again.")
    names = sources.text(files[_NAMES]).split()
    classes: dict[str, list[Item]] = defaultdict(list)
    for binary in _BINARIES:
        member = files[binary]
        if member.size % _RECORD:
            raise FileError(f"{sources.name(member)} is cut off; get the archive again.")
        for record, label in enumerate(_record_labels(sources, member)):
            if label >= len(names) or names[label] not in splits:
                raise FileError(f"{sources.name(member)} has an unknown class {label}.")
            offset = record * _RECORD + _LABELS
            raw = RawPixels(offset, _SIDE, _SIDE, _CHANNELS, planar=True)
            classes[names[label]].append(Item(member, raw))
    return Listing([ListedClass(name, splits[name], items) for name, items in classes.items()])


def _record_labels(sources: Sources, member: Member) -> list[int]:
    try:
        with sources.stream(member) as stream:
            return [stream.read(_RECORD)[1] for _ in range(member.size // _RECORD)]
    except (*DAMAGED, IndexError) as error:
        raise FileError(f"{sources.name(member)} is damaged; get the archive again.") from error
