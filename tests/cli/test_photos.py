"""`predict` and `check` as a user with some photos meets them."""

import csv
import errno
import json
import os
import shutil
import sys

import pytest
from PIL import Image

from image_trees import claiming_size
from photos import photo, write_photos
from sentences import error_sentence
from unicorn_maml import FewShotClassifier
from unicorn_maml.cli import predict
from unicorn_maml.cli.consoles import console
from unicorn_maml.sealed import read_sealed, write_sealed

SMALL = "--model miniimagenet-convnet4-pretrained --device cpu"


@pytest.fixture
def support(tmp_path):
    return write_photos(tmp_path / "photos", 3)


@pytest.fixture
def inbox(tmp_path):
    return write_photos(tmp_path / "inbox", 2, first=10)


def rows_of(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_predict_prints_and_writes_an_answer_for_every_photo(cli, support, inbox, tmp_path):
    answers = tmp_path / "answers.csv"
    code, out, err = cli("predict --support", support, "--query", inbox, "--csv", answers, SMALL)
    assert code == 0
    assert "the head of miniimagenet-convnet4-pretrained to 9 photos of 3 classes" in err
    rows = rows_of(answers)
    assert len(rows) == 6
    for row in rows:
        assert row["label"] == row["best"] == row["file"].split("/")[0]
        assert float(row["probability"]) > float(row["runner_up_probability"])
        assert row["file"] in out


def test_the_json_file_has_the_probabilities_of_all_classes_and_how_they_came_about(
    cli, support, inbox, tmp_path
):
    (inbox / "cut.jpg").write_bytes(b"no picture")
    mine, table, file = (tmp_path / name for name in ("mine", "answers.csv", "answers.json"))
    words = ["--query", inbox, "--csv", table, "--json", file, "--save", mine, "--threshold 0.5"]
    code, _, _ = cli("predict --support", support, *words, SMALL)
    assert code == 1
    found = json.loads(file.read_text())
    classifier = FewShotClassifier.load(mine)
    rows = rows_of(table)
    assert len(found["answers"]) == len(rows) == 6
    for answer, row in zip(found["answers"], rows, strict=True):
        assert (answer["file"], answer["label"]) == (row["file"], row["label"])
        best, runner_up, last = answer["probabilities"]  # the most probable class first
        assert (best, runner_up) == (row["best"], row["runner_up"])
        assert {best, runner_up, last} == {"blue", "green", "red"}
        expected = classifier.predict_proba([inbox / answer["file"]])[0].tolist()
        expected = dict(zip(classifier.classes_, expected, strict=True))
        assert answer["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert found["unreadable"].keys() == {"cut.jpg"}
    assert found["unreadable"]["cut.jpg"].startswith("cannot be decoded")
    settings = {"threshold", "model", "adapt", "inner_steps", "inner_lr", "normalization"}
    assert found.keys() == settings | {"answers", "unreadable"}
    assert found["model"] == "miniimagenet-convnet4-pretrained"
    assert found["adapt"] == "head"


def test_a_saved_classifier_gives_the_same_answers_without_the_photos(
    cli, support, inbox, tmp_path
):
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    mine = tmp_path / "mine"
    words = ["--query", inbox, "--csv", first, "--save", mine]
    assert cli("predict --support", support, *words, SMALL)[0] == 0
    shutil.rmtree(support)
    code, _, _ = cli("predict --classifier", mine, "--query", inbox, "--csv", second)
    assert code == 0
    assert first.read_text() == second.read_text()


def test_a_photo_below_the_threshold_is_unsure_and_copies_are_sorted(cli, support, inbox, tmp_path):
    sorted_ = tmp_path / "sorted"
    shutil.copy(inbox / "red" / "10.jpg", inbox / "10.jpg")  # two photos of one name and class
    code, _, _ = cli("predict --support", support, "--query", inbox, "--copy-to", sorted_, SMALL)
    assert code == 0
    assert sorted(each.name for each in (sorted_ / "red").iterdir()) == [
        "10-2.jpg",
        "10.jpg",
        "11.jpg",
    ]
    words = ["--query", inbox / "red" / "10.jpg", "--threshold 1"]
    code, out, _ = cli("predict --support", support, *words, SMALL)
    assert code == 0
    assert "unsure (red?)" in out
    code, _, err = cli("predict --support", support, "--query", inbox, "--copy-to", sorted_, SMALL)
    assert code == 2
    assert "exists already" in error_sentence(err)


def test_damaged_photos_are_named_and_skipped_and_the_rest_is_done(cli, support, inbox, tmp_path):
    (inbox / "cut.jpg").write_bytes((inbox / "red" / "10.jpg").read_bytes()[:300])
    (inbox / "film.png").write_bytes(b"\x00\x00\x00\x18ftypmp42")
    (inbox / "bomb.png").write_bytes(claiming_size(100_000, 100_000))
    (inbox / "notes.txt").write_text("milk")
    (inbox / ".hidden.jpg").write_text("a system's own")
    Image.new("RGB", (1, 1)).save(inbox / "dot.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    photo("green", 30).save(inbox / "turned.jpg", exif=exif)
    (inbox / "moved.jpg").symlink_to(inbox / "elsewhere.jpg")
    answers = tmp_path / "answers.csv"
    code, _, err = cli("predict --support", support, "--query", inbox, "--csv", answers, SMALL)
    assert code == 1
    assert "4 of 12 photos could not be read; the others are done." in error_sentence(err)
    for name in ("cut.jpg", "film.png", "bomb.png", "moved.jpg"):
        assert f"{name} " in err
    assert "notes.txt is no photo" in err
    assert len(rows_of(answers)) == 8


def test_where_no_photo_can_be_read_nothing_is_said_of_others(cli, support, tmp_path):
    (tmp_path / "broken.jpg").write_text("no picture")
    words = ["--query", tmp_path / "broken.jpg"]
    code, out, err = cli("predict --support", support, *words, SMALL)
    assert code == 1
    assert "None of the photos in --query could be read" in error_sentence(err)
    assert "broken.jpg cannot be decoded" in err
    assert not out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f: (f / "empty").mkdir(), "empty holds no photo"),
        (lambda f: [shutil.rmtree(f / c) for c in ("red", "blue")], "one class only"),
        (lambda f: shutil.rmtree(f), "There is no folder"),
        (lambda f: [(shutil.rmtree(f), f.mkdir())], "There is no photo"),
        (lambda f: shutil.copy(f / "red/1.jpg", f / "loose.jpg"), "lies in no class folder"),
        (lambda f: (f / "loose.jpg").symlink_to("nowhere"), "lies in no class folder"),
        (lambda f: shutil.copy(f / "red/1.jpg", f / "blue/7.jpg"), "in two classes"),
    ],
)
@pytest.mark.parametrize("command", ["predict --query {} --support", "check --support"])
def test_folders_that_make_no_classifier_are_refused(cli, support, inbox, command, change, reason):
    change(support)
    code, _, err = cli(command.format(inbox), support, SMALL)
    assert code == 2
    assert reason in error_sentence(err)


