"""What the page takes from its visitors, and what it says to the rest."""

from pathlib import Path

import pytest

from image_trees import claiming_size
from photos import photo
from unicorn_maml.app.uploads import labelled, sound_photos
from unicorn_maml.errors import UsageError


def test_sound_photos_are_kept_and_the_others_named_one_by_one(tmp_path):
    photo("red", 0).save(tmp_path / "good.jpg")
    (tmp_path / "text.jpg").write_text("milk")
    (tmp_path / "bomb.png").write_bytes(claiming_size(100_000, 100_000))
    paths = [tmp_path / name for name in ("text.jpg", "good.jpg", "bomb.png", "gone.jpg")]
    kept, sentences = sound_photos(paths, most=10)
    assert kept == [tmp_path / "good.jpg"]
    assert [sentence.split()[0] for sentence in sentences] == ["text.jpg", "bomb.png", "gone.jpg"]
    assert "too many pixels" in sentences[1]
    assert not any(str(tmp_path) in sentence for sentence in sentences)


def test_more_photos_than_allowed_are_left_out_with_one_sentence(tmp_path):
    for number in range(4):
        photo("red", number).save(tmp_path / f"{number}.png")
    kept, sentences = sound_photos(sorted(tmp_path.iterdir()), most=2)
    assert [path.name for path in kept] == ["0.png", "1.png"]
    assert sentences == ["At most 2 photos are taken here; the first 2 are kept."]


def test_classes_without_name_and_photos_are_left_out():
    photos = [Path("a.jpg"), Path("b.jpg"), Path("c.jpg")]
    support = labelled([("", []), (" leaf ", photos[:2]), ("flower", photos[2:])])
    assert support.paths == photos
    assert support.labels == ["leaf", "leaf", "flower"]


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ([("", []), ("", [])], "two or more classes"),
        ([("leaf", [Path("a")]), ("", [])], "two or more classes"),
        ([("leaf", [Path("a")]), ("", [Path("b")])], "Class 2 has photos but no name"),
        ([("leaf", [Path("a")]), ("leaf ", [Path("b")])], "Two classes are called leaf"),
        ([("leaf", [Path("a")]), ("flower", [])], "The class flower has no photo"),
        ([("leaf" * 20, [Path("a")]), ("flower", [])], "longer than 60 letters"),
    ],
)
def test_classes_that_make_no_classifier_are_refused_with_a_sentence(classes, reason):
    with pytest.raises(UsageError, match=reason):
        labelled(classes)
