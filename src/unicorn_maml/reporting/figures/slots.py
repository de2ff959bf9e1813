"""Slots before adaptation, the head's size, and its course through meta-training."""

from typing import Any

from matplotlib.figure import Figure

from unicorn_maml.reporting.figures.style import color_of, new_figure, whole_numbers

__all__ = ["draw_slots"]


def draw_slots(result: dict[str, Any]) -> Figure:
    """Shares of the slots, norms, and norms by epoch where a log has them."""
    data = result["data"]
    with_history = any(found["history"]["epoch"] for found in data.values())
    figure, grid = new_figure(3 if with_history else 2)
    shares, norms = grid[0][:2]
    width = 0.8 / len(data)
    names = {"mean_norm": "mean of\nthe slots", "spread": "distance\nfrom it"}
    names["meta_gradient_norm"] = "meta-\ngradient"
    for number, (label, found) in enumerate(data.items()):
        color = color_of(label, list(data))
        shift = (number - (len(data) - 1) / 2) * width
        cells = found["shares"]
        if found["spread"] == 0:  # equal slots: that the first of equals counts means nothing
            shares.plot([], [], "s", color=color, label=f"{label}: all slots tie")
        else:
            shares.bar(
                [slot + shift for slot in range(len(cells))],
                [cell["mean"] for cell in cells],
                width,
                yerr=[cell["ci95"] for cell in cells],
                capsize=2,
                color=color,
                label=label,
            )
        norms.plot(  # no bars: on a logarithmic axis they have nothing to stand on
            [place + shift / 4 for place in range(len(names))],
            [found[name] or float("nan") for name in names],
            "o",
            color=color,
            label=label,
        )
        for place, name in enumerate(names):
            if found[name] == 0:  # which has no place on a logarithmic axis
                at = (place + shift / 4, 0.01)
                norms.annotate(
                    "0", at, xycoords=("data", "axes fraction"), ha="center", color=color
                )
        if with_history and found["history"]["epoch"]:
            history = found["history"]
            for name, dashes in (("head_norm", "-"), ("head_gradient_norm", ":")):
                values = [value or float("nan") for value in history[name]]
                what = "head" if name == "head_norm" else "its meta-gradient"
                label_of_line = f"{label}: {what}"
                grid[0][2].plot(
                    history["epoch"], values, color=color, linestyle=dashes, label=label_of_line
                )
    shares.set_title("who wins before adaptation")
    shares.set_xlabel("slot")
    shares.set_ylabel("share of query images (%)")
    shares.set_xticks(range(len(next(iter(data.values()))["shares"])))
    shares.legend()
    norms.set_title("the trained head")
    norms.set_yscale("log")
    norms.set_xlim(-0.5, len(names) - 0.5)
    norms.set_ylabel("norm")
    norms.set_xticks(range(len(names)), list(names.values()))
    if with_history:
        course = grid[0][2]
        course.set_title("through meta-training")
        course.set_yscale("log")
        course.set_xlabel("epoch")
        course.set_ylabel("norm")
        whole_numbers(course.xaxis)
        course.legend(fontsize=8)
    return figure
