"""What a second demo takes over from the first."""

import shutil
from dataclasses import replace

import pytest

from unicorn_maml.cli import demo
from unicorn_maml.errors import StoppedError
from unicorn_maml.settings import ChanceSettings, PermutationsSettings
from unicorn_maml.studies import permutations


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


def test_a_study_that_was_interrupted_goes_on_with_the_next_demo(
    trained, tmp_path, runs, monkeypatch
):
    asked = PermutationsSettings(
        checkpoints=[trained["maml"]], out=tmp_path / "study", tasks=3, query=3, device="cpu"
    )
    whole = demo._study(replace(asked, out=tmp_path / "whole"))
    real = permutations.measure_permutations

    def interrupted(method, loader, orders, numbers):
        yield from real(method, loader, orders, numbers[:1])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(permutations, "measure_permutations", interrupted)
        with pytest.raises(StoppedError):
            demo._study(asked)
    again = demo._study(asked)
    assert again["data"]["MAML"]["best"] == whole["data"]["MAML"]["best"]
    assert demo._study(asked) == again
    assert runs == ["permutations"] * 3
    # What was interrupted with another network is begun anew.
    (tmp_path / "study" / "study.json").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(permutations, "measure_permutations", interrupted)
        with pytest.raises(StoppedError):
            demo._study(asked)
    other = demo._study(replace(asked, checkpoints=[trained["unicorn"]]))
    assert list(other["data"]) == ["UNICORN-MAML"]


def test_a_study_without_networks_is_not_repeated(tmp_path, runs):
    asked = ChanceSettings(out=tmp_path)
    assert demo._study(asked) == demo._study(asked)
    assert runs == ["chance"]
