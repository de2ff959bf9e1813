"""Figures and the page, from results that need no network."""

import copy
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest

from unicorn_maml.errors import FileError, UsageError
from unicorn_maml.files import write_json
from unicorn_maml.names import METHOD_NAMES, STUDY_FORMAT
from unicorn_maml.reporting import paper
from unicorn_maml.reporting.cells import cell_text
from unicorn_maml.reporting.figures.draw import draw_study, svg_of, write_figure
from unicorn_maml.reporting.figures.style import color_of
from unicorn_maml.reporting.paper import paper_numbers, paper_text
from unicorn_maml.reporting.report import report_page
from unicorn_maml.reporting.sections import read_section
from unicorn_maml.settings import STUDIES, ChanceSettings
from unicorn_maml.studies import chance


def cell(mean: float, ci95: float = 1.0) -> dict:
    return {"mean": mean, "ci95": ci95}


def curve(steps: int = 5) -> dict:
    cells = [cell(20 + 10 * step) for step in range(steps)]
    return {
        "query": cells,
        "support": cells,
        "best_step": 4,
        "diverged": 0,
        "trained_steps": 3,
    }


def choices(*names: str) -> dict:
    return {name: {"accuracy": cell(60 + i), "gain": cell(i)} for i, name in enumerate(names)}


BOTH = ("MAML", "UNICORN-MAML")
SPREAD = {
    "by_position": [cell(70 - i) for i in range(6)],
    "histogram": {"counts": [1, 4, 1], "edges": [-3, -1, 1, 3]},
}
HISTORY = {"epoch": [1, 2], "head_norm": [1.0, 0.9], "head_gradient_norm": [0.1, 0.0]}
SLOTS = {
    "shares": [cell(50), cell(30), cell(20)],
    "mean_norm": 1.0,
    "spread": 0.0,
    "meta_gradient_norm": 1e-9,
    "history": HISTORY,
}
CELLS = [
    {"inner_steps": steps, "inner_lr": rate, "accuracy": 40 + steps + rate, "ci95": 0.5}
    for steps in (1, 5)
    for rate in (0.01, 0.1)
]
DATA = {
    "steps": {label: {"base": curve(), "novel": curve()} for label in BOTH},
    "freeze": {label: {"backbone adapted": curve(), "backbone frozen": curve()} for label in BOTH},
    "permutations": dict.fromkeys(BOTH, SPREAD),
    "one-task": {
        label: {"support": [[20.0, 100.0]] * 6, "query": [[20.0, 50.0 + i] for i in range(6)]}
        for label in BOTH
    },
    "selection": {"MAML": choices("as given", "by initial support loss")},
    "ensemble": {"MAML": choices("one permutation", "5 rotations")},
    "average": {"MAML": choices("learned slots", "mean of the slots")},
    "transfer": {label: {"here": {"accuracy": cell(60)}} for label in BOTH},
    "policies": {label: choices("batch", "support") for label in BOTH},
    "shots": {label: {"shots": [1, 5], "accuracy": [cell(50), cell(60)]} for label in BOTH},
    "slots": dict.fromkeys(BOTH, SLOTS),
    "chance": {"way": 5, "counts": ["44", "45", "20", "10", "0", "1"]},
    "heatmap": {
        "cells": [*CELLS, {"inner_steps": 1, "inner_lr": 10.0, "diverged": True}],
        "best": CELLS[-1],
        "method": "MAML",
    },
}


def result(study: str, **test) -> dict:
    known = {"way": 5, "shot": 1, "data_set": "glyphs", "backbone": "convnet4"}
    known |= {"method": "maml", "split": "novel", **test}
    return {
        "format": STUDY_FORMAT,
        "study": study,
        "title": f"A study of <{study}>",
        "conclusion": "It holds & is so.",
        "table": {
            "columns": ["MAML"],
            "rows": [{"label": "accuracy (%)", "cells": [cell(60.123)]}],
        },
        "data": DATA[study],
        "command": f"unicorn-maml study {study} runs/a",
        "settings": {"way": 5},
        "tests": [] if study == "chance" else [known],
        "seconds": 1.0,
        "device": "CPU",
        "versions": {"torch": "2"},
    }


