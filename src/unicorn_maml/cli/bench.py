"""`unicorn-maml bench`: how fast this machine is."""

from typing import Any

from rich.table import Table

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.errors import StoppedError
from unicorn_maml.files import check_can_write, write_json
from unicorn_maml.names import BACKBONE_NAMES, METHOD_NAMES
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import BenchSettings

__all__ = ["bench"]


def bench(settings: BenchSettings) -> None:
    """Measure, print one table, and say how it was measured."""
    from unicorn_maml.benchmarking.speed import measure_speed

    check_can_write(settings.json)
    try:
        with progress_bar("measuring", notes) as update:
            result = measure_speed(settings, update)
    except KeyboardInterrupt:
        raise StoppedError("Stopped; nothing was written.") from None
    if settings.json:
        write_json(settings.json, result)
    console.print(_table(result))
    console.print(_explanation(result))


_KINDS = ("adaptation", "evaluation", "meta_training")


def _table(result: dict[str, Any]) -> Table:
    names = [kind.replace("_", "-") for kind in _KINDS]
    table = Table("", "", title=f"{result['device']}, {result['settings']['precision']}")
    for name in names:
        table.add_column(name, justify="right")
    for row in result["rows"]:
        lines = _name(row)
        for number, (label, cells) in enumerate(_figures(row).items()):
            first = lines[number] if number < len(lines) else ""
            table.add_row(first, label, *cells)
        table.add_section()
    return table


def _name(row: dict[str, Any]) -> list[str]:
    """What a row measures, line by line."""
    width = f" ({row['width']})" if row["backbone"] == "convnet4" else ""
    return [
        BACKBONE_NAMES[row["backbone"]] + width,
        METHOD_NAMES[row["method"]],
        f"{row['shot']}-shot, {row['inner_steps']} steps",
        f"{row['size']}x{row['size']}x{row['channels']}",
    ]


def _figures(row: dict[str, Any]) -> dict[str, list[str]]:
    """The figures of all kinds of work, by what they are."""

    def line(name: str, shown: str, factor: float = 1) -> list[str]:
        return [shown.format(row[kind][name] * factor) for kind in _KINDS]

    return {
        "tasks/s": line("tasks_per_second", "{:.4g}"),
        "TFLOP/s": line("teraflops", "{:.3g}"),
        "of matrix rate": line("share_of_matrix_rate", "{:.1f}%", 100),
        "peak GiB": line("peak_bytes", "{:.2f}", 1 / 2**30),
        "over plain loop": line("times_plain_loop", "{:.2f}x"),
        "same answers": ["", f"{100 * row['same_predictions']:.1f}%", ""],
    }


def _explanation(result: dict[str, Any]) -> str:
    settings, versions = result["settings"], result["versions"]
    batch = f"{settings['task_batch']} task{'s' if settings['task_batch'] > 1 else ''}"
    lines = [
        f"{result['way']}-way, {result['query']} queries per class, {settings['normalization']} "
        "normalisation, first order.",
        f"Adaptation: the inner loop. Evaluation: with query prediction. Both of "
        f"{settings['tasks']} tasks.",
        f"Meta-training: {batch} per update, with the step of the outer optimiser (SGD, Nesterov).",
        "TFLOP/s: of the whole algorithm; where all slots start alike, the engine leaves out the "
        "backward pass of the first step, which is zero.",
        f"Matrix rate: {result['matrix_teraflops']:.3g} TFLOP/s in {settings['precision']}, "
        "measured in this run.",
        f"Peak memory: of {result['peak_bytes_of']}.",
        "Plain loop: torch alone, one task after the other, timed in turn with the engine; medians "
        f"of {settings['repeats']}.",
        f"unicorn-maml {versions['unicorn_maml']}, torch {versions['torch']}, Python "
        f"{versions['python']}, {'compiled' if result['compiled'] else 'nothing compiled'}.",
    ]
    return "\n".join(lines)
