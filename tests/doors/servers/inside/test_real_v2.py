"""vLLM's V2 runner records itself, on a CPU: Triton's interpreter runs its kernels. It needs no mend of #55005."""

from __future__ import annotations

import pytest

from draftscope.servers.audit.plan import AUDIT_PROMPTS
from draftscope.servers.inside.decision_audit import InsidePlan
from draftscope.verify.sampling import Sampling
from tests.doors.servers.inside.test_real_inside import (
    LONG,
    running,
)
from tests.doors.servers.inside.test_real_inside import (
    test_an_answer_of_a_given_form_is_recorded_as_it_was_written as form_is_recorded,
)
from tests.doors.servers.inside.test_real_inside import (
    test_every_text_is_recorded_whole_and_acquitted as acquitted,
)
from tests.doors.servers.inside.vllm_cpu import PORT, RECORDED, command, second

pytestmark = pytest.mark.real_servers
SERVERS = {
    "draft model, drawn from q": ("draft", True),
    "EAGLE-3": ("eagle3", False),
    "n-grams": ("ngram", False),
}


@pytest.mark.parametrize(("method", "drawn"), SERVERS.values(), ids=SERVERS)
def test_its_rounds_are_recorded_whole_and_acquitted(method: str, drawn: bool) -> None:
    """Prompts are read in parts, and an answer of a given form takes drafts back."""
    start = second(command(RECORDED, PORT + 4, requests=4, method=method, drawn=drawn))
    with running(start, "--enforce-eager", "--max-num-batched-tokens", "64") as url:
        for law in (Sampling(1.0), Sampling(0.7, top_k=20, top_p=0.98), Sampling(0.0)):
            acquitted(url, AUDIT_PROMPTS, InsidePlan(law, 4 * 16, 16))
        acquitted(url, LONG, InsidePlan(Sampling(1.0), 2 * 16, 16, 1))
        form_is_recorded(url)
