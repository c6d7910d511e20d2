"""transformers' assisted generation, watched: nothing changes, everything is told, and every decision follows."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import torch
from transformers.generation import utils

import draftscope
from draftscope.decode import assisted
from draftscope.trace.events import RunEnd
from draftscope.trace.validate import validate
from tests.support.models import byte_tokenizer, random_llama

PROMPT = [[40, 41, 42, 40, 41, 42, 40, 41]]
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 0.8},
    "top-k": {"do_sample": True, "top_k": 20, "temperature": 1.2},
}


@pytest.fixture(scope="module")
def models() -> tuple[Any, Any]:
    return random_llama(3, 258).eval(), random_llama(4, 258, layers=1, hidden=16, sharp=2.0).eval()


def generated(models: tuple[Any, Any], lookup: bool, seed: int = 5, tokens: int = 40, **mode: Any) -> list[int]:
    target, draft = models
    torch.manual_seed(seed)
    how = {"prompt_lookup_num_tokens": 3} if lookup else {"assistant_model": draft}
    ids = torch.tensor(PROMPT)
    written = target.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, **how, **mode)
    return list(written[0, ids.shape[1] :].tolist())


@pytest.mark.parametrize("lookup", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_the_text_is_as_without_it_and_every_decision_follows(models: Any, mode: str, lookup: bool) -> None:
    plain = generated(models, lookup, **MODES[mode])
    find = utils.GenerationMixin._get_candidate_generator
    with draftscope.watch(models[0], byte_tokenizer()) as watched:
        assert generated(models, lookup, **MODES[mode]) == plain
    assert "_get_candidate_generator" not in vars(models[0])
    assert utils.GenerationMixin._get_candidate_generator is find
    validate(watched.events)
    [run] = watched.trace
    assert run.token_ids == plain and run.text and isinstance(watched.events[-1], RunEnd)
    decisions = watched.decisions
    assert set(decisions["rule"]) == {"greedy" if mode == "greedy" else "deterministic" if lookup else "token"}
    if mode != "greedy" and not lookup:
        assert decisions["passed"].sum() and (~decisions["passed"]).sum()
        assert (decisions["passed"] == (decisions["uniform"] <= decisions["p"] / decisions["q"])).all()
    else:
        assert decisions["uniform"].isna().all()
    assert watched.tokens["token"].tolist() == plain
    assert len(watched.rounds) == run.metrics.target_forwards


def test_each_call_is_a_run_and_a_notebook_shows_them(models: Any) -> None:
    with draftscope.watch(models[0]) as watched:
        first = generated(models, False, do_sample=True)
        assert "<p>" in watched._repr_html_() and first[0] in watched.tokens["token"].tolist()
        second = generated(models, True, seed=6, do_sample=True)
    assert [run.token_ids for run in watched.trace] == [first, second]
    assert [run.start.seed for run in watched.trace] == [5, 6]
    assert [run.start.drafter for run in watched.trace] == ["assistant", "prompt lookup"]
    assert "<table" in watched._repr_html_() and "draftscope-instrument" in watched.show()._repr_html_()


def test_a_draw_that_cannot_be_drawn_again_is_named_and_the_text_goes_on(
    models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with dropout: something draws between drafting and verifying."""
    forward = models[0].forward

    def drawing(*given: Any, **named: Any) -> Any:
        torch.rand(1)
        return forward(*given, **named)

    monkeypatch.setattr(models[0], "forward", drawing)
    plain = generated(models, False, do_sample=True)
    with draftscope.watch(models[0]) as watched:
        assert generated(models, False, do_sample=True) == plain
    end = watched.events[-1]
    assert isinstance(end, RunEnd) and "its random numbers are unknown" in end.message


def test_it_is_put_back_where_generate_fails(models: Any) -> None:
    with pytest.raises(ValueError, match="batch_size = 1"), draftscope.watch(models[0]):
        models[0].generate(torch.tensor(PROMPT * 2), assistant_model=models[1], max_new_tokens=4)
    assert "_get_candidate_generator" not in vars(models[0])


BREAKS = (
    (assisted._Recording, "begin"),
    (assisted._Recording, "end"),
    *(
        (assisted._Call, name)
        for name in vars(assisted._Call)
        if callable(vars(assisted._Call)[name]) and name[:2] != "__"
    ),
    (assisted.Recorder, "round"),
    (assisted.Transcript, "add"),
    (assisted, "_verification"),
    (assisted, "_without_last_uniforms"),
    (assisted, "_speculative_sampling"),
)


@pytest.fixture(scope="module")
def unwatched(models: Any) -> tuple[list[list[int]], torch.Tensor]:
    """Two sampled texts, and the state of the dice after them."""
    return [generated(models, False, seed, tokens=12, do_sample=True) for seed in (5, 6)], torch.get_rng_state()


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize(("holder", "name"), BREAKS, ids=[name for _, name in BREAKS])
def test_an_error_in_any_step_of_recording_ends_it_and_not_the_text(
    models: Any, unwatched: tuple[list[list[int]], torch.Tensor], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, holder: Any, name: str, nth: int,
) -> None:  # fmt: skip
    (plain, after), work, calls = unwatched, getattr(holder, name), count(1)

    def breaking(*given: Any, **named: Any) -> Any:
        if next(calls) >= nth:
            raise ZeroDivisionError("made up")
        return work(*given, **named)

    monkeypatch.setattr(holder, name, breaking)
    with draftscope.watch(models[0], byte_tokenizer()) as watched:
        assert [generated(models, False, seed, tokens=12, do_sample=True) for seed in (5, 6)] == plain
        assert torch.equal(torch.get_rng_state(), after)
    validate(watched.events)
    said = [record.message for record in caplog.records]
    assert said == ([watched.stopped] if next(calls) > nth else [])
    assert all("(ZeroDivisionError: made up); the text goes on" in sentence for sentence in said)
    ends = [event for event in watched.events if isinstance(event, RunEnd)]
    assert all(end.message in ("", watched.stopped) for end in ends)
