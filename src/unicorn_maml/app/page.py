"""The page itself: what is where, and what happens when. Gradio draws it."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
import pandas as pd

from unicorn_maml.app.adapted import Adapted, Answer, Step, adapt
from unicorn_maml.app.example import Example
from unicorn_maml.app.fields import PHOTO_FIELD, ClassFields, paths_in, photo_field
from unicorn_maml.app.uploads import MOST_QUERIES, labelled
from unicorn_maml.errors import UnicornError
from unicorn_maml.settings import PhotoSettings

__all__ = ["appearance", "build_page"]

_TITLE = "Classify your own photos"
_WELCOME = f"""# {_TITLE}
Give two or more classes a name and a few photos each, press **Adapt**, then add photos to classify.
Photos stay on the computer that runs this page."""
_USAGE = """Unzip it, and use it without this page:
`unicorn-maml predict --classifier my-classifier --query FOLDER`"""
# An empty field's drop zone would push the camera button out of sight, and the label of a full one
# would cover its first photo.
_STYLE = f"""
.{PHOTO_FIELD}:has(> .source-selection) > :is(.upload-wrapper, .wrap) {{
    height: calc(100% - 45px);
}}
.{PHOTO_FIELD} .grid-container {{
    padding-top: 32px;
    grid-template-columns: repeat(auto-fill, minmax(90px, 1fr));
}}
"""
_REFRESH_SECONDS = 0.2
_CLEANING = (3600, 24 * 3600)  # every hour, what is older than a day
_Result = TypeVar("_Result")


def appearance() -> dict[str, Any]:
    """Return options of `launch`: how the page looks."""
    return {
        # Fonts of the visitor's system: none is fetched.
        "theme": gr.themes.Default(
            primary_hue="indigo",
            font=["system-ui", "sans-serif"],
            font_mono=["ui-monospace", "monospace"],
        ),
        "css": _STYLE,
    }


def build_page(asked: PhotoSettings, example: Example, folder: Path) -> gr.Blocks:
    """Build the page; files that it makes in passing are in `folder`."""
    page = gr.Blocks(title=_TITLE, analytics_enabled=False, delete_cache=_CLEANING)
    with page:
        adapted, answers = gr.State(None), gr.State([])
        gr.Markdown(_WELCOME)
        try_example = gr.Button("Try the example")
        gr.Markdown("## 1. Photos of each class")
        classes = ClassFields()
        classes.on_add(gr.Button("Add a class"))
        gr.Markdown("## 2. Adapt")
        start = gr.Button("Adapt", variant="primary")
        status = gr.Markdown()
        curve = gr.LinePlot(
            x="inner steps",
            y="percent",
            color="support photos",
            y_lim=[0, 100],
            height=260,
            visible=False,
            buttons=[],
        )
        download = gr.DownloadButton("Download the classifier", visible=False)
        usage = gr.Markdown(_USAGE, visible=False)
        gr.Markdown("## 3. Photos to classify")
        gr.Markdown("They are classified as soon as there is an adapted classifier.")
        queries, new_queries = photo_field("Photos to classify", MOST_QUERIES)

        @gr.render(inputs=[answers])  # type: ignore[untyped-decorator]
        def show_answers(found: list[Answer]) -> None:
            for answer in found:
                _show_answer(answer)

        def fill_in_example() -> list[Any]:
            return [*classes.filled(list(example.classes.items())), example.queries]

        def adapt_to_classes(*values: Any) -> Iterator[dict[Any, Any]]:
            support = _or_say_why(lambda: labelled(classes.read(values)))
            steps: list[Step] = []
            with ThreadPoolExecutor(1) as pool:
                work = pool.submit(adapt, support, asked, steps.append)
                while wait([work], _REFRESH_SECONDS).not_done:
                    yield {status: "Adapting ...", curve: _curve(steps)}
            yield {status: "", curve: _curve(steps)}  # also where it failed
            made = _or_say_why(work.result)
            yield {adapted: made, status: _summary(made, asked, steps), curve: _curve(steps)}
            with tempfile.TemporaryDirectory(dir=folder) as own:
                file = made.zipped(Path(own))
                yield {
                    download: gr.DownloadButton(value=file, visible=True),
                    usage: gr.Markdown(visible=True),
                }

        def classify(made: Adapted | None, value: Any) -> list[Answer]:
            photos = paths_in(value)
            return _or_say_why(lambda: made.classify(photos)) if made else []

        classifying: dict[str, Any] = {
            "fn": classify,
            "inputs": [adapted, queries],
            "outputs": answers,
        }
        adapting: dict[str, Any] = {
            "fn": adapt_to_classes,
            "inputs": classes.values,
            "outputs": [adapted, status, curve, download, usage],
            "show_progress": "hidden",
        }
        start.click(**adapting).success(**classifying)
        filled = try_example.click(fill_in_example, None, [*classes.everything, queries])
        filled.success(**adapting).success(**classifying)
        new_queries.then(**classifying)
    return page


def _or_say_why(work: Callable[[], _Result]) -> _Result:
    """Do it, or show the visitor why it cannot be done."""
    try:
        return work()
    except UnicornError as error:
        raise gr.Error(str(error), print_exception=False) from error


def _curve(steps: Sequence[Step]) -> gr.LinePlot:
    parts = {
        "accuracy": [step.accuracy for step in steps],
        "mean probability": [step.probability for step in steps],
    }
    rows = [
        (step.number, 100 * value, name)
        for name, values in parts.items()
        for step, value in zip(steps, values, strict=False)
    ]
    table = pd.DataFrame(rows, columns=["inner steps", "percent", "support photos"])
    return gr.LinePlot(value=table, visible=bool(rows))


def _summary(made: Adapted, asked: PhotoSettings, steps: Sequence[Step]) -> str:
    classifier, photos = made.classifier, len(made.support.paths)
    what = "All parameters" if classifier.adapt_ == "all" else "The head"
    right = round(steps[-1].accuracy * photos)
    told = "all" if right == photos else str(right)
    sentences = [
        f"{what} of {asked.model} adapted to {photos} photos of {len(classifier.classes_)} classes "
        f"in {classifier.inner_steps_} inner steps; {told} of them are right.",
        *made.notes,
    ]
    return " ".join(sentences)


def _show_answer(answer: Answer) -> None:
    photos = {
        answer.photo.name: answer.photo,
        f"Nearest support photo: {answer.nearest_label}": answer.nearest,
    }
    with gr.Row(equal_height=True):
        for label, photo in photos.items():
            gr.Image(
                str(photo), label=label, height=220, min_width=140, buttons=[], interactive=False
            )
        gr.Label(answer.probabilities, label="Probabilities", min_width=240)
