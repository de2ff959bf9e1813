"""`app` as far as it goes without a browser."""

import socket
import sys

import pytest


def test_a_missing_extra_is_one_sentence_that_says_how_to_install_it(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    code, _, err = cli("app --port 0")
    assert code == 2
    assert "pip install -e '.[app]'" in err
    assert "Traceback" not in err


def test_a_port_in_use_is_one_sentence(cli):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, err = cli(f"app --port {port}")
    assert code == 2
    assert err.strip() == (
        f"Error: Port {port} is in use by another program; choose another --port."
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--port 70000", "--port must be in 0..65535"),
        ("--host nowhere.invalid", "Cannot listen at nowhere.invalid"),
        ("--inner-lr -1", "--inner-lr must be a positive number"),
        ("--port 0 --model nowhere", "There is no checkpoint in nowhere"),
        ("--port 0 --device tpu", "Unknown device 'tpu'"),
    ],
)
def test_addresses_and_settings_that_cannot_be_are_refused(cli, words, reason):
    code, _, err = cli(f"app {words}")
    assert code == 2
    assert reason in err


def test_the_help_says_that_nothing_is_sent_anywhere(cli):
    code, out, _ = cli("app --help")
    assert code == 0
    assert "Nothing is sent anywhere" in out
    assert "127.0.0.1" in out
