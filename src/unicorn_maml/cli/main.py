"""The command `unicorn-maml`."""

import io
import signal
import sys
from types import FrameType
from typing import Any

import typer

from unicorn_maml import __version__
from unicorn_maml.cli import commands
from unicorn_maml.cli.app import open_app
from unicorn_maml.cli.bench import bench
from unicorn_maml.cli.check import check
from unicorn_maml.cli.data import data_prepare, data_show
from unicorn_maml.cli.demo import demo
from unicorn_maml.cli.failures import failing_in_a_sentence
from unicorn_maml.cli.options import add_command
from unicorn_maml.cli.predict import predict
from unicorn_maml.cli.report import report
from unicorn_maml.cli.results import results_add, results_difference, results_table_command
from unicorn_maml.cli.rows import results_run
from unicorn_maml.cli.study import study
from unicorn_maml.processes import keep_freed_memory, wait_asleep
from unicorn_maml.settings import (
    STUDIES,
    AppSettings,
    BenchSettings,
    CheckSettings,
    CompareSettings,
    DataPrepareSettings,
    DataShowSettings,
    DemoSettings,
    EvaluateSettings,
    ExportSettings,
    ModelsSettings,
    PredictSettings,
    PretrainSettings,
    ReportSettings,
    ResultsAddSettings,
    ResultsDifferenceSettings,
    ResultsRunSettings,
    ResultsTableSettings,
    TrainSettings,
)

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="MAML and UNICORN-MAML for few-shot image classification.",
    epilog="Start with `unicorn-maml demo`: a meta-trained classifier in minutes, no data needed.",
)
data = typer.Typer(no_args_is_help=True, help="Make and look at stores of images.")
app.add_typer(data, name="data")
results = typer.Typer(no_args_is_help=True, help="Keep results and set them beside the paper's.")
app.add_typer(results, name="results")
studies = typer.Typer(
    no_args_is_help=True,
    help="Repeat an analysis of the paper on your own networks: numbers, a figure, a conclusion.",
    epilog="Example: unicorn-maml study permutations runs/maml runs/unicorn --tasks 200",
)
app.add_typer(studies, name="study")

add_command(app, "demo", DemoSettings, demo)
add_command(
    app,
    "train",
    TrainSettings,
    commands.train,
    recall=commands.recorded_settings,
    epilog="Example: unicorn-maml train --store glyphs --method unicorn --outer-optimizer adam "
    "--weight-decay 0 --task-batch 4 --epochs 20 --out runs/first",
)
add_command(
    app,
    "pretrain",
    PretrainSettings,
    commands.pretrain,
    recall=commands.recorded_settings,
    epilog="Example: unicorn-maml pretrain --store STORE --backbone resnet12 --precision bfloat16 "
    "--minutes 25 --out runs/backbone",
)
add_command(
    app,
    "evaluate",
    EvaluateSettings,
    commands.evaluate,
    epilog="Example: unicorn-maml evaluate runs/first --tasks 10000 --json result.json",
)
add_command(
    app,
    "compare",
    CompareSettings,
    commands.compare,
    epilog="Example: unicorn-maml compare runs/unicorn runs/maml --tasks 1000",
)
add_command(
    app,
    "predict",
    PredictSettings,
    predict,
    epilog="Example: unicorn-maml predict --support photos --query inbox --csv answers.csv",
)
add_command(
    app,
    "check",
    CheckSettings,
    check,
    epilog="Example: unicorn-maml check --support photos --image confusion.png",
)
add_command(
    app,
    "app",
    AppSettings,
    open_app,
    epilog="Example: unicorn-maml app --port 8000",
)
add_command(app, "export", ExportSettings, commands.export)
add_command(
    app,
    "models",
    ModelsSettings,
    commands.models,
    epilog="Example: unicorn-maml evaluate miniimagenet-resnet12-pretrained --store STORE",
)
add_command(
    app,
    "bench",
    BenchSettings,
    bench,
    epilog="Example: unicorn-maml bench --backbone resnet12 --shot 5 --inner-steps 20",
)
add_command(
    results,
    "run",
    ResultsRunSettings,
    results_run,
    epilog="Example: unicorn-maml results run 'miniimagenet-convnet4-*-1shot' --stores stores",
)
add_command(
    results,
    "add",
    ResultsAddSettings,
    results_add,
    epilog="Example: unicorn-maml results add result.json miniimagenet-resnet12-unicorn-1shot",
)
add_command(
    results,
    "difference",
    ResultsDifferenceSettings,
    results_difference,
    epilog="Example: unicorn-maml results difference with-drop.json without-drop.json",
)
add_command(
    results,
    "table",
    ResultsTableSettings,
    results_table_command,
    epilog="Example: unicorn-maml results table --document docs/results.md",
)
add_command(
    data,
    "prepare",
    DataPrepareSettings,
    data_prepare,
    epilog="Example: unicorn-maml data prepare mini_imagenet/ --dataset miniimagenet "
    "--out stores/mini",
)
add_command(data, "show", DataShowSettings, data_show)
add_command(
    app,
    "report",
    ReportSettings,
    report,
    epilog="Example: unicorn-maml report runs/demo/maml runs/study-permutations --out report.html",
)
for each in STUDIES:
    words = f"unicorn-maml study {each.study} {each.example}"
    add_command(studies, each.study, each, study, epilog=f"Example: {words}")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unicorn-maml {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _interrupt)
    # A closed terminal too, unless the user said (nohup) that the work is to go on.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)
    keep_freed_memory()
    wait_asleep()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be printable
    with failing_in_a_sentence():
        app(standalone_mode=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> Any:
    raise KeyboardInterrupt
