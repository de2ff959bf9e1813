"""CUB-200-2011: 200 birds, 100 base, 50 validation and 50 novel classes.

Accepted: the official tree or archive (`images/001.Black_footed_Albatross/...jpg`, `images.txt`,
`bounding_boxes.txt`), or prepared archives of the same layout. Split csvs are used where they are
there, otherwise the published class lists. `--crop-to-box` cuts every image to the bird's
annotated box first; the boxes are in pixels of the official images.
"""

from dataclasses import replace

from unicorn_maml.data.archives import Sources
from unicorn_maml.data.class_lists import published_splits
from unicorn_maml.data.class_splits import list_by_class_names, list_by_csvs
from unicorn_maml.data.decode import image_size
from unicorn_maml.data.listing import Item, ListedClass, Listing, images_of
from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.settings import DataPrepareSettings

__all__ = ["list_cub"]

Box = tuple[float, float, float, float]


def list_cub(sources: Sources, settings: DataPrepareSettings) -> Listing:
    """List the images by split csvs, or else by the folders they lie in."""
    # The segmentation masks that some copies include are PNGs of the same names.
    images = [each for each in images_of(sources) if each.name.lower().endswith((".jpg", ".jpeg"))]
    listing = list_by_csvs(sources, images)
    if listing is None:
        listing = list_by_class_names(
            sources, images, lambda image: image.folder, published_splits("cub")
        )
    if settings.crop_to_box:
        boxes = _read_boxes(sources)
        listing.classes = [
            ListedClass(each.name, each.split, [_with_box(item, boxes) for item in each.items])
            for each in listing.classes
        ]
        _check_scale(sources, listing)
    return listing


def _read_boxes(sources: Sources) -> dict[str, Box]:
    """Return (left, top, right, bottom) by `class/file` from the two official index files."""
    files = _read_index(sources, "images.txt")
    boxes = _read_index(sources, "bounding_boxes.txt")
    result = {}
    try:
        for number, values in boxes.items():
            left, top, width, height = (float(value) for value in values.split())
            result[files[number]] = (left, top, left + width, top + height)
        return result
    except (ValueError, KeyError) as error:
        raise FileError(
            f"images.txt and bounding_boxes.txt do not fit together ({error!r}); get them again."
        ) from error


def _read_index(sources: Sources, name: str) -> dict[str, str]:
    found = [each for each in sources.members if each.name == name]
    if not found:
        raise UsageError(f"--crop-to-box needs {name}, which is not in {sources.label}.")
    lines = sources.text(found[0]).splitlines()
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in lines if line.strip()}


def _with_box(item: Item, boxes: dict[str, Box]) -> Item:
    name = f"{item.member.folder}/{item.member.name}"
    if name not in boxes:
        raise FileError(f"bounding_boxes.txt has no box for {name}; leave out --crop-to-box.")
    return replace(item, box=boxes[name])


def _check_scale(sources: Sources, listing: Listing) -> None:
    """Refuse boxes of larger images: each would still cut something out, but the wrong thing."""
    for each in listing.classes[:40]:
        item = each.items[0]
        try:
            width, height = image_size(sources.read(item.member))
        except FileError:
            continue  # it will be named with the other bad files
        if item.box and (item.box[2] > width + 2 or item.box[3] > height + 2):
            raise UsageError(
                f"The bounding boxes do not fit the images ({sources.name(item.member)} has "
                f"{width}x{height} pixels): give the official images, or leave out --crop-to-box."
            )
