"""The tasks that cards of the instrument ask for: comparison, check, audit and load."""

from __future__ import annotations

from typing import Any

from draftscope_app.page.layout import Widgets
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.shared import Shared
from draftscope_app.page.tasks import compare
from draftscope_app.page.tasks.task import InstrumentTask, TaskListeners


def attach(shared: Shared, widgets: Widgets, runs: RunListeners, resumed: Any) -> None:
    """`resumed`: the listener after which a reloaded page's visitor is known."""
    values, limits, page = set(widgets.values), shared.admission.limits, widgets.instrument
    engine = shared.admission.engine
    comparison = InstrumentTask(
        "compare",
        lambda values, *_: compare.comparison(
            widgets.read(values, limits.max_text), engine.status.drafters, limits.max_tokens
        ),
        compare.about_comparison,
    )
    check = InstrumentTask("check", lambda _, __, session: compare.check(shared.events(session)), compare.about_check)
    TaskListeners(shared, comparison).attach(page.compare, values, widgets.compared, resumed)
    TaskListeners(shared, check).attach(page.check, set(), widgets.checked, resumed)
    if shared.servers.offered:
        for kind, press, receiver in (("audit", page.audit, widgets.audited), ("load", page.loadtest, widgets.loaded)):
            task = InstrumentTask(kind, lambda values, sent, _: runs.ask_servers(values, sent))
            TaskListeners(shared, task).attach(press, values, receiver, resumed)
