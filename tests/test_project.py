"""What the project's own files promise."""

import re
from pathlib import Path

import pytest
import torch
import yaml

from unicorn_maml.settings import PretrainSettings
from unicorn_maml.training.checkpoint import load_checkpoint

ROOT = Path(__file__).parents[1]


def test_the_python_example_of_the_readme_runs(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})
    assert "tensor([" in capsys.readouterr().out


@pytest.mark.parametrize("file", sorted((ROOT / "configs" / "pretrain").glob("*.yaml")))
def test_every_recipe_of_pretraining_is_a_valid_configuration(file):
    PretrainSettings(**yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("miniimagenet-resnet12-pretrained", 12_424_320),
        ("miniimagenet-convnet4-pretrained", 113_088),
    ],
)
def test_shipped_weights_are_known_by_name_and_sound(name, parameters):
    checkpoint = load_checkpoint(Path(name))
    backbone = checkpoint.method().backbone.eval()
    assert sum(value.numel() for value in backbone.parameters()) == parameters
    with torch.no_grad():
        features = backbone(torch.randn(2, 3, 84, 84))
    assert features.isfinite().all()


def test_nothing_tracked_names_a_folder_of_one_machine():
    for file in (ROOT / "weights").rglob("*.json"):
        assert not re.search(r'"/(tmp|home|work|root)', file.read_text()), file
