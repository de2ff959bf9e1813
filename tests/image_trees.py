"""Small made-up data sets: images, folders, and the same as zip and tar archives."""

import io
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from unicorn_maml.data.prepare import Prepared, prepare_store
from unicorn_maml.settings import DataPrepareSettings


def pixels_of(number: int, size=(12, 12), mode: str = "RGB") -> np.ndarray:
    """The pixels of a made-up image: they depend on its number."""
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    return np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)


def encoded(number: int = 0, *, size=(12, 12), mode: str = "RGB", format: str = "PNG", **options):
    """An image file of these pixels."""
    file = io.BytesIO()
    Image.fromarray(pixels_of(number, size, mode)).save(file, format, **options)
    return file.getvalue()


def claiming_size(width: int, height: int) -> bytes:
    """A PNG of one pixel whose header claims another size."""
    content = bytearray(encoded(size=(1, 1)))
    content[16:24] = struct.pack(">II", width, height)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


def write_tree(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write_zip(path: Path, files: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, files: dict[str, bytes | str], *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for entry in extra:
            archive.addfile(entry)
    return path


def class_tree(classes=("ant", "bee", "cat", "dog", "elk"), images: int = 3) -> dict[str, bytes]:
    """`class/image` files with pixels of their own."""
    return {
        f"{name}/{number}.png": encoded(100 * k + number)
        for k, name in enumerate(classes)
        for number in range(images)
    }


def prepare(out: Path, *sources: Path, dataset: str = "folder", **options) -> Prepared:
    options = {"size": 12, **options}
    settings = DataPrepareSettings(sources=list(sources), dataset=dataset, out=out, **options)
    return prepare_store(settings, lambda *_: None)


def splits_of(prepared: Prepared) -> dict[str, str]:
    return {entry.name: entry.split for entry in prepared.store.classes}
