"""The page: the header and its doors, the composer, the instrument, and the listeners between them and the engine.

The instrument is one JavaScript element; Python only ever hands it deltas (runs/feed.py). Nothing here decodes.
"""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.jobs import AnyJob
from draftscope_app.engine.sessions import Visitors
from draftscope_app.page import bundle, controls, host, opening
from draftscope_app.page.layout import Widgets, lay_out
from draftscope_app.page.listeners import settings
from draftscope_app.page.listeners.engine import EngineListeners
from draftscope_app.page.listeners.files import FileListeners
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.runs.feed import recording
from draftscope_app.page.servers import KnownServers, ServersRequest
from draftscope_app.page.shared import Shared
from draftscope_app.page.tasks import check, compare
from draftscope_app.page.tasks.advise import AdviceListeners
from draftscope_app.page.tasks.audit import AuditRequest
from draftscope_app.page.tasks.experiment import ExperimentListeners
from draftscope_app.page.tasks.load import LoadRequest
from draftscope_app.page.tasks.task import InstrumentTask, TaskListeners, Values

UPLOADS_S = 3600  # how long an uploaded file is kept, and how often old ones are deleted


def head(network: str = "", chat: bool = False) -> str:
    """The script that belongs into the document's head; see `bundle.script`."""
    return f"<script>{bundle.script(network, chat)}</script>"


def build(
    admission: Admission,
    visitors: Visitors,
    drafter: str | None = None,
    lets_load: bool = False,
    servers: KnownServers | None = None,
    chat: bool = False,
) -> gr.Blocks:
    """The whole page over one engine. `drafter` is selected when it opens; with `lets_load` it offers to load other
    models. `servers` of other programs may be raced and audited. `chat`: the target is expected to be a chat model."""
    max_tokens = admission.limits.max_tokens
    defaults = controls.defaults() | opening.settings(drafter, chat)
    defaults["max_new_tokens"] = min(defaults["max_new_tokens"], max_tokens)
    shared = Shared(admission, visitors, defaults, first_run(), servers or KnownServers())
    first = recording(shared.first) if shared.first else ""
    demo = gr.Blocks(title="Draftscope", analytics_enabled=False, fill_width=True, delete_cache=(UPLOADS_S, UPLOADS_S))
    with demo:
        widgets = lay_out(defaults, max_tokens, first, lets_load, host.functions(shared), shared.servers.offered)
        _attach(demo, shared, widgets)
    return demo


def first_run() -> tuple[AnyEvent, ...]:
    """The shipped recorded run, if there is one that can be read."""
    path = assets() / "traces" / "first.jsonl.gz"
    try:
        return files.read(path).events if path.exists() else ()
    except DraftscopeError:
        return ()


def _attach(demo: gr.Blocks, shared: Shared, widgets: Widgets) -> None:
    names = controls.names()
    standing = [shared.defaults[name] for name in names]
    query = f"Draftscope.query({json.dumps(names)}, values, {json.dumps(standing)})"
    settings.attach(widgets, shared.defaults, query)
    resumed = RunListeners(shared, widgets).attach(query)
    _attach_cards(shared, widgets, resumed)
    FileListeners(shared, widgets).attach()
    AdviceListeners(shared, widgets.advice, widgets.verdict).attach(resumed)
    widgets.hardware.attach()
    ExperimentListeners(shared, widgets.experiments).attach(resumed)
    EngineListeners(shared, widgets).attach(demo)


def _attach_cards(shared: Shared, widgets: Widgets, resumed: Any) -> None:
    """The tasks that cards of the instrument ask for. `resumed`: the listener after which a reloaded page's visitor is
    known."""
    limits, engine, page = shared.admission.limits, shared.admission.engine, widgets.instrument

    def comparison(values: Values, *_: Any) -> AnyJob:
        return compare.job(widgets.read(values, limits.max_text), engine.status.drafters, limits.max_tokens)

    def of_servers(kind: str, request: type[ServersRequest]) -> InstrumentTask:
        def job(values: Values, sent: Any, _: str | None) -> AnyJob:
            return request.of(sent).job(shared.page_values(widgets.read(values, limits.max_text)))

        return InstrumentTask(kind, job)

    checked = InstrumentTask("check", lambda _, __, session: check.job(shared.events(session)), check.about)
    cards = [(InstrumentTask("compare", comparison, compare.about), page.compare, widgets.compared)]
    cards += [(checked, page.check, widgets.checked)]
    if shared.servers.offered:
        cards += [(of_servers("audit", AuditRequest), page.audit, widgets.audited)]
        cards += [(of_servers("load", LoadRequest), page.loadtest, widgets.loaded)]
    for task, press, receiver in cards:
        TaskListeners(shared, task).attach(press, set(widgets.values), receiver, resumed)
