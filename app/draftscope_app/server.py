"""`serve`: the engine process, the page, and a port."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from draftscope.errors import DraftscopeError
from draftscope_app.jobs import Load

MOST_UPLOAD = "64mb"


def serve(
    host: str = "127.0.0.1",
    port: int = 7860,
    load: Load | None = None,
    drafter: str | None = None,
    open_browser: bool = False,
    block: bool = True,
) -> Served:
    """Serves the dashboard. The models load while the page is already there. `drafter` is who drafts at first.
    `block=False` returns at once."""
    refuse_taken(host, port)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    from draftscope_app import page, theme
    from draftscope_app.engine_process import EngineProcess

    # One core stays with the page and the browser: threads that wait for each other on a shared core are slower.
    engine = EngineProcess(replace(load or Load(), spare_cores=1))
    demo = page.build(engine, drafter)
    demo.queue(default_concurrency_limit=page.STREAMS)
    try:
        demo.launch(
            server_name=host, server_port=port, inbrowser=open_browser, quiet=True, show_error=False, ssr_mode=False,
            theme=theme.gradio_theme(), css=theme.page_css(), head=page.head(), footer_links=[], run_history=False,
            max_file_size=MOST_UPLOAD, prevent_thread_lock=True,
        )  # fmt: skip
    except OSError as error:
        engine.close()
        raise DraftscopeError(f"Port {port} on {host} cannot be used ({error}); choose another with --port.") from None
    served = Served(demo, engine, f"http://{host}:{port}")
    if block:
        print(f"Draftscope is at {served.url} (Ctrl+C ends it)", flush=True)
        served.wait()
    return served


class Served:
    """A running dashboard."""

    def __init__(self, demo: object, engine: object, url: str) -> None:
        self.demo, self.engine, self.url = demo, engine, url

    def wait(self) -> None:
        try:
            self.demo.block_thread()  # type: ignore[attr-defined]
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        self.demo.close(verbose=False)  # type: ignore[attr-defined]
        self.engine.close()  # type: ignore[attr-defined]


def refuse_taken(host: str, port: int) -> None:
    """One sentence for a port that cannot be had, before anything is loaded."""
    if not 0 < port < 65536:
        raise DraftscopeError(f"port = {port}: choose one from 1 to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise DraftscopeError(f"host = {host!r} is not an address of this machine ({error}); try 127.0.0.1.") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise DraftscopeError(
                f"Port {port} on {host} cannot be used ({error.strerror}); choose another with --port."
            ) from None
