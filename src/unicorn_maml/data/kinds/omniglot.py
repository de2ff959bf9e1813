"""Omniglot: 1,623 handwritten characters of 50 alphabets, 20 drawings each, black on white.

Accepted: the official trees or archives `images_background` and `images_evaluation`, or an npz of
`images` uint8 (classes, 20, height, width) with `split`, `alphabet` and `character` per class.

Characters of the 20 evaluation alphabets are novel. Omniglot has no validation set of its own:
here every sixth of the 30 background alphabets, in the order of their names, is for validation, so
that validation characters come from alphabets never trained on, as the novel ones do.
`--rotations` adds the drawings turned by 90, 180 and 270 degrees as new classes, in all splits.
"""

import re
from collections import defaultdict
from dataclasses import replace

from unicorn_maml.data.archives import Member, Sources
from unicorn_maml.data.arrays import read_array, read_header, refuse_large_images
from unicorn_maml.data.listing import Item, ListedClass, Listing, RawPixels, images_of
from unicorn_maml.errors import FileError
from unicorn_maml.settings import DataPrepareSettings

__all__ = ["list_omniglot"]

_PARTS = ("images_background", "images_evaluation")
_VALIDATION_EVERY = 6

Character = tuple[str, str, str]  # part, alphabet, character


def list_omniglot(sources: Sources, settings: DataPrepareSettings) -> Listing:
    """List the characters of an npz, or else of the official trees."""
    listing = Listing()
    arrays = {each.path: each for each in sources.members if each.path.endswith(".npy")}
    characters = _from_arrays(sources, arrays) if arrays else _from_tree(sources, listing)
    alphabets = sorted({alphabet for part, alphabet, _ in characters if part == _PARTS[0]})
    validation = set(alphabets[_VALIDATION_EVERY - 1 :: _VALIDATION_EVERY])
    for (part, alphabet, character), items in characters.items():
        split = "novel" if part == _PARTS[1] else "base"
        if split == "base" and alphabet in validation:
            split = "validation"
        name = f"{alphabet}/{character}"
        listing.classes.append(ListedClass(name, split, items))
        for turns in (1, 2, 3) if settings.rotations else ():
            turned = [replace(item, quarter_turns=turns) for item in items]
            listing.classes.append(ListedClass(f"{name}/rot{90 * turns}", split, turned))
    return listing


def _from_tree(sources: Sources, listing: Listing) -> dict[Character, list[Item]]:
    """Take files at `images_background/ALPHABET/characterNN/FILE`, however deep that lies."""
    characters: dict[Character, list[Item]] = defaultdict(list)
    for image in images_of(sources):
        place = image.parts[-4:-1]
        if len(place) == 3 and place[0] in _PARTS:
            characters[place[0], place[1], place[2]].append(Item(image))
        else:
            listing.not_in_data_set += 1
    for part in _PARTS:
        if characters and not any(each[0] == part for each in characters):
            raise FileError(f"{part} is missing; name its folder or archive too.")
    return characters


def _from_arrays(sources: Sources, arrays: dict[str, Member]) -> dict[Character, list[Item]]:
    names = ("images.npy", "split.npy", "alphabet.npy", "character.npy")
    if not set(names) <= arrays.keys():
        raise FileError(
            f"{sources.label} lacks one of the arrays images, split, alphabet and character."
        )
    member = arrays["images.npy"]
    header = read_header(sources, member)
    found = [read_array(sources, arrays[each]) for each in names[1:]]
    if len(header.shape) != 4 or any(each.shape != header.shape[:1] for each in found):
        raise FileError(f"{sources.label} has images {header.shape} that do not fit their names.")
    columns = [[str(value) for value in each] for each in found]
    if not set(columns[0]) <= set(_PARTS):
        raise FileError(f"{sources.label} has a split that is neither of {' and '.join(_PARTS)}.")
    _, drawings, height, width = header.shape
    refuse_large_images(sources.name(member), height, width)
    characters: dict[Character, list[Item]] = defaultdict(list)
    for number, (part, alphabet, character) in enumerate(zip(*columns, strict=True)):
        if re.fullmatch(r"\d+", character):
            character = f"character{int(character):02d}"
        for drawing in range(drawings):
            offset = header.offset + (number * drawings + drawing) * height * width
            item = Item(member, RawPixels(offset, height, width, 1))
            characters[part, alphabet, character].append(item)
    return characters
