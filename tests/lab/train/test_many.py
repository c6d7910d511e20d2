"""Thousands of answers at once: the target's own, whatever the rows beside them do."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from draftscope.train.data import saved_answers as on_disk
from draftscope.train.data import writing
from draftscope.train.data.many import AnswerRows, RowPrompt, rows_that_fit, write
from draftscope.train.data.writing import TokenizedPrompt, WritingPlan, answer_together, batches_of
from draftscope.train.students.shapes import build, llama

V = 12
NO_END, NEVER = (V + 1,), 1 << 20


@pytest.fixture(scope="module")
def network() -> Any:
    """A small random target in fp32."""
    made = build(llama(V, layers=3, width=32, heads=4, key_value_heads=2, mlp=64, positions=512), seed=0)
    torch.manual_seed(3)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return made.eval().requires_grad_(False)


def prompts(count: int, longest: int = 40) -> list[list[int]]:
    rng = random.Random(1)
    return [[rng.randrange(V) for _ in range(rng.randrange(2, longest))] for _ in range(count)]


def written(
    rows: AnswerRows, row_prompts: list[RowPrompt], ends: tuple[int, ...] = NO_END, recent: int = 64
) -> dict[int, list[int]]:
    """The answers by place."""
    return {row_prompt.place: tokens for row_prompt, tokens in write(rows, row_prompts, ends, recent, lambda: False)}


def greedy(network: Any, prompt: list[int], count: int, ends: tuple[int, ...] = NO_END) -> list[int]:
    tokens = list(prompt)
    while len(tokens) < len(prompt) + count:
        tokens.append(int(network(torch.tensor([tokens])).logits[0, -1].argmax()))
        if tokens[-1] in ends:
            break
    return tokens[len(prompt) :]


def test_greedy_answers_are_those_of_one_forward_after_the_other(network: Any) -> None:
    asked = [RowPrompt(0, place, prompt, 0.0) for place, prompt in enumerate(prompts(9))]
    ends = (greedy(network, asked[0].prompt, 9)[-1],)
    got = written(AnswerRows(network, 4, 40, 21), asked, ends)  # fewer rows than prompts
    assert got == {row_prompt.place: greedy(network, row_prompt.prompt, 21, ends) for row_prompt in asked}
    assert {len(tokens) for tokens in got.values()} > {21} and got[0][-1] in ends


@pytest.mark.parametrize(
    ("temperature", "rows"),
    [
        pytest.param(0.7, 5000, marks=pytest.mark.short),
        *(pytest.param(t, 12_000, marks=pytest.mark.slow) for t in (0.7, 1.0)),
    ],
)
def test_two_tokens_have_the_targets_joint_distribution(network: Any, temperature: float, rows: int) -> None:
    torch.manual_seed(0)
    prompt, others = prompts(1)[0], prompts(50)
    first = (network(torch.tensor([prompt])).logits[0, -1] / temperature).softmax(-1)
    after = network(torch.tensor([[*prompt, token] for token in range(V)])).logits[:, -1] / temperature
    joint = (first[:, None] * after.softmax(-1)).double()
    asked = [RowPrompt(0, place, prompt, temperature) for place in range(rows)]
    beside = [RowPrompt(1, place, other, 1.5) for place, other in enumerate(others, rows)]
    mixed = list(itertools.chain(*itertools.zip_longest(asked[:50], beside), asked[50:]))
    got = written(AnswerRows(network, 500, 40, 2), mixed)
    counts = Counter((a, b) for place, (a, b) in got.items() if place < rows)
    expected = {(a, b): rows * float(joint[a, b]) for a in range(V) for b in range(V)}
    common = [pair for pair, value in expected.items() if value >= 5]
    rest = rows - sum(expected[pair] for pair in common)
    observed = [counts[pair] for pair in common]
    p = chisquare([*observed, rows - sum(observed)], [*(expected[pair] for pair in common), rest]).pvalue
    assert len(common) > 15 and p > 1e-4


def test_an_answer_that_loops_is_stopped_long_before_it_is_full(network: Any) -> None:
    asked = [RowPrompt(0, place, prompt, 0.0) for place, prompt in enumerate(prompts(4))]
    whole, stopped = (written(AnswerRows(network, 4, 40, 300), asked, recent=recent) for recent in (320, 64))
    assert {len(tokens) for tokens in whole.values()} == {300}
    assert all(64 <= len(tokens) < 100 and whole[place][: len(tokens)] == tokens for place, tokens in stopped.items())


def test_as_many_rows_as_memory_takes_at_least_one(network: Any) -> None:
    assert rows_that_fit(network, 832) == 2048 and rows_that_fit(network, 1 << 40) == 1


def test_every_prompt_is_asked_at_every_temperature_and_stopping_loses_no_whole_batch(
    network: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Pair:
        eos = frozenset(NO_END)

        class target:  # noqa: N801 - an attribute
            network: Any

    Pair.target.network = network
    asked = [TokenizedPrompt("a", prompt) for prompt in prompts(20)]
    plan = WritingPlan(tokens=NEVER, longest=40, together=8, layers=(), seed=0)
    calls = iter([False] * 4 + [True] * 10)
    pair: Any = Pair
    assert not writing.collect(pair, asked, tmp_path, plan, lambda: next(calls))
    first = {path: path.read_bytes() for path in on_disk.batch_files(tmp_path)}
    assert 1 <= len(first) < 9
    assert writing.collect(pair, asked, tmp_path, plan, lambda: False)
    assert "All 20 prompts are answered at every temperature" in capsys.readouterr().out
    assert len(list(on_disk.batch_files(tmp_path))) == 9
    assert all(path.read_bytes() == kept for path, kept in first.items())
    answers = [one for path in on_disk.batch_files(tmp_path) for one in on_disk.read_batch(path, ())]
    tokens = [one.ids[one.prompt :].tolist() for one in answers]
    assert tokens == [writing.before_loop(answer) for answer in tokens]
    times = Counter((tuple(one.ids[: one.prompt].tolist()), one.temperature) for one in answers)
    assert set(times.values()) == {1} and len({prompt for prompt, _ in times}) == 20
    batches = list(batches_of(asked, plan))
    together = answer_together(network, NO_END, iter(batches), 20, plan, lambda: False)
    for batch, one_file in together:
        assert {one.temperature for one in one_file} <= {batch.temperature}
        assert all(one.ids[: one.prompt].tolist() in [prompt.tokens for prompt in batch.prompts] for one in one_file)
