"""The contact sheet shows the pixels of the store."""

import numpy as np
import pytest
from PIL import Image

from conftest import make_store
from unicorn_maml.reporting.contact_sheet import draw_contact_sheet, write_contact_sheet


@pytest.mark.parametrize(("size", "channels"), [(16, 1), (84, 3)])
def test_the_sheet_holds_images_of_every_split(tmp_path, size, channels):
    store = make_store(tmp_path / "store", classes=6, size=size, channels=channels)
    write_contact_sheet(store, tmp_path / "new" / "sheet.png")
    sheet = np.asarray(Image.open(tmp_path / "new" / "sheet.png"))
    enlarge = -(-56 // size)
    for split in ("base", "validation", "novel"):
        entry = store.classes_of(split)[0]
        image = store.images[entry.start].repeat(enlarge, 0).repeat(enlarge, 1)
        image = np.broadcast_to(image, (*image.shape[:2], 3))
        windows = [y for y in range(len(sheet) - len(image) + 1) if _is_at(sheet, image, y)]
        assert len(windows) == 1, f"the first image of {split} is on the sheet once"


def _is_at(sheet: np.ndarray, image: np.ndarray, y: int) -> bool:
    left = 220  # where the first column begins
    return np.array_equal(sheet[y : y + len(image), left : left + len(image)], image)


def test_many_classes_are_sampled_and_long_names_are_cut(glyphs, tmp_path):
    sheet = draw_contact_sheet(glyphs)
    assert sheet.height < 2000
    store = make_store(tmp_path / "store", classes=3)
    entry = store.classes[0]
    object.__setattr__(store, "classes", (type(entry)("n" * 300, "base", 0, 1),))
    assert draw_contact_sheet(store).width == 220 + 10 * (64 + 2)
