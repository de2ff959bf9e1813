"""Running commands as a user does."""

import signal
import sys

import pytest

from unicorn_maml.cli.main import main


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run a command line; return its exit code, what it printed, and its error sentence."""
    monkeypatch.setenv("COLUMNS", "300")
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup

    def run(*arguments: object) -> tuple[int, str, str]:
        words = [word for each in arguments for word in str(each).split(" ")]
        monkeypatch.setattr(sys, "argv", ["unicorn-maml", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    yield run
    for each, handler in handlers.items():
        signal.signal(each, handler)
