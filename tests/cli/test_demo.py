"""What a second demo takes over from the first."""

import shutil

import pytest

from unicorn_maml.cli import demo
from unicorn_maml.settings import ChanceSettings, PermutationsSettings


@pytest.fixture
def runs(monkeypatch) -> list[str]:
    """The studies that were run, in order."""
    seen = []
    run_study = demo.run_study

    def noted(settings, on_progress):
        seen.append(settings.study)
        return run_study(settings, on_progress)

    monkeypatch.setattr(demo, "run_study", noted)
    return seen


def test_a_study_is_not_repeated_unless_its_networks_were_trained_again(trained, tmp_path, runs):
    network = tmp_path / "network"
    shutil.copytree(trained["maml"], network)
    asked = PermutationsSettings(
        checkpoints=[network], out=tmp_path / "study", tasks=2, query=3, device="cpu"
    )
    first = demo._study(asked)
    assert demo._study(asked) == first
    assert runs == ["permutations"]
    shutil.rmtree(network)
    shutil.copytree(trained["unicorn"], network)
    again = demo._study(asked)
    assert runs == ["permutations"] * 2
    assert list(again["data"]) == ["UNICORN-MAML"]


def test_a_study_without_networks_is_not_repeated(tmp_path, runs):
    asked = ChanceSettings(out=tmp_path)
    assert demo._study(asked) == demo._study(asked)
    assert runs == ["chance"]
