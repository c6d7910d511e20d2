"""A fixture for pytest: `def test_law(draftscope_audit): draftscope_audit("http://127.0.0.1:8000", target="MODEL")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from draftscope.servers.audit.audit import AuditReport

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")


@pytest.fixture(scope="session")
def draftscope_audit() -> Callable[..., AuditReport]:
    """Audits a server, with the options of `draftscope audit` as keywords, and returns the report.

    The test fails where a difference is found or too little was seen; a server that cannot be tested is an error.
    """
    from draftscope.base.errors import DraftscopeError
    from draftscope_app.cli.exit_codes import ExitCode
    from draftscope_app.doors.servers.audit import audited as audits

    def audit(url: str, target: str | None = None, **options: Any) -> AuditReport:
        sampling = {name: options.pop(name) for name in SAMPLING if name in options}
        loading = {} if target is None else {"target": target}
        report = audits.audited(url, audits.Options(**options), loading, sampling)
        code = audits.exit_code(report)
        if code is ExitCode.NOT_DONE:
            raise DraftscopeError(report.verdict)
        if code is not ExitCode.OK:
            pytest.fail(f"{report.server}: {report.verdict}", pytrace=False)
        return report

    return audit
