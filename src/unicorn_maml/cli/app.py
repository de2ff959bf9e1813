"""`unicorn-maml app`: the page for a user's own photos."""

import time
from contextlib import suppress

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.settings import AppSettings

__all__ = ["open_app"]

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def open_app(settings: AppSettings) -> None:
    """Serve the page until the user stops it."""
    from unicorn_maml.app.server import serving

    with serving(settings) as address:
        console.print(f"Open {address} in a browser; Ctrl-C ends it.", soft_wrap=True)
        if settings.host not in _THIS_MACHINE:
            notes.print("Everyone who can reach this machine can use the page.")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
    notes.print("Stopped; what was uploaded is deleted.")