def test_a_damaged_labelled_photo_stops_the_work(cli, support, inbox):
    (support / "red" / "broken.jpg").write_text("no picture")
    code, _, err = cli("predict --support", support, "--query", inbox, SMALL)
    assert code == 1
    assert "broken.jpg" in error_sentence(err)
    assert error_sentence(err).endswith("; mend or remove it.")


@pytest.mark.parametrize("command", ["predict --query {} --support", "check --support"])
def test_all_damaged_labelled_photos_are_told_of_at_once(cli, support, inbox, command):
    for number in range(7):
        (support / "red" / f"broken-{number}.jpg").write_text("no picture")
    code, _, err = cli(command.format(inbox), support, SMALL)
    assert code == 1
    assert [f"broken-{number}.jpg" in error_sentence(err) for number in range(7)] == [True] * 5 + [
        False
    ] * 2
    assert error_sentence(err).endswith("; and 2 more; mend or remove them.")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "either --support"),
        ("--support a --classifier b --query c", "either --support"),
        ("--support a", "--query"),
        ("--support a --query b --threshold 2", "must be at least 0 and at most 1, not 2.0"),
        ("--classifier a --query b --save c", "saved already"),
        ("--support a --query b --normalization batch", "batch"),
        ("--support a --save b --csv c", "name those with --query"),
        ("--support a --save b --copy-to c", "name those with --query"),
        ("--support a --save b --threshold 0.5", "name those with --query"),
        ("--support a --query b --save c --copy-to ./c", "its own name"),
        ("--support a --query b --save c --csv c", "its own name"),
        ("--support a --query b --json c --csv c", "its own name"),
        ("--support a --save b --json c", "name those with --query"),
    ],
)
def test_options_that_do_not_fit_are_refused(cli, words, reason):
    code, _, err = cli(f"predict {words}".strip())
    assert code == 2
    assert reason in err


