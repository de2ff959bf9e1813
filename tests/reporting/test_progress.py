"""Progress on a terminal and in a log file."""

import io

import pytest
from rich.console import Console

from unicorn_maml.reporting.progress import progress_bar


@pytest.fixture
def log():
    return Console(file=io.StringIO(), force_terminal=False, width=200)


def test_a_log_file_gets_a_line_from_time_to_time_and_the_bar_at_the_end(log, monkeypatch):
    with progress_bar("training", log) as update:
        update(1, 9, {"loss": 0.25})
        assert log.file.getvalue() == "", "not before a minute is over"
        monkeypatch.setattr("unicorn_maml.reporting.progress._SECONDS_BETWEEN_LINES", 0.0)
        update(2, 9, {"loss": 0.125})
        assert log.file.getvalue() == "training: 2/9  loss 0.125\n"
    assert "2/9" in log.file.getvalue().splitlines()[-1]


def test_a_terminal_gets_no_lines(monkeypatch):
    monkeypatch.setattr("unicorn_maml.reporting.progress._SECONDS_BETWEEN_LINES", 0.0)
    terminal = Console(file=io.StringIO(), force_terminal=True, width=200)
    with progress_bar("training", terminal) as update:
        update(2, 9, {})
    assert "training" in terminal.file.getvalue()
    assert "training: 2/9" not in terminal.file.getvalue()


def test_work_that_was_done_before_leaves_no_bar(log):
    with progress_bar("training", log):
        pass
    assert log.file.getvalue().strip() == ""


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("title", ["evaluating", "training miniimagenet-convnet4-unicorn-1shot"])
def test_how_far_the_work_is_is_told_on_short_lines_too(title, width):
    console = Console(file=io.StringIO(), force_terminal=False, width=width)
    figures = {"epoch": 22, "loss": 1.514, "accuracy": 42.67, "tasks/s": 12.31}
    with progress_bar(title, console) as update:
        update(8_480, 50_000, figures)
    [line] = console.file.getvalue().splitlines()
    assert "8480/50000 -:--:-- epoch" in line
    assert line.startswith(title[: width // 3 - 1])
