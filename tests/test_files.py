"""Files and folders that appear whole, and neighbours that are left alone."""

from pathlib import Path

import pytest

from unicorn_maml.errors import FileError
from unicorn_maml.files import (
    check_can_write,
    new_folder,
    read_object,
    recover_folder,
    replaced,
    write_json,
)


def test_a_folder_takes_the_place_of_another_and_leaves_its_neighbours_alone(tmp_path):
    target = tmp_path / "store"
    for name in ("store", "store.old", "store.notes.new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text(name)
    recover_folder(target)
    with new_folder(target) as unfinished:
        (unfinished / "new").write_text("new")
        assert (target / "mine").is_file()
    assert [file.name for file in target.iterdir()] == ["new"]
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "store",
        "store.notes.new",
        "store.old",
    ]
    assert (tmp_path / "store.old" / "mine").read_text() == "store.old"


def test_a_folder_whose_replacement_was_cut_off_comes_back(tmp_path):
    target = tmp_path / "store"
    target.mkdir()
    target.rename(replaced(target))
    (tmp_path / ".store.unicorn-12345.new").mkdir()
    recover_folder(target)
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_a_block_that_fails_leaves_the_old_folder(tmp_path):
    target = tmp_path / "store"
    target.mkdir()
    with pytest.raises(KeyError), new_folder(target):
        raise KeyError
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def make_folder(path):
    with new_folder(path):
        pass


@pytest.mark.parametrize(("made", "make"), [("mkdir", make_folder), ("touch", check_can_write)])
def test_an_interrupt_just_after_something_unfinished_was_made_leaves_nothing(
    tmp_path, monkeypatch, made, make
):
    plain = getattr(Path, made)

    def interrupted(path, *words, **options):
        plain(path, *words, **options)
        if path.name.endswith(".new"):
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, made, interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "result")
    assert not list(tmp_path.iterdir())


def test_writing_a_file_leaves_those_with_similar_names_alone(tmp_path):
    (tmp_path / "result.json.new").write_text("mine")
    check_can_write(tmp_path / "result.json")
    write_json(tmp_path / "result.json", {"a": 1})
    assert (tmp_path / "result.json.new").read_text() == "mine"
    assert read_object(tmp_path / "result.json") == {"a": 1}


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000])
def test_a_file_that_holds_no_object_is_called_damaged(tmp_path, text):
    file = tmp_path / "result.json"
    file.write_text(text)
    with pytest.raises(FileError, match="is damaged"):
        read_object(file)


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one_there(tmp_path, monkeypatch):
    target = tmp_path / "target"
    with new_folder(target) as new:
        (new / "file").write_text("old")
    rename = Path.rename

    def refuse(path, to):
        if path.name.endswith(".new"):
            raise OSError("no")
        return rename(path, to)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(OSError, match="no"), new_folder(target) as new:
            (new / "file").write_text("new")
    assert (target / "file").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["target"]
