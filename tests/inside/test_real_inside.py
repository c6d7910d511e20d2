"""vLLM for CPUs records itself: `make inside` installs both and runs this."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from draftscope.verify.sampling import Sampling
from tests.programs.inside import reports

pytestmark = pytest.mark.real_servers


@pytest.mark.parametrize("mended", [False, True])
def test_one_request_convicts_vllm_0_32_and_acquits_it_when_mended(mended: bool) -> None:
    """#55005: the CPU build divides the logits of drafted rows by something else than the temperature."""
    [report] = reports(Path(os.environ["DRAFTSCOPE_VLLM"]).absolute(), mended, 48, [Sampling(1.0)])
    assert (report.requests, report.unlike) == (1, 0) and report.decisions > 20
    if mended:
        assert not report.different, report.verdict
    else:
        assert report.first_wrong is not None and report.first_wrong.tensor == "temperature of drafted rows"
