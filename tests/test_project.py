"""What the project's own files promise."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import yaml

import unicorn_maml
from unicorn_maml.settings import PretrainSettings, TrainSettings
from unicorn_maml.training.checkpoint import load_checkpoint, shipped_checkpoints

ROOT = Path(__file__).parents[1]
PACKAGE = Path(unicorn_maml.__file__).parent


def test_the_python_example_of_the_readme_runs(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})
    assert "tensor([" in capsys.readouterr().out


@pytest.mark.parametrize("file", sorted((ROOT / "configs" / "pretrain").glob("*.yaml")))
def test_every_recipe_of_pretraining_is_a_valid_configuration(file):
    PretrainSettings(**yaml.safe_load(file.read_text()))


RECIPES = sorted(
    file for folder in ("paper", "more") for file in (ROOT / "configs" / folder).glob("*.yaml")
)


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_every_recipe_is_a_valid_configuration_and_says_what_its_name_says(file):
    values = yaml.safe_load(file.read_text())
    settings = TrainSettings(**{**values, "init": Path(values["init"])})
    _data, backbone, method, shot = file.stem.split("-")
    assert (settings.backbone, f"{settings.shot}shot") == (backbone, shot)
    assert settings.method == method.removesuffix("5steps")
    if file.parent.name == "paper":
        assert settings.epochs * settings.tasks_per_epoch == 10_000
    assert f"configs/{file.parent.name}/{file.name}" in file.read_text()
    if settings.init.parent == Path():
        load_checkpoint(settings.init)
    else:
        assert f"--out {settings.init}" in file.read_text(), "the command that makes its backbone"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("miniimagenet-resnet12-5shot", 12_424_320),
        ("miniimagenet-resnet12-pretrained", 12_424_320),
        ("miniimagenet-convnet4-pretrained", 113_088),
        ("miniimagenet-convnet4-1shot", 113_088),
        ("miniimagenet-convnet4-5shot", 113_088),
        ("miniimagenet-convnet4-maml5steps-1shot", 113_088),
        ("cub-convnet4-pretrained", 113_088),
        ("cub-convnet4-1shot", 113_088),
        ("cub-convnet4-maml-1shot", 113_088),
    ],
)
def test_shipped_weights_are_known_by_name_and_sound(name, parameters):
    checkpoint = unicorn_maml.load(name)
    backbone = checkpoint.method().backbone.eval()
    assert sum(value.numel() for value in backbone.parameters()) == parameters
    with torch.no_grad():
        features = backbone(torch.randn(2, 3, 84, 84))
    assert features.isfinite().all()


def test_all_shipped_weights_and_cards_are_files_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["unicorn_maml"]
    packaged = {file for pattern in patterns for file in PACKAGE.glob(pattern)}
    folders = shipped_checkpoints().values()
    assert len(folders) >= 4
    for folder in folders:
        assert {folder / "card.json", folder / "weights.safetensors"} <= packaged


def test_nothing_tracked_names_a_folder_of_one_machine():
    folders = [PACKAGE / "weights", ROOT / "results", ROOT / "docs"]
    tracked = [file for folder in folders for file in folder.rglob("*.json")]
    assert len(tracked) > 10
    for file in tracked:
        assert not re.search(r'"/(tmp|home|work|root)', file.read_text()), file


@pytest.mark.parametrize("script", sorted(ROOT.glob("benchmarks/*.py")), ids=lambda file: file.stem)
def test_every_benchmark_starts_and_says_what_it_does(script):
    found = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert "usage: " in found.stdout


def test_every_link_of_the_documents_leads_somewhere_and_every_finding_is_linked():
    linked = set()
    for document in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^):]+)\)", document.read_text("utf-8")):
            name, _, anchor = target.partition("#")
            file = (document.parent / name).resolve() if name else document
            assert file.exists(), f"{document.name} links {target}"
            assert not anchor or anchor in anchors_of(file), f"{document.name} links {target}"
            linked.add(file)
    assert set(ROOT.glob("docs/findings/*.png")) <= linked


def anchors_of(document: Path) -> set[str]:
    """What a link can name: headings as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
