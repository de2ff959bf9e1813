"""The paper's numbers, where they are about the same thing as a study."""

import json
from importlib.resources import files
from typing import Any

__all__ = ["paper_numbers", "paper_text"]


def paper_numbers(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers for this study with the same data set, backbone and number of shots."""
    text = (files("unicorn_maml") / "reporting" / "paper_numbers.json").read_text(encoding="utf-8")
    tests = result["tests"]
    if not tests:  # a study without data: its ways are all there is to match
        keys = {"way": result["settings"].get("way")}
    else:
        keys = {name: tests[0][name] for name in ("data_set", "backbone", "shot")}
        if result["study"] == "transfer":
            keys["data_set"] = f"{tests[0]['data_set']}>{tests[-1]['data_set']}"
        if tests[0]["way"] != 5:
            return []
    return [
        entry
        for entry in json.loads(text)
        if entry["study"] == result["study"]
        and all(entry.get(name) in (None, value) for name, value in keys.items())
    ]


def paper_text(entry: dict[str, Any]) -> str:
    """A number as it is shown."""
    interval = f" ± {entry['ci95']:.2f}" if entry["ci95"] is not None else ""
    shown = f"{entry['value']:.2f}" if entry["unit"] == "%" else f"{entry['value']}"
    return f"{shown}{interval}{' ' if entry['unit'] else ''}{entry['unit']}"
