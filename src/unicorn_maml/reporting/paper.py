"""The paper's numbers, where they are about the same thing as a study."""

import json
from importlib.resources import files
from math import factorial
from typing import Any

__all__ = ["paper_numbers", "paper_text"]

_WAY = 5


def paper_numbers(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of this study for what was tested: method, data set, backbone and shots.

    A heat map of shorter training has none.
    """
    text = (files("unicorn_maml") / "reporting" / "paper_numbers.json").read_text(encoding="utf-8")
    entries = [entry for entry in json.loads(text) if entry["study"] == result["study"]]
    if result["settings"].get("budget", 1) < 1:
        return []
    if not result["tests"]:  # a study without data: its ways are all there is to match
        return [entry for entry in entries if entry["way"] == result["settings"]["way"]]
    tested = [_tested(test, result) for test in result["tests"] if _as_in_the_paper(test)]
    return [entry for entry in entries if _matched(entry) in tested]


def _as_in_the_paper(test: dict[str, Any]) -> bool:
    """Whether the tasks and the permutations are of the paper's kind."""
    every = factorial(_WAY)
    return (test["way"], test["split"]) == (_WAY, "novel") and test.get(
        "permutations", every
    ) == every


def _tested(test: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    matched = _matched(test)
    if result["study"] == "transfer":  # the first test is at home
        matched["data_set"] = f"{result['tests'][0]['data_set']}>{test['data_set']}"
    return matched


def _matched(entry: dict[str, Any]) -> dict[str, Any]:
    """What a test and a number of the paper must agree in."""
    return {name: entry[name] for name in ("method", "data_set", "backbone", "shot")}


def paper_text(entry: dict[str, Any]) -> str:
    """A number as it is shown."""
    interval = f" ± {entry['ci95']:.2f}" if entry["ci95"] is not None else ""
    shown = f"{entry['value']:.2f}" if entry["unit"] == "%" else f"{entry['value']}"
    return f"{shown}{interval}{' ' if entry['unit'] else ''}{entry['unit']}"