def test_check_tells_the_accuracy_and_finds_the_photo_with_a_wrong_label(cli, support, tmp_path):
    photo("red", 40).save(support / "blue" / "wrong.jpg")
    picture, result = tmp_path / "confusion.png", tmp_path / "check.json"
    code, out, _ = cli("check --support", support, "--image", picture, "--json", result, SMALL)
    assert code == 0
    found = json.loads(result.read_text())
    assert found["photos"] == found["folds"] == 10
    assert f"{found['accuracy']:.1f} %" in out
    assert found["interval"][0] < found["accuracy"] < found["interval"][1]
    worst = found["look_mislabelled"][0]
    assert (worst["file"], worst["looks_like"]) == ("blue/wrong.jpg", "red")
    assert Image.open(picture).width > 200
    assert sum(map(sum, found["confusion"])) == 10


def test_check_leaves_out_the_only_photo_of_a_class(cli, support):
    for number in (1, 2):
        (support / "green" / f"{number}.jpg").unlink()
    code, out, _ = cli("check --support", support, SMALL)
    assert code == 0
    assert "one photo only" in out
    for colour in ("red", "blue"):
        for number in (1, 2):
            (support / colour / f"{number}.jpg").unlink()
    code, _, err = cli("check --support", support, SMALL)
    assert code == 2
    assert "second one" in error_sentence(err)


@pytest.mark.parametrize("label", ["../../a", "a\\b", "a\0b", "a\ud800"])
def test_labels_of_a_foreign_classifier_that_name_no_folder_are_refused(
    cli, inbox, tmp_path, label
):
    mine = tmp_path / "mine"
    images = [photo("red", 0), photo("blue", 0)]
    model = "miniimagenet-convnet4-pretrained"
    FewShotClassifier(model, device="cpu").fit(images, ["a", "b"]).save(mine)
    description = read_sealed(mine / "classifier.json")
    write_sealed(mine / "classifier.json", {**description, "classes": [label, "b"]})
    code, _, err = cli(
        "predict --classifier", mine, "--query", inbox, "--copy-to", tmp_path / "copies"
    )
    assert code == 2
    assert "cannot be the name of a folder" in error_sentence(err)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("predict --query {} --csv {}", "answers.csv"),
        ("predict --query {} --json {}", "answers.json"),
        ("check --json {1}", "check.json"),
    ],
)
def test_results_are_written_even_if_nobody_reads_what_is_printed(
    cli, support, inbox, tmp_path, monkeypatch, words, file
):
    reading, writing = os.pipe()
    os.close(reading)
    with monkeypatch.context() as patch, os.fdopen(writing, "w") as nobody:
        patch.setattr(sys, "stdout", nobody)
        patch.setattr(console, "quiet", False)  # which Rich sets when nobody reads
        code, _, _ = cli(words.format(inbox, tmp_path / file), "--support", support, SMALL)
    assert code == 1
    assert (tmp_path / file).stat().st_size > 100


