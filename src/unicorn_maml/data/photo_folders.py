"""Folders of photos: labelled ones, one folder per class, and those that are to be classified."""

from dataclasses import dataclass
from pathlib import Path

from unicorn_maml.data.archives import shown
from unicorn_maml.data.listing import SUFFIXES
from unicorn_maml.errors import UsageError

__all__ = ["Photos", "labelled_photos", "photos_in"]


@dataclass(frozen=True)
class Photos:
    """Photos in the order of their names, and the files beside them that are none."""

    root: Path
    paths: list[Path]
    others: list[Path]

    def name(self, path: Path) -> str:
        """Name a photo by its place in the folder, fit for a message."""
        return shown(str(path.relative_to(self.root)))


def photos_in(path: Path) -> Photos:
    """List the photos in a folder and its folders, or the one photo that is named."""
    if path.is_file():
        found = [path]
        root = path.parent
    elif path.is_dir():
        # Hidden files are no photos: systems and programs leave them.
        found = sorted(
            each
            for each in path.rglob("*")
            if (each.is_file() or _leads_nowhere(each))
            and not any(part.startswith(".") for part in each.relative_to(path).parts)
        )
        root = path
    else:
        raise UsageError(f"There is no folder {shown(str(path))}.")
    photos = [each for each in found if each.name.lower().endswith(SUFFIXES)]
    others = [each for each in found if not each.name.lower().endswith(SUFFIXES)]
    if not photos:
        raise UsageError(
            f"There is no photo in {shown(str(path))}; photos end in {', '.join(SUFFIXES[:4])} or "
            "the like."
        )
    return Photos(root, photos, others)


def _leads_nowhere(path: Path) -> bool:
    """Tell a broken link, which is to be named like any photo that cannot be read."""
    return path.is_symlink() and not path.exists()


def labelled_photos(folder: Path) -> tuple[Photos, list[str]]:
    """List photos with the names of the class folders that they lie in."""
    if folder.is_file():
        raise UsageError(f"{shown(str(folder))} is a file; name a folder with a folder per class.")
    photos = photos_in(folder)
    labels = []
    for path in photos.paths:
        parts = path.relative_to(folder).parts
        if len(parts) == 1:
            raise UsageError(
                f"{photos.name(path)} lies in no class folder; move it into "
                f"{shown(str(folder / 'its class'))}."
            )
        labels.append(parts[0])
    for each in sorted(folder.iterdir()):
        if each.is_dir() and not each.name.startswith(".") and each.name not in labels:
            raise UsageError(
                f"The class folder {shown(str(each))} holds no photo; add one or remove it."
            )
    if len(set(labels)) < 2:
        raise UsageError(
            f"{shown(str(folder))} holds photos of one class only ({shown(labels[0])}); a "
            "classifier needs two or more class folders."
        )
    return photos, labels