class Page(HTMLParser):
    """Collects what a browser would load."""

    loads: ClassVar[set[tuple[str, str]]] = {
        ("img", "src"),
        ("script", "src"),
        ("link", "href"),
        ("iframe", "src"),
        ("source", "src"),
        ("object", "data"),
    }

    def __init__(self, text: str):
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if (tag, name) in self.loads:
                self.loaded.append(value)
            if (tag, name) == ("a", "href"):
                self.links.append(value)
            if name == "id":
                self.ids.add(value)


@pytest.fixture
def page(tmp_path) -> Path:
    """A report of every study."""
    sections = []
    for kind in STUDIES:
        write_json(tmp_path / kind.study / "study.json", result(kind.study))
        sections.append(read_section(tmp_path / kind.study))
    file = tmp_path / "report.html"
    file.write_text(report_page("All <studies>", sections), encoding="utf-8")
    return file


def test_every_study_has_a_figure_that_is_the_same_file_twice(tmp_path):
    for kind in STUDIES:
        found = result(kind.study)
        before = copy.deepcopy(found)
        drawn = svg_of(draw_study(found))
        assert drawn == svg_of(draw_study(found))
        assert b"mathdefault" not in drawn, "formulas of labels would be shown as they are written"
        assert found == before
    write_figure(draw_study(result("chance")), tmp_path, "chance")
    assert (tmp_path / "chance.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "chance.svg").read_bytes()


@pytest.mark.parametrize("study", ["steps", "freeze"])
def test_legends_of_curves_lie_outside_the_axes_and_explain_the_rings(study):
    figure = draw_study(result(study))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert "as many steps as in training" in [text.get_text() for text in legend.get_texts()]
    place = legend.get_window_extent()
    assert figure.bbox.containsx(place.x0)
    assert figure.bbox.containsx(place.x1)
    assert figure.bbox.y0 <= place.y0
    for axes in figure.axes:
        assert axes.get_legend() is None
        assert place.y1 < axes.get_tightbbox().y0


def test_only_the_reference_has_no_difference_beside_it():
    same = {"accuracy": cell(60), "gain": cell(0, 0)}
    found = result("ensemble")
    found["data"] = {"MAML": {"one permutation": same, "5 rotations": same}}
    assert notes_beside(found) == ["", "+0.00 ± 0.00"]
    found = result("policies")
    trained = {**same, "trained": True}
    found["data"] = {"MAML": {"batch": {**same, "trained": False}, "mixed": trained}}
    assert notes_beside(found) == ["+0.00 ± 0.00", "as trained"]


def notes_beside(found: dict) -> list[str]:
    (axes,) = draw_study(found).axes
    return [text.get_text() for text in axes.texts if "same tasks" not in text.get_text()]


def test_a_method_has_one_colour_everywhere_and_two_of_a_kind_have_two():
    alone = color_of("MAML", ["MAML"])
    assert alone == color_of("MAML", ["UNICORN-MAML", "MAML"])
    assert alone != color_of("UNICORN-MAML", ["UNICORN-MAML", "MAML"])
    several = ["MAML (a)", "MAML (b)", "MAML (c)"]
    assert len({color_of(label, several) for label in several}) == 3


def test_the_page_loads_nothing_from_elsewhere_and_its_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    found = Page(text)
    assert len(found.loaded) == len(STUDIES) + 1  # figures, and the icon
    assert all(each.startswith("data:") for each in found.loaded)
    assert all(link.removeprefix("#") in found.ids for link in found.links)
    assert "script" not in found.tags
    assert "url(" not in text
    assert "@import" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_the_page_has_a_summary_first_and_escapes_what_it_is_told(page):
    text = page.read_text(encoding="utf-8")
    assert "<studies>" not in text
    assert "All &lt;studies&gt;" in text
    assert text.index("Summary") < text.index("It holds &amp; is so.") < text.index("<figure>")
    assert "60.12 ± 1.00" in text
    assert "unicorn-maml study steps runs/a" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (cell(60.123, 0.456), "60.12 ± 0.46"),
        ({"mean": 1.6, "low": 0.884, "high": 2.1}, "1.60 (0.88 to 2.10)"),
        (1234.5, "1,234"),
        (-20_000.0, "-20,000"),
        (123.4, "123"),
        (99.96, "100"),
        (2.345, "2.35"),
        (1e-9, "1e-09"),
        (7, "7"),
        ("diverged", "diverged"),
        (None, ""),
    ],
)
def test_cells_are_short_and_readable(value, text):
    assert cell_text(value) == text


@pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium")
def test_the_page_opens_in_a_browser_with_every_figure(page):
    probe = (
        "<script>addEventListener('load', () => { document.title = "
        "[...document.images].filter(i => i.complete && i.naturalWidth > 50).length; });</script>"
    )
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text(encoding="utf-8") + probe, encoding="utf-8")
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            "--enable-logging=stderr",  # or else it keeps what a page has to complain about
            *(f"--user-data-dir={page.parent / 'profile'}", probed.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"<title>{len(STUDIES)}</title>" in done.stdout
    assert "CONSOLE" not in done.stderr


MINI = {"data_set": "miniimagenet", "backbone": "resnet12", "shot": 1}


def shown(study: str, **test) -> dict[str, str]:
    return {e["label"]: paper_text(e) for e in paper_numbers(result(study, **MINI | test))}


def test_the_papers_numbers_stand_beside_studies_of_the_same_thing_only():
    assert shown("ensemble") == {
        "MAML, one permutation": "64.42 %",
        "MAML, all 120 permutations": "65.50 %",
        "MAML, 5 rotations": "65.37 %",
    }
    spread = {"MAML, best minus worst of 120 permutations, about": "15 points"}
    assert shown("permutations", permutations=120) == spread
    for other in (
        {"backbone": "convnet4"},
        {"data_set": "glyphs"},
        {"shot": 3},
        {"way": 7},
        {"split": "base"},
        {"split": "validation"},
        {"method": "unicorn"},
        {"method": "pretrained"},
    ):
        assert shown("ensemble", **other) == {}
    assert shown("permutations", permutations=24) == {}
    away = result("transfer", **MINI)
    away["tests"].append({**away["tests"][0], "data_set": "cub"})
    assert [e["label"] for e in paper_numbers(away)] == ["MAML"]
    away["tests"].append({**away["tests"][1], "method": "unicorn"})
    assert [e["value"] for e in paper_numbers(away)] == [51.25, 51.8]
    assert paper_numbers(chance.run(ChanceSettings(way=4))) == []
    assert "44" in paper_numbers(chance.run(ChanceSettings(way=5)))[0]["label"]


def test_the_papers_numbers_of_shots_are_of_those_that_were_run():
    found = result("shots", **MINI, method="unicorn")
    found["tests"] += [{**found["tests"][0], "shot": shot} for shot in (7, 20)]
    assert {e["label"]: e["value"] for e in paper_numbers(found)} == {
        "UNICORN-MAML, trained and tested with 1 shot": 65.17,
        "UNICORN-MAML, 20 shots": 90.96,
    }


def test_the_papers_numbers_of_steps_say_with_how_many_the_networks_were_trained():
    found = result("steps", **MINI, split="base")  # the study shows both splits
    found["tests"].append({**found["tests"][0], "split": "novel"})
    assert [e["label"] for e in paper_numbers(found)] == [
        "MAML, trained with 5 steps",
        "MAML, trained with the best number of steps",
        "MAML before adaptation, about",
    ]


def test_heat_maps_of_shorter_training_have_no_numbers_of_the_paper():
    found = result("heatmap", **MINI)
    assert len(paper_numbers(found)) == 2
    found["settings"]["budget"] = 0.5
    assert paper_numbers(found) == []


def test_every_number_of_the_paper_says_its_method():
    every = json.loads((Path(paper.__file__).parent / "paper_numbers.json").read_text())
    named = [entry for entry in every if entry["method"]]
    assert {entry["study"] for entry in every if entry not in named} == {"chance"}
    for entry in named:
        assert re.match(rf"{METHOD_NAMES[entry['method']]}(,| before|$)", entry["label"]), entry


def test_the_settings_of_a_study_are_those_of_all_its_tests(tmp_path):
    found = result("policies", adapt="all", drop=False, leak=False, inner_lr=None, seed=0)
    first = found["tests"][0]
    found["tests"] = [
        {**first, "normalization": policy, "checkpoint": f"runs/{name}", "inner_steps": steps}
        for policy in ("batch", "mixed")
        for name, steps in (("a", 5), ("b", 15))
    ]
    write_json(tmp_path / "study.json", found)
    details = read_section(tmp_path).details
    assert details["normalization"] == "batch, mixed"
    assert details["inner_steps"] == "5, 15"
    assert details["checkpoint"] == "runs/a, runs/b"
    assert details["backbone"] == "ConvNet-4"
    assert (details["split"], details["adapt"]) == ("novel", "all")
    assert details["seed"] == "0", "which is not off"
    assert not {"drop", "leak", "inner_lr"} & details.keys()
    found["tests"][0] |= {"drop": True, "leak": True}
    write_json(tmp_path / "study.json", found)
    details = read_section(tmp_path).details
    assert (details["drop"], details["leak"]) == ("yes, no", "yes, no")


def test_a_training_run_is_a_section_with_its_course(trained):
    section = read_section(trained["maml"])
    assert section.title == "Meta-training of MAML: ConvNet-4 on small, 3-way 1-shot"
    assert section.conclusion.startswith("Best of 2 epochs")
    assert section.figure is not None


def test_folders_that_cannot_be_reported_say_why(tmp_path, trained):
    (tmp_path / "empty").mkdir()
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "study.json.part").write_text("[]")
    (tmp_path / "grid" / "cells").mkdir(parents=True)
    shutil.copytree(trained["maml"], tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    for name, sentence in (
        ("nowhere", "There is no folder"),
        ("empty", "holds neither a study nor a training run"),
        ("part", "is not finished; finish it first"),
        ("grid", "is not finished; finish it first"),
        ("run", "unicorn-maml train --out .* --resume"),
    ):
        with pytest.raises(UsageError, match=sentence):
            read_section(tmp_path / name)


@pytest.mark.parametrize("spoil", ["data", "table", "tests", "study", "format"])
def test_a_damaged_study_is_refused(tmp_path, spoil):
    found = result("permutations")
    found[spoil] = {"MAML": {}} if spoil == "data" else "?"
    write_json(tmp_path / "study.json", found)
    with pytest.raises(FileError, match="damaged or was written by another version"):
        read_section(tmp_path)
    for text, reason in (("{", "is damaged"), ('{"seconds": NaN}', "NaN is no number")):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(FileError, match=reason):
            read_section(tmp_path)


@pytest.mark.parametrize("study", ["slots", "selection", "steps", "heatmap"])
def test_a_study_without_any_data_is_refused(tmp_path, study):
    write_json(tmp_path / "study.json", {**result(study), "data": {}})
    with pytest.raises(FileError, match="damaged or was written by another version"):
        read_section(tmp_path)


def test_a_run_is_reported_though_its_log_is_cut_off(tmp_path, trained):
    run = tmp_path / "a run"
    shutil.copytree(trained["maml"], run)
    with (run / "log.jsonl").open("a") as log:
        log.write('{"epoch": 3, "lo')
    section = read_section(run)
    assert section.figure == read_section(trained["maml"]).figure
    assert section.command == f"unicorn-maml train --config '{run}/config.json'"


def test_names_of_folders_are_drawn_as_they_are():
    study = result("selection")
    study["data"] = {r"MAML (net$\foo{$)": study["data"]["MAML"], "MAML (b)": study["data"]["MAML"]}
    assert rb"net$\foo{$" in svg_of(draw_study(study))


def test_words_between_backticks_are_code_on_the_page(tmp_path):
    found = {**result("policies"), "conclusion": "With `mixed`, <b>."}
    write_json(tmp_path / "study.json", found)
    assert "With <code>mixed</code>, &lt;b&gt;." in report_page("x", [read_section(tmp_path)])


def test_a_heat_map_shows_cells_that_are_above_the_chosen_one():
    study = result("heatmap")
    study["data"] = {**study["data"], "best": CELLS[0]}
    (image,) = draw_study(study).axes[0].images
    assert image.get_clim()[1] == max(cell["accuracy"] for cell in CELLS)


def test_slots_that_tie_have_no_bars():
    study = result("slots")
    study["data"] = {"MAML": {**SLOTS, "spread": 0.5}, "UNICORN-MAML": SLOTS}
    shares = draw_study(study).axes[0]
    assert [len(bars.patches) for bars in shares.containers if hasattr(bars, "patches")] == [3]
    entries = [text.get_text() for text in shares.get_legend().get_texts()]
    assert sorted(entries) == ["MAML", "UNICORN-MAML: all slots tie"]