@pytest.mark.parametrize("option", ["--csv", "--json", "--copy-to"])
def test_a_full_disk_does_not_cost_the_answers(cli, support, inbox, tmp_path, monkeypatch, option):
    def fail(target, *_content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(predict, "_ROWS_SHOWN", 1)
    for writes in ("write_text", "write_json"):
        monkeypatch.setattr(predict, writes, fail)
    monkeypatch.setattr(shutil, "copy2", fail)
    words = ["--query", inbox, option, tmp_path / "new"]
    code, out, err = cli("predict --support", support, *words, SMALL)
    assert code == 1
    assert "No space is left on the disk" in error_sentence(err)
    for colour in ("red", "green", "blue"):
        assert f"{colour}/10.jpg" in out


@pytest.mark.parametrize("option", ["--save", "--copy-to"])
@pytest.mark.parametrize("file", ["answers.csv", "tables/answers.csv"])
def test_the_answers_may_lie_in_a_folder_that_the_same_command_makes(
    cli, support, inbox, tmp_path, option, file
):
    new = tmp_path / "new"
    words = ["--query", inbox, option, new, "--csv", new / file]
    assert cli("predict --support", support, *words, SMALL)[0] == 0
    assert len(rows_of(new / file)) == 6
    assert (new / ("classifier.json" if option == "--save" else "red/10.jpg")).exists()


@pytest.mark.parametrize("option", ["--save", "--copy-to"])
def test_an_empty_folder_is_as_good_as_a_new_one(cli, support, inbox, tmp_path, option):
    (tmp_path / "empty").mkdir()
    words = ["--query", inbox, option, tmp_path / "empty"]
    assert cli("predict --support", support, *words, SMALL)[0] == 0
    assert any((tmp_path / "empty").iterdir())
    assert not list(tmp_path.glob("**/.*"))


@pytest.mark.parametrize("option", ["--csv", "--json", "--save", "--copy-to"])
def test_results_that_cannot_be_written_are_refused_before_any_work(
    cli, support, inbox, tmp_path, option
):
    (tmp_path / "file").write_text("no folder")
    words = ["--query", inbox, option, tmp_path / "file" / "new"]
    code, _, err = cli("predict --support", support, *words, SMALL)
    assert code == 2
    assert "Cannot write" in error_sentence(err)
    assert "Adapted" not in err


def test_a_folder_of_other_things_is_refused_before_any_work(cli, support, inbox):
    code, _, err = cli("predict --support", support, "--query", inbox, "--save", inbox, SMALL)
    assert code == 2
    assert "no saved classifier" in error_sentence(err)
    assert "Adapted" not in err


def test_a_class_folder_whose_name_is_no_utf8_is_shown_escaped_and_copied_to_as_it_is(
    cli, support, inbox, tmp_path
):
    blossom = os.fsdecode(b"Bl\xfcte")
    (support / "red").rename(support / blossom)
    mine, answers, sorted_ = (tmp_path / name for name in ("mine", "answers.csv", "sorted"))
    words = ["--query", inbox, "--csv", answers]
    code, out, _ = cli("predict --support", support, *words, "--save", mine, SMALL)
    assert code == 0
    assert "Bl\\xfcte" in out
    first = rows_of(answers)
    assert {row["label"] for row in first} == {"Bl\\xfcte", "green", "blue"}
    assert cli("predict --classifier", mine, *words, "--copy-to", sorted_)[0] == 0
    assert rows_of(answers) == first
    assert (sorted_ / blossom / "10.jpg").exists()
    code, out, _ = cli("check --support", support, "--json", tmp_path / "check.json", SMALL)
    assert code == 0
    assert "Bl\\xfcte" in json.loads((tmp_path / "check.json").read_text())["classes"]
