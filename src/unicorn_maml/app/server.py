"""Serves the page from this machine, from a folder of its own that is gone at the end."""

import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unicorn_maml.app.example import draw_example
from unicorn_maml.classifier.model import open_model
from unicorn_maml.devices import choose_device
from unicorn_maml.errors import UsageError
from unicorn_maml.settings import AppSettings

__all__ = ["serving"]

_VISITS_KEPT = 10  # classifiers in memory; a ResNet-12 takes 50 MB


@contextmanager
def serving(settings: AppSettings) -> Iterator[str]:
    """Serve the page within a `with` block; yields its address."""
    port = _free_port(settings.host, settings.port)
    with tempfile.TemporaryDirectory(prefix="unicorn-maml-app-") as folder:
        _prepare_gradio(Path(folder), settings.host)
        # What is wrong with them is told now, not to a visitor.
        choose_device(settings.device)
        open_model(settings.model)
        from unicorn_maml.app.page import appearance, build_page
        from unicorn_maml.app.uploads import LARGEST_UPLOAD

        page = build_page(settings, draw_example(Path(folder) / "example"), Path(folder))
        # `launch`, although it asks its own address whether it is there: only what was launched
        # refuses files that were not uploaded.
        page.launch(
            server_name=settings.host,
            server_port=port,
            prevent_thread_lock=True,
            quiet=True,
            inline=False,
            share=False,
            ssr_mode=False,
            run_history=False,
            enable_monitoring=False,
            mcp_server=False,
            pwa=False,
            footer_links=[],
            max_file_size=LARGEST_UPLOAD,
            state_session_capacity=_VISITS_KEPT,
            **appearance(),
        )
        try:
            yield f"http://{_bracketed(settings.host)}:{port}"
        finally:
            page.close(verbose=False)


def _free_port(host: str, port: int) -> int:
    """Return the port if it is free, before anything that takes time is begun."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            return int(listener.getsockname()[1])
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"Port {port} is in use by another program; choose another --port."
        else:
            reason = f"Cannot listen at {host}, port {port} ({error.strerror}); choose others."
        raise UsageError(reason) from error


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _prepare_gradio(folder: Path, host: str) -> None:
    """Import Gradio so that it sends nothing anywhere and keeps its files in this folder."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = str(folder / "uploads")
    # Its one request to itself is not for a proxy.
    direct = [os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")), host, "localhost"]
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(filter(None, direct))
    try:
        import gradio  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"The page needs the package gradio ({error}); install it with "
            "`pip install -e '.[app]'` in the project's folder."
        ) from error
