"""`serve`: the engine, the page, and a port; and an end that lets runs finish."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine import log, select
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.config import Environment
from draftscope_app.engine.messages import Load
from draftscope_app.serve import health

LAST_WORDS_S = 1.0  # in which the end of a run reaches its page
SESSIONS = 64  # whose copy of the configuration Gradio keeps; a session that has none gets another
EVENTS_AT_ONCE = 40  # of everything that is no run: pictures, files


def serve(
    host: str = "127.0.0.1",
    port: int = 7860,
    load: Load | None = None,
    drafter: str | None = None,
    open_browser: bool = False,
    block: bool = True,
    environment: Environment | None = None,
) -> Served:
    """Serves the dashboard. The models load while the page is already there. `drafter` is who drafts at first.
    `block=False` returns at once. `environment` has limits, prefix, grace and log; without it nothing is logged.

    Raises `DraftscopeError` for a host or port that cannot be had.
    """
    refuse_taken(host, port)
    environment = environment or Environment(log="off")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    log.open_journal(environment.log)
    # One core stays with the page and the browser: threads that wait for each other on a shared core are slower.
    engine = select.engine(replace(load or Load(), spare_cores=1))
    admission = Admission(engine, environment.limits)
    try:
        demo = _launch(admission, environment, host, port, drafter, open_browser)
    except OSError as error:
        engine.close()
        raise DraftscopeError(f"Port {port} on {host} cannot be used ({error}); choose another with --port.") from None
    served = Served(demo, admission, f"http://{host}:{port}", environment.grace_s)
    log.tell("serving", host=host, port=port, hardware=select.profile())
    if block:
        print(f"Draftscope is at {served.url} (Ctrl+C ends it)", flush=True)
        served.wait()
    return served


def _launch(
    admission: Admission, environment: Environment, host: str, port: int, drafter: str | None, open_browser: bool
) -> Any:
    from draftscope_app.page import page, theme

    async def launched() -> Any:
        lets_load = environment.lets_load(host) and select.profile() == "own"
        demo = page.build(admission, drafter, lets_load)
        demo.queue(default_concurrency_limit=EVENTS_AT_ONCE)
        demo.launch(
            server_name=host, server_port=port, root_path=environment.root_path,
            inbrowser=open_browser, quiet=True, show_error=False, ssr_mode=False, pwa=False,
            theme=theme.gradio_theme(), css=theme.page_css(), head=page.head(), footer_links=[], run_history=False,
            max_file_size=f"{environment.most_upload_mb}mb", mcp_server=select.speaks_mcp(), prevent_thread_lock=True,
            app_kwargs={"routes": health.routes(admission)},
            state_session_capacity=SESSIONS,  # Gradio keeps a copy of the page's configuration for each
        )  # fmt: skip
        return demo

    return asyncio.run(launched())  # without a running loop Gradio makes four and never closes them


class Served:
    """A running dashboard."""

    def __init__(self, demo: Any, admission: Admission, url: str, grace_s: float) -> None:
        self.demo, self.admission, self.url, self.grace_s = demo, admission, url, grace_s

    def wait(self) -> None:
        """Until Ctrl+C, which ends at once, or SIGTERM, after which runs have `grace_s` seconds to finish."""
        try:
            with _told_to_end() as told:
                while not told:
                    time.sleep(0.1)
                self.drain()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def drain(self) -> None:
        """Takes no more runs, says so to whoever asks, and waits for those that are here."""
        self.admission.end()
        runs = len(self.admission.engine)
        log.tell("ending", runs=runs, grace_s=self.grace_s)
        deadline = time.monotonic() + self.grace_s
        while len(self.admission.engine) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(min(LAST_WORDS_S, self.grace_s) if runs else 0)

    def close(self) -> None:
        self.demo.close(verbose=False)
        self.admission.engine.close()
        log.tell("ended", cut_off=len(self.admission.engine))


@contextmanager
def _told_to_end() -> Iterator[list[int]]:
    """SIGTERM, as an orchestrator or a container's end sends it, fills the list."""
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        yield told
    finally:
        signal.signal(signal.SIGTERM, before)


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
