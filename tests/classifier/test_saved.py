"""Saved classifiers answer as before, and whatever is not one is refused."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from photos import photo, photos
from unicorn_maml import FewShotClassifier
from unicorn_maml.errors import FileError, UnicornError, UsageError
from unicorn_maml.sealed import read_sealed, read_tensors, write_sealed, write_tensors
from unicorn_maml.training.checkpoint import shipped_checkpoints

CONVNET = "miniimagenet-convnet4-pretrained"
ENORMOUS = {"backbone": "convnet4", "width": 300_000, "pooling": "average"}
ENORMOUS |= {"channels": 3, "size": 84, "sum_slope": 0.1}


@pytest.fixture
def mine(tmp_path):
    made = FewShotClassifier(CONVNET, device="cpu").fit(*photos(1))
    made.save(tmp_path / "mine")
    return tmp_path / "mine"


@pytest.mark.parametrize("options", [{}, {"adapt": "all", "inner_steps": 2, "inner_lr": 0.01}])
def test_a_loaded_classifier_answers_with_the_same_bits(tmp_path, options):
    images, labels = photos(1)
    made = FewShotClassifier(CONVNET, device="cpu", **options)
    made.fit(images, [len(label) for label in labels])
    made.save(tmp_path / "mine")
    loaded = FewShotClassifier.load(tmp_path / "mine", device="cpu")
    queries = [photo("red", 9), photo("blue", 9)]
    assert np.array_equal(loaded.predict_proba(queries), made.predict_proba(queries))
    assert loaded.classes_.dtype.kind == "i"
    assert loaded.get_params() == made.get_params()
    assert loaded.adapt_ == made.adapt_
    loaded.save(tmp_path / "mine")  # takes the place of the first
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine"]


def test_a_changed_byte_is_refused(mine):
    file = mine / "classifier.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(FileError, match="has changed"):
        FewShotClassifier.load(mine)


def test_what_is_no_saved_classifier_is_refused(mine, tmp_path):
    with pytest.raises(UsageError, match="no saved classifier"):
        FewShotClassifier.load(tmp_path / "nothing")
    (mine / "classifier.json").write_text("{")
    with pytest.raises(FileError, match="damaged"):
        FewShotClassifier.load(mine)
    write_sealed(mine / "classifier.json", {"format": "something else"})
    with pytest.raises(FileError, match="not a saved classifier"):
        FewShotClassifier.load(mine)


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("...")
    made = FewShotClassifier(CONVNET, device="cpu").fit(*photos(1))
    with pytest.raises(UsageError, match="no saved classifier"):
        made.save(tmp_path / "letters")
    assert (tmp_path / "letters" / "dear.txt").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format_version": 2}, "newer version"),
        ({"classes": ["a", "b"]}, "does not fit its classes"),
        ({"classes": [0.5, 1.5, 2.5]}, "no labels"),
        ({"architecture": {"backbone": "convnet9"}}, "does not make sense|must be"),
        ({"architecture": {"timm": "hf-hub:some/where"}}, "no name"),
        ({"architecture": ENORMOUS}, "weights do not fit the network"),
        ({"preprocessing": 3}, "does not make sense"),
        ({"sha256": None}, "has changed"),
        ({"state": {}}, "does not make sense .*adapt_"),
        ({"parameters": {"model": "a", "colour": "red"}}, "does not make sense .*colour"),
        ({"pixel_std": [0, 0, 0]}, "pixel moments"),
        ({"pixel_std": [1, 1]}, "pixel moments"),
        ({"pixel_mean": [float("nan"), 0, 0]}, "is damaged"),
        ({"preprocessing": {"size": -4, "channels": 3, "resample": "box"}}, "the size -4"),
        ({"preprocessing": {"size": 10**9, "channels": 3, "resample": "box"}}, "the size 10+"),
        ({"preprocessing": {"size": 84, "channels": 3, "resample": "guess"}}, "unknown way"),
        ({"preprocessing": {"size": 4, "channels": 3, "resample": "box"}}, "does not make sense"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused_whatever_their_checksum(mine, change, reason):
    file = mine / "classifier.json"
    write_sealed(file, {**read_sealed(file), **change})
    with pytest.raises((FileError, UsageError), match=reason):
        FewShotClassifier.load(mine)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (torch.zeros(3, 7), "does not make sense"),
        (torch.zeros(()), "does not fit its classes"),
        (torch.full((3, 64), float("nan")), "no numbers"),
    ],
)
def test_a_head_that_makes_no_sense_is_refused_whatever_its_checksum(mine, head, reason):
    description = read_sealed(mine / "classifier.json")
    file = mine / "classifier.safetensors"
    tensors = {**read_tensors(file, description["sha256"]), "head.weight": head}
    sha256 = write_tensors(file, tensors)
    write_sealed(mine / "classifier.json", {**description, "sha256": sha256})
    with pytest.raises(FileError, match=reason):
        FewShotClassifier.load(mine)


def test_no_folder_of_this_machine_is_in_the_description(tmp_path):
    folder = shipped_checkpoints()[CONVNET]
    FewShotClassifier(str(folder), device="cpu").fit(*photos(1)).save(tmp_path / "mine")
    description = json.loads((tmp_path / "mine" / "classifier.json").read_text())
    assert description["parameters"]["model"] == CONVNET
    assert "/" not in json.dumps(description)


class _Pooled(nn.Sequential):
    """Stands for an untrained model of timm: features of a small convolution."""

    num_features = 8
    pretrained_cfg = {  # noqa: RUF012
        "input_size": (3, 40, 40),
        "mean": (0.5, 0.5, 0.5),
        "std": (0.2, 0.2, 0.2),
    }


def test_a_model_of_timm_serves_as_a_backbone_whose_head_adapts(monkeypatch, tmp_path):
    asked = []

    def create_model(name, *, pretrained, num_classes):
        if name == "nonsense":
            raise RuntimeError("Unknown model")
        if name == "offline":
            raise FileNotFoundError("cannot reach the hub\nand much more")
        asked.append((name, pretrained, num_classes))
        torch.manual_seed(len(asked))
        return _Pooled(nn.Conv2d(3, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    made = FewShotClassifier("timm/tiny", device="cpu").fit(*photos(3))
    assert made.score(*photos(3)) == 1
    assert made.adapt_ == "head"
    made.save(tmp_path / "mine")
    loaded = FewShotClassifier.load(tmp_path / "mine", device="cpu")
    queries = [photo("green", 9)]
    assert np.array_equal(loaded.predict_proba(queries), made.predict_proba(queries))
    assert asked == [("tiny", True, 0), ("tiny", False, 0)]
    with pytest.raises(UsageError, match="keep their features"):
        FewShotClassifier("timm/tiny", adapt="all").fit(*photos(1))
    with pytest.raises(UsageError, match="no model"):
        FewShotClassifier("timm/nonsense").fit(*photos(1))
    with pytest.raises(UnicornError, match="connect to a network for the first use"):
        FewShotClassifier("timm/offline").fit(*photos(1))
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UsageError, match="pip install"):
        FewShotClassifier("timm/tiny").fit(*photos(1))
