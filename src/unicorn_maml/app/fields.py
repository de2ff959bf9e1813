"""The fields that take photos: one for each class, and one for photos to classify."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from unicorn_maml.app.uploads import MOST_CLASSES, MOST_PHOTOS, sound_photos

__all__ = ["PHOTO_FIELD", "ClassFields", "paths_in", "photo_field"]

PHOTO_FIELD = "photo-field"  # its class in style sheets

_FIRST_SHOWN = 2
_SUFFIXES = [".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"]  # that browsers can show


def photo_field(label: str, most: int) -> tuple[Any, Any]:
    """Add a field that takes up to `most` photos, from files or the camera.

    Returns the field, and the event that there are others in it.
    """
    field: Any = gr.Gallery(
        label=label,
        sources=["upload", "webcam"],
        file_types=_SUFFIXES,
        interactive=True,
        height=260,
        object_fit="cover",
        buttons=[],
        elem_classes=PHOTO_FIELD,
    )

    # Gradio would fetch a photo from an address if a request named one.
    move_file = field.async_move_resource_to_block_cache

    async def move_no_address(path: Any) -> Any:
        if str(path).startswith(("http://", "https://")):
            raise _not_uploaded()
        return await move_file(path)

    field.async_move_resource_to_block_cache = move_no_address

    def keep_sound(value: Any) -> Any:
        kept, sentences = sound_photos(paths_in(value), most)
        for sentence in sentences:
            gr.Warning(sentence)
        return kept if sentences else gr.skip()

    # Not `upload`, which does not happen to photos of the camera.
    return field, field.change(keep_sound, field, field, show_progress="hidden")


def paths_in(value: Any) -> list[Path]:
    """Return the photos of a field, from what Gradio hands over.

    A request that is written by hand can name any file; Gradio leaves a gallery's unchecked.
    """
    uploads = Path(get_upload_folder()).resolve()
    paths = [Path(path) for path, _ in value or []]
    if not all(path.resolve().is_relative_to(uploads) for path in paths):
        raise _not_uploaded()
    return paths


def _not_uploaded() -> gr.Error:
    return gr.Error("Only photos that were added here can be used.", print_exception=False)


class ClassFields:
    """A name and photos for each class; fields for the most classes exist, and some are shown."""

    def __init__(self) -> None:
        self._columns: list[Any] = []
        self._names: list[Any] = []
        self._photos: list[Any] = []
        removes: list[Any] = []
        with gr.Row():
            for number in range(1, MOST_CLASSES + 1):
                with gr.Column(min_width=280, visible=number <= _FIRST_SHOWN) as column:
                    name = gr.Textbox(label=f"Class {number}", placeholder="name, such as leaf")
                    photos, _ = photo_field(f"Photos of class {number}", MOST_PHOTOS)
                    removes.append(gr.Button("Remove this class", size="sm"))
                self._columns.append(column)
                self._names.append(name)
                self._photos.append(photos)
        self._shown = gr.State(_FIRST_SHOWN)
        for place, remove in enumerate(removes):
            remove.click(
                partial(self._without, place),
                [self._shown, *self.values],
                self.everything,
                show_progress="hidden",
            )

    @property
    def values(self) -> list[Any]:
        """What `read` reads."""
        return [*self._names, *self._photos]

    @property
    def everything(self) -> list[Any]:
        """What `filled` fills."""
        return [self._shown, *self._columns, *self.values]

    def read(self, values: Sequence[Any]) -> list[tuple[str, list[Path]]]:
        """Return name and photos of every class."""
        names, photos = values[:MOST_CLASSES], values[MOST_CLASSES:]
        return [(name or "", paths_in(some)) for name, some in zip(names, photos, strict=True)]

    def filled(self, classes: Sequence[tuple[str, list[Path]]]) -> list[Any]:
        """Return the updates that put these classes, and no others, into the fields."""
        shown = max(len(classes), _FIRST_SHOWN)
        padded = [*classes, *[("", [])] * (MOST_CLASSES - len(classes))]
        names, photos = zip(*padded, strict=True)
        return [shown, *_visible(shown), *names, *photos]

    def on_add(self, add: Any) -> None:
        """Let a button show the fields of one more class."""

        def more(shown: int) -> list[Any]:
            if shown == MOST_CLASSES:
                gr.Warning(f"At most {MOST_CLASSES} classes fit on this page.")
            shown = min(shown + 1, MOST_CLASSES)
            return [shown, *_visible(shown)]

        add.click(more, self._shown, [self._shown, *self._columns], show_progress="hidden")

    def _without(self, place: int, shown: int, *values: Any) -> list[Any]:
        classes = self.read(values)[:shown]
        del classes[place]
        return self.filled(classes)


def _visible(shown: int) -> list[Any]:
    return [gr.Column(visible=number < shown) for number in range(MOST_CLASSES)]
