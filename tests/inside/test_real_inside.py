"""vLLM for CPUs records itself: `make inside` installs both and runs this."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pytest

from draftscope.servers.adapter import Request
from draftscope.servers.audit.prompts import AUDIT_PROMPTS
from draftscope.servers.identify import identify
from draftscope.servers.inside.audit import InsideAnswer, InsidePlan, audit_inside
from draftscope.servers.inside.decisions import examine
from draftscope.servers.inside.recorder import read_state
from draftscope.servers.programs.web_server import Cards
from draftscope.servers.wire import Wire
from draftscope.verify.sampling import Sampling
from tests.programs.inside import PORT, command, reports
from tests.programs.interop import started

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


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Mended, and with prompts read in parts of 64 tokens."""
    more = ("--enforce-eager", "--max-num-batched-tokens", "64", "--enable-prefix-caching")
    start = command("draftscope,vllm_55005", PORT + 1, requests=16)
    with started(Path(os.environ["DRAFTSCOPE_VLLM"]).absolute(), start, more) as server:
        yield server.identity.url


LONG = [" ".join(AUDIT_PROMPTS * 3)[:900]] * 2  # the second one's beginning is in the prefix cache


@pytest.mark.parametrize(
    ("prompts", "plan"),
    [
        pytest.param(AUDIT_PROMPTS, InsidePlan(Sampling(1.0), 16 * 24, 24, 16), id="sixteen at once"),
        pytest.param(LONG, InsidePlan(Sampling(1.0), 48, 24, 1), id="long prompts, in parts and from the cache"),
        pytest.param(AUDIT_PROMPTS, InsidePlan(Sampling(1.0, top_k=20, top_p=0.98), 96, 24), id="top-k"),
    ],
)
def test_every_text_is_recorded_whole_and_acquitted(url: str, prompts: Sequence[str], plan: InsidePlan) -> None:
    report = audit_inside(url, prompts, plan)
    assert (report.unlike, report.lost, report.different) == (0, 0, False), report.verdict
    assert report.requests == plan.tokens // plan.length and report.decisions > 20


def test_a_client_that_leaves_ends_its_request_and_nothing_else(url: str) -> None:
    name = f"draftscope-{uuid4().hex}"
    with identify(url, (url,)) as server:
        request = Request(server.tokenize(AUDIT_PROMPTS[0]), 400, temperature=1.0, ignore_eos=True, name=name)
        answer = server.stream(request)
        heard = [token for chunk in islice(answer, 3) for token in chunk.ids]
        answer.close()  # type: ignore[attr-defined]
    wire = Wire(url)
    state = read_state(wire, name)
    written = [token for each in state.rounds for token in each.written]
    assert written[: len(heard)] == heard and 0 < len(written) < 400
    wire.close()
    test_every_text_is_recorded_whole_and_acquitted(url, AUDIT_PROMPTS, InsidePlan(Sampling(1.0), 48, 24))


def test_an_answer_of_a_given_form_is_recorded_as_it_was_written(url: str) -> None:
    name = f"draftscope-{uuid4().hex}"
    wire = Wire(url)
    model = wire.get("/v1/models", Cards).data[0].id
    body = {"model": model, "prompt": "Yes or no?", "max_tokens": 12, "temperature": 1.0, "return_token_ids": True,
            "structured_outputs": {"regex": "(yes|no) (yes|no) (yes|no)"}, "request_id": name}  # fmt: skip
    written = wire.post("/v1/completions", body, InsideAnswer).choices[0].token_ids
    time.sleep(1.0)  # the recorder's thread
    rounds = read_state(wire, name).rounds
    wire.close()
    assert [token for each in rounds for token in each.written][: len(written)] == written
    assert not [each for each in examine(rounds) if each.fault]
