"""The tasks that cards of the instrument ask for: comparison, check, audit and load."""

from __future__ import annotations

from typing import Any

from draftscope_app.engine.jobs import AnyJob
from draftscope_app.page.layout import Widgets
from draftscope_app.page.servers import ServersRequest
from draftscope_app.page.shared import Shared
from draftscope_app.page.tasks import check, compare
from draftscope_app.page.tasks.audit import AuditRequest
from draftscope_app.page.tasks.load import LoadRequest
from draftscope_app.page.tasks.task import InstrumentTask, TaskListeners, Values


def attach(shared: Shared, widgets: Widgets, resumed: Any) -> None:
    """`resumed`: the listener after which a reloaded page's visitor is known."""
    limits, engine, page = shared.admission.limits, shared.admission.engine, widgets.instrument

    def comparison(values: Values, *_: Any) -> AnyJob:
        return compare.job(widgets.read(values, limits.max_text), engine.status.drafters, limits.max_tokens)

    def of_servers(kind: str, request: type[ServersRequest]) -> InstrumentTask:
        return InstrumentTask(
            kind,
            lambda values, sent, _: request.of(sent).job(shared.page_values(widgets.read(values, limits.max_text))),
        )

    checked = InstrumentTask("check", lambda _, __, session: check.job(shared.events(session)), check.about)
    cards = [(InstrumentTask("compare", comparison, compare.about), page.compare, widgets.compared)]
    cards += [(checked, page.check, widgets.checked)]
    if shared.servers.offered:
        cards += [(of_servers("audit", AuditRequest), page.audit, widgets.audited)]
        cards += [(of_servers("load", LoadRequest), page.loadtest, widgets.loaded)]
    for task, press, receiver in cards:
        TaskListeners(shared, task).attach(press, set(widgets.values), receiver, resumed)
