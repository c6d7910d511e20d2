"""`serve`: the engine, the page and a port; and a shutdown that lets runs finish."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from starlette.middleware import Middleware

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine import log, select
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.answers import Engine
from draftscope_app.engine.config import Environment
from draftscope_app.engine.opening_models import is_chat
from draftscope_app.engine.process import uninterrupted
from draftscope_app.engine.site import Site
from draftscope_app.engine.visitors import Visitors
from draftscope_app.serve import bodies, connections, health, heartbeats, hosts, logged_errors, quick, refusals
from draftscope_app.serve.document import Documents, Script
from draftscope_app.serve.network import EVERYWHERE, local_address, network_address
from draftscope_app.serve.uploads import BoundedUploads, Uploads, note_parts

if TYPE_CHECKING:
    import gradio as gr

LAST_DELTAS_S = 0.5  # for the last deltas of a run to reach its page
CLOSING_S = 3.0  # of the grace: for the engine process and the port to be closed
SESSIONS = 64  # Gradio keeps a copy of the page's configuration for each; an older session gets a new copy
EVENTS_AT_ONCE = 40  # of everything but runs
QUEUE_POLL_S, PROGRESS_POLL_S = 0.05, 1.0
PATIENCE_S = 60.0  # of who waits for a change, which wakes at once
Say = Callable[[str, bool], None]  # a sentence, and whether it is the last one


@dataclass(frozen=True)
class Opens:
    """A task's own address, which the browser opens on: `what` is there, and what the command has `given` for it."""

    path: str
    what: str
    given: tuple[object, ...] = ()


def serve(
    host: str = "127.0.0.1",
    port: int = 7860,
    load: LoadSettings | None = None,
    drafter: str | None = None,
    open_browser: bool = False,
    block: bool = True,
    environment: Environment | None = None,
    opens: Opens | None = None,
    say: Say | None = None,
) -> Served:
    """Serves the dashboard. The models load while the page is already there, and `say` hears how far. `drafter` is the
    one selected at first. `block=False` returns at once. `environment` has limits, prefix, grace and log; without it
    they are those of the process, and nothing is logged unless it says so. The browser `opens` on a task's own address,
    if one is named.

    Raises `DraftscopeError` for a host or port that cannot be used, and for a drafter that does not exist.
    """
    uploads = Uploads()
    with _Signals(uploads) if block else nullcontext() as signals:
        refuse_taken(host, port)
        if drafter is not None:
            refuse_unknown(drafter)
        environment = environment or Environment.read({"DRAFTSCOPE_LOG": "off"} | os.environ)
        os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
        log.configure(environment.log)
        # One core stays with the page and the browser: threads that wait for each other on a shared core are slower.
        engine = select.engine(replace(load or LoadSettings(), spare_cores=1), environment.silent_s)
        admission = Admission(engine, environment.limits)
        uploads.open()
        try:  # without a running loop Gradio makes four and never closes them
            with quick.keeping_all():
                demo = asyncio.run(_launch(admission, environment, host, port, drafter, open_browser, opens))
        except BaseException as error:  # nothing may be left behind
            engine.close()
            uploads.close()
            if not isinstance(error, OSError):
                raise
            raise _taken(host, port, str(error)) from None
        served = Served(demo, admission, uploads, local_address(host, port), environment.grace_s)
        log.write("serving", host=host, port=port, own_process=engine.own_process)
        if opens is not None and open_browser:
            webbrowser.open(f"{served.url}{opens.path}")
        if signals is not None:
            network = network_address(host, port) if host in EVERYWHERE else ""
            others = f", for others on your network at {network}" if network else ""
            print(f"Draftscope is at {served.url}{others} (Ctrl+C ends it)", flush=True)
            if opens is not None:
                print(f"{opens.what} is at {served.url}{opens.path}", flush=True)
            if say is not None:
                threading.Thread(target=say_loading, args=(engine, say), name="draftscope-says", daemon=True).start()
            served.wait(signals)
    return served


def say_loading(engine: Engine, say: Say) -> None:
    """Says every sentence about the loading of the first models, until they are loaded or cannot be."""
    said, count = "", -1
    while True:
        engine.changed.wait_until(lambda before=count: engine.changed.count != before, PATIENCE_S)  # type: ignore[misc]
        count, status = engine.changed.count, engine.status
        over = status.phase != "loading" and not status.comes_back
        if status.sentence != said:
            said = status.sentence
            say(said, over)
        if over:
            return


