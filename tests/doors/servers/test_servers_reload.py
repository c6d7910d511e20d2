"""An audit and a load test after a reload of the page."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from draftscope.drafters.settings import Settings
from draftscope_app.doors.servers.audit.job import AuditJob
from draftscope_app.doors.servers.audit.page import Page as AuditPage
from draftscope_app.doors.servers.load.job import LoadJob
from draftscope_app.doors.servers.load.page import Page as LoadPage
from draftscope_app.engine.jobs import Job
from draftscope_app.page.shared import Shared
from draftscope_app.page.task import Task
from tests.support.scripted import assert_found_again

LANES = {"plain": Settings.of(drafter="plain", max_new_tokens=4)}
URLS = {"plain": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("work", "page"),
    [
        (AuditJob(id="r3", lanes=LANES, urls=URLS, samples=40), AuditPage),
        (LoadJob(id="r4", lanes=LANES, urls=URLS, points=(1, 2)), LoadPage),
    ],
    ids=["audit", "load test"],
)
def test_a_measurement_of_servers_is_found_again(work: Job, page: Callable[[Shared], Task]) -> None:
    assert_found_again(work, page)
