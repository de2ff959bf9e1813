"""From what a user calls a store to an opened store."""

import os
import re
from pathlib import Path

from unicorn_maml.data.glyphs import IMAGES_PER_CLASS, VERSION, draw_glyphs
from unicorn_maml.data.store import ImageStore, StoredClass, write_store
from unicorn_maml.errors import FileError, UsageError

__all__ = ["cache_folder", "is_embedded", "open_store"]

_GLYPHS = re.compile(r"glyphs(?:-(?P<size>\d+)x(?P<channels>\d+))?")


def is_embedded(name: str) -> bool:
    """Whether a store of this name is drawn where there is no folder of that name."""
    return _GLYPHS.fullmatch(name) is not None


def open_store(name: str) -> ImageStore:
    """Open a store folder, or an embedded store by its name.

    `glyphs` is 28x28 grey; `glyphs-84x3` has the same drawings at 84x84 in colour, and so on. An
    embedded store is drawn once and kept in the cache folder.
    """
    embedded = _GLYPHS.fullmatch(name)
    if embedded and not Path(name).is_dir():
        return _open_glyphs(int(embedded["size"] or 28), int(embedded["channels"] or 1))
    if not Path(name).is_dir():
        raise UsageError(
            f"There is no store folder {name!r}; name a folder, or `glyphs` for the embedded store."
        )
    return ImageStore.open(Path(name))


def cache_folder() -> Path:
    """Where embedded stores are kept: $UNICORN_MAML_CACHE, or the user's cache folder."""
    if chosen := os.environ.get("UNICORN_MAML_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "unicorn-maml"


def _open_glyphs(size: int, channels: int) -> ImageStore:
    folder = cache_folder() / f"glyphs-v{VERSION}-{size}x{channels}"
    if folder.is_dir():
        try:
            return ImageStore.open(folder)
        except (FileError, UsageError):
            pass  # a damaged cache is no loss: draw it again
    images, named = draw_glyphs(size=size, channels=channels)
    classes = [
        StoredClass(name, split, number * IMAGES_PER_CLASS, IMAGES_PER_CLASS)
        for number, (name, split) in enumerate(named)
    ]
    try:
        return write_store(
            folder,
            images,
            classes,
            source="glyphs: characters drawn by unicorn_maml.data.glyphs",
            preprocessing=f"drawn at {size}x{size}, {channels} channels",
        )
    except (OSError, FileError, UsageError):
        if folder.is_dir():  # another process drew the same store in the meantime
            return ImageStore.open(folder)
        raise
