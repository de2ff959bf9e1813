"""Pictures as files."""

import io
from pathlib import Path

from PIL import Image

from unicorn_maml.files import write_bytes

__all__ = ["write_png"]


def write_png(picture: Image.Image, file: Path) -> None:
    """Write a picture as a PNG file; it appears complete or not at all."""
    content = io.BytesIO()
    picture.save(content, format="PNG")
    write_bytes(file, content.getvalue())