async def _launch(
    admission: Admission,
    environment: Environment,
    host: str,
    port: int,
    drafter: str | None,
    open_browser: bool,
    opens: Opens | None,
) -> gr.Blocks:
    quick.import_without_stubs()
    import gradio

    from draftscope_app.page import page, theme
    from draftscope_app.serve import calls, decode_endpoint, doors

    own_process = admission.engine.own_process
    network, given = network_address(host, port), () if opens is None else opens.given
    site = Site(environment, host, network, own_process, is_chat(admission.engine.load), given)
    names = hosts.known_names(host, environment.root_path, environment.allowed_hosts)
    guards = [Middleware(hosts.OwnNames, names)] if site.lets_load else []
    guards += [
        Middleware(heartbeats.NoHeartbeats),
        Middleware(BoundedUploads, environment.max_upload_mb * 2**20),
        Middleware(bodies.BoundedBodies, environment.max_text),
        Middleware(calls.FilledIn, decode_endpoint.defaults()),
        Middleware(refusals.Refusals),
    ]
    page_doors = doors.page_doors()
    script = Script(page.script(site, page_doors))
    guards.append(Middleware(Documents, script, page.front(page_doors)))
    visitors = Visitors(max_bytes=environment.max_kept_mb * 2**20)
    with quick.without_apps():
        demo = page.build(admission, visitors, site, drafter, page_doors)
        with demo:
            gradio.events.api(decode_endpoint.endpoint(admission, visitors), api_name="decode", concurrency_limit=None)
        demo.queue(default_concurrency_limit=EVENTS_AT_ONCE)
    routes = [*health.routes(admission), *heartbeats.routes(visitors), *doors.routes(site, admission)]
    routes.append(script.route())
    _poll_less(demo)
    logged_errors.keep_texts_out()
    connections.bound()
    note_parts()
    demo.launch(
        server_name=host, server_port=port, root_path=environment.root_path,
        inbrowser=open_browser and opens is None, quiet=True, show_error=False, ssr_mode=False, pwa=False,
        theme=theme.gradio_theme(), css=theme.page_css(path for door in page_doors for path in door.styles),
        footer_links=[], run_history=False,
        max_file_size=f"{environment.max_upload_mb}mb", mcp_server=find_spec("mcp") is not None,
        app_kwargs={"routes": routes, "middleware": guards},
        state_session_capacity=SESSIONS, enable_monitoring=False, prevent_thread_lock=True,
    )  # fmt: skip
    return demo


def _poll_less(demo: gr.Blocks) -> None:
    """Gradio's queue looks for work every millisecond, and every ten for progress bars, which this page does not have.
    On an idle server that takes 5% of a core. Gradio has no setting for it, only these attributes."""
    demo._queue.sleep_when_free = QUEUE_POLL_S
    demo._queue.progress_update_sleep_when_free = PROGRESS_POLL_S


class Served:
    """A running dashboard."""

    def __init__(self, demo: gr.Blocks, admission: Admission, uploads: Uploads, url: str, grace_s: float) -> None:
        self.demo, self.admission, self.url, self.grace_s = demo, admission, url, grace_s
        self._uploads = uploads

    def wait(self, signals: _Signals) -> None:
        """Until Ctrl+C, which ends at once, or SIGTERM, after which runs may finish; see `Environment.grace_s`."""
        try:
            with suppress(KeyboardInterrupt):
                with suppress(_TerminatedError):
                    signals.running = True
                    _sleep()
                self.drain()
        finally:
            _end_anyway()
            self.close()
            gc.freeze()  # the interpreter, which ends next, would look through everything for garbage

    def drain(self) -> None:
        """Takes no more runs, and waits for those that are here."""
        engine = self.admission.engine
        self.admission.end()
        runs = len(engine)
        log.write("ending", runs=runs, grace_s=self.grace_s)
        spare = max(self.grace_s - CLOSING_S - LAST_DELTAS_S, 0.0)
        engine.changed.wait_until(lambda: not len(engine), spare)
        time.sleep(min(LAST_DELTAS_S, self.grace_s) if runs else 0)

    def close(self) -> None:
        """At once: pages and their heartbeats keep connections open, and nobody waits for them."""
        cut_off = len(self.admission.engine)
        self.admission.engine.close()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it reports what force_exit cuts off
        self.demo.server.force_exit = True
        self.demo.close(verbose=False)
        self._uploads.close()
        log.write("ended", cut_off=cut_off)


class _TerminatedError(Exception):
    """SIGTERM was received, as an orchestrator or a stopping container sends it."""


class _Signals:
    """Ctrl-C and SIGTERM end the process at once while the server starts, and are exceptions when it is `running`.

    While it starts an exception would be raised wherever the main thread is, mostly in an import, and libraries catch
    what is raised there: pydantic reports another error, others go on without the module, and the server would start
    after all.
    """

    def __init__(self, uploads: Uploads) -> None:
        self.running = False
        self._uploads = uploads

    def __enter__(self) -> _Signals:
        self._before = {number: signal.signal(number, self._take) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, _: object) -> None:
        interrupted = number == signal.SIGINT
        if self.running and interrupted:
            raise KeyboardInterrupt
        if self.running:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # runs are being finished already
            raise _TerminatedError
        for process in multiprocessing.active_children():  # the engine; its own `close` may wait for this thread's lock
            process.kill()
        self._uploads.close()
        if interrupted:
            os.write(2, b"draftscope: interrupted.\n")  # `print` may not be called while it is at work
        os._exit(128 + number if interrupted else 0)


def _end_anyway() -> None:
    """Ends the process some time from now, if something still waits then: a library's thread, or a connection."""
    last = threading.Timer(CLOSING_S, os._exit, (0,))
    last.daemon = True
    last.start()


def _sleep() -> None:
    while True:
        time.sleep(3600)


def refuse_taken(host: str, port: int) -> None:
    """Raises `DraftscopeError` for a port that cannot be used, before anything is loaded."""
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
            if error.errno == errno.EADDRNOTAVAIL:
                raise DraftscopeError(f"host = {host!r} is not an address of this machine; try 127.0.0.1.") from None
            raise _taken(host, port, error.strerror) from None


def _taken(host: str, port: int, why: str | None) -> DraftscopeError:
    return DraftscopeError(f"Port {port} on {host} cannot be used ({why}); choose another with --port.")


def refuse_unknown(drafter: str) -> None:
    """Raises `DraftscopeError` for a drafter that does not exist. Another process looks, for the list needs torch."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        with uninterrupted():
            answer = other.submit(_find, drafter)
        answer.result()


def _find(drafter: str) -> None:
    from draftscope import drafters

    drafters.find(drafter)
