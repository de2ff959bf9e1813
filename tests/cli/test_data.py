"""`data prepare` and `data show` as a user meets them."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image

from image_trees import class_tree, encoded, write_tree, write_zip
from unicorn_maml.data import prepare as prepare_module


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path / "tree", class_tree())


def test_a_store_is_prepared_and_shown(cli, tree, tmp_path):
    store = tmp_path / "store"
    code, out, err = cli(
        "data prepare",
        tree,
        "--dataset folder --size 16 --out",
        store,
        "--json",
        tmp_path / "p.json",
    )
    assert code == 0, err
    assert "15 images of 16x16 pixels" in out
    assert "images per second" in out
    result = json.loads((tmp_path / "p.json").read_text())
    assert result["images"] == 15
    assert result["splits"]["base"] == {"classes": 3, "images": 9}
    assert result["left_out"] == []
    sheet, description = tmp_path / "sheet.png", tmp_path / "s.json"
    code, out, err = cli("data show", store, "--image", sheet, "--json", description)
    assert code == 0, err
    assert "no pairs of images with the same pixels" in out
    assert Image.open(sheet).format == "PNG"
    assert json.loads(description.read_text())["duplicates"] == {"pairs": {}, "groups": []}


def test_duplicates_are_counted_and_named(cli, tmp_path):
    files = {"train/a/1.png": encoded(1), "val/b/1.png": encoded(1), "test/c/1.png": encoded(2)}
    archive = write_zip(tmp_path / "a.zip", files)
    assert cli("data prepare", archive, "--size 12 --out", tmp_path / "store")[0] == 0
    file = tmp_path / "s.json"
    _, out, _ = cli("data show", tmp_path / "store", "--json", file)
    assert "1 pair of images with the same pixels" in out
    assert "1 between base and validation" in out
    assert "base a #0 = validation b #0" in out
    duplicates = json.loads(file.read_text())["duplicates"]
    assert duplicates["pairs"] == {"base-validation": 1}
    assert [copy["row"] for copy in duplicates["groups"][0]] == [0, 1]


def test_bad_files_end_in_one_list_and_exit_code_1_or_are_skipped_and_counted(cli, tree, tmp_path):
    write_tree(tree, {"ant/bad[1].jpg": b"", "bee/text.jpg": b"text"})
    store = tmp_path / "store"
    code, _, err = cli("data prepare", tree, "--size 12 --out", store)
    assert code == 1
    assert "Traceback" not in err
    assert "Error: Nothing was written, because of 2 bad files" in err
    assert "bad[1].jpg: is empty" in err
    assert "text.jpg: cannot be decoded" in err
    assert not store.exists()
    code, out, _ = cli("data prepare", tree, "--size 12 --on-error skip --out", store)
    assert code == 0
    assert "left out as bad: 2" in out
    assert "bad[1].jpg: is empty" in out


def test_several_sources_are_one_data_set(cli, tmp_path):
    first = write_zip(tmp_path / "1.zip", class_tree(["ant", "bee"]))
    second = write_tree(tmp_path / "2", class_tree(["cat"]))
    code, out, err = cli("data prepare", first, second, "--size 12 --out", tmp_path / "store")
    assert code == 0, err
    assert "9 images" in out


WRONG = {
    "nowhere --out STORE": "There is no folder or archive nowhere",
    "TREE": "with --out FOLDER",
    "TREE --out TREE": "exists and is no store",
    "TREE --out STORE --dataset imagenet": "imagenet",
    "TREE --out STORE --rotations": "is for --dataset omniglot only",
    "TREE --out STORE --fractions 1,2,3": "--fractions must be three numbers",
    "TREE --out STORE --size 0": "--size must be at least 8",
    "--out STORE": "Missing argument",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_usage_is_one_sentence_and_exit_code_2(cli, tree, tmp_path, wrong):
    words = wrong.replace("TREE", str(tree)).replace("STORE", str(tmp_path / "store"))
    code, _, err = cli("data prepare", words)
    assert code == 2
    assert "Traceback" not in err
    assert WRONG[wrong] in err
    assert not (tmp_path / "store").exists()


def test_a_full_disk_is_one_sentence(cli, tree, tmp_path, monkeypatch):
    def is_full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(prepare_module, "finish_store", is_full)
    code, _, err = cli("data prepare", tree, "--size 12 --out", tmp_path / "store")
    assert code == 1
    assert "No space is left on the disk for" in err
    assert "prepare it again" in err
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]


def test_stopping_leaves_no_half_store(tmp_path):
    file = io.BytesIO()
    Image.new("RGB", (2000, 2000)).save(file, "PNG")  # small to store, slow to decode
    files = {f"c{n % 5}/{n}.png": file.getvalue() for n in range(400)}
    archive = write_zip(tmp_path / "a.zip", files)
    words = f"-m unicorn_maml data prepare {archive} --out {tmp_path / 'store'}".split()
    process = subprocess.Popen(
        [sys.executable, *words],
        stderr=subprocess.PIPE,
        text=True,
        # tests that run in the background inherit a SIGINT that is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".store.*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "Stopped; nothing was written." in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@pytest.mark.parametrize("command", ["data", "data prepare", "data show"])
def test_help_names_the_defaults(cli, command):
    code, out, _ = cli(*command.split(), "--help")
    assert code == 0
    assert command != "data prepare" or "[default: 84; omniglot 28" in out


def test_data_rooms_need_neither_torch_nor_torchvision():
    script = (
        "import sys; import unicorn_maml.data.prepare, unicorn_maml.data.duplicates\n"
        "import unicorn_maml.reporting.contact_sheet\n"
        "sys.exit('torch' in sys.modules or 'torchvision' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
