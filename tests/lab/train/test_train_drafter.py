"""A drafter for any target: its prompts, the target's answers, training on them, and what is published."""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from draftscope.base import prompts as measuring
from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.load import load
from draftscope.drafters.registry import trained_kinds
from draftscope.models.heads import Eagle3, Head, SharedWeights, load_head
from draftscope.models.heads.lessons import Distillation, blocks, kl
from draftscope.train import drafter_training
from draftscope.train.data import corpus, prompt_mix, writing
from draftscope.train.data import saved_answers as on_disk
from draftscope.train.data.batches import AnswerBatches
from draftscope.train.data.saved_answers import TargetAnswer
from draftscope.train.data.writing import TokenizedPrompt, WritingPlan, before_loop, collect, loops, tokenize
from draftscope.train.drafter_training import DrafterTraining, train_drafter
from draftscope.train.fit.fit import Budget, Fitted, fit
from draftscope.train.fit.numerics import Rates, Recipe
from draftscope.train.fit.teaching import Teacher, padded
from draftscope.train.fit.training_texts import AnswerText
from draftscope.train.publish import figures
from draftscope.train.students.recipes import CPU, AnswerPreset
from draftscope.train.students.shapes import build, llama
from draftscope.train.students.students import (
    first_student,
    frequent_tokens,
    lesson_for,
    main_components,
    small_llama,
    token_shares,
)
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.main import imported
from tests.lab.train.test_train import STATES, VERY_TINY, ticking

V = 280
SHAPE = llama(V, layers=6, width=32, heads=4, key_value_heads=2, mlp=64, positions=512)
TEMPLATE = "{% for message in messages %}<{{ message['content'] }}>{% endfor %}"
WORDS = ("sun", "moon", "river", "stone", "bird", "cloud", "song", "tree")
PRESET = AnswerPreset(0.01, 256, 600, 24, 16, per_file=900, per_kind=2500, keeps_features=True, sitting=None)
PROMPTS = [TokenizedPrompt("a", list(range(2, 60)))]
PLAN = WritingPlan(tokens=600, longest=24, together=16, layers=writing.feature_layers(6), seed=0)


def questions(count: int) -> list[Prompt]:
    rng = random.Random(1)
    return [Prompt("ab"[i % 2], f"{rng.choice(WORDS)} {rng.choice(WORDS)} {i}?") for i in range(count)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random target with a tokenizer and a chat template."""
    place = tmp_path_factory.mktemp("target")
    bpe = corpus.train_tokenizer([" ".join(WORDS) * 9, "abcdefghijklmnopqrstuvwxyz"], V)
    network = build(SHAPE, seed=0)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.25)
    network.save_pretrained(place)
    corpus.save_tokenizer(bpe, place, SHAPE.max_position_embeddings)
    loaded = AutoTokenizer.from_pretrained(place)
    loaded.chat_template = TEMPLATE
    loaded.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def engine(home: Path) -> DecodingEngine:
    return load(home, dtype="float32", threads=1)


@pytest.fixture(scope="module")
def answered(engine: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of answers."""
    place = tmp_path_factory.mktemp("answers")
    assert collect(engine, tokenize(questions(96), engine.tokenizer), place, PLAN, lambda: False)
    return place


@pytest.fixture
def answers(answered: Path) -> tuple[list[TargetAnswer], list[TargetAnswer]]:
    return on_disk.load(answered, PLAN.layers)


# Prompts.


def test_written_prompts_are_complete_all_different_and_not_those_of_the_measurements() -> None:
    found = prompt_mix.training_prompts(0, 2500)
    texts = [prompt.text for prompt in found]
    assert len(found) > 5000 and len(set(texts)) == len(texts)
    assert not any("{" in text or "}" in text for text in texts)
    assert not set(texts) & {prompt.text for prompt in measuring.shipped()}
    assert found == prompt_mix.training_prompts(0, 2500) != prompt_mix.training_prompts(1, 2500)


@pytest.mark.parametrize("count", [96, 99])
def test_prompts_of_similar_length_are_answered_together_short_and_long_ones_in_any_order(count: int) -> None:
    made = [TokenizedPrompt("kind", [place] * (2 + 37 * place % 90)) for place in range(count)]
    ordered = writing.alike(made, 4, seed=1)
    assert sorted(prompt.tokens for prompt in ordered) == sorted(prompt.tokens for prompt in made)
    batches = [[len(prompt.tokens) for prompt in ordered[start : start + 4]] for start in range(0, count, 4)]
    assert sum(max(batch) - min(batch) for batch in batches) <= 12 * len(batches)
    longest = [max(batch) for batch in batches]
    assert longest != sorted(longest) and ordered != writing.alike(made, 4, seed=2)


@pytest.mark.parametrize(
    ("document", "request_made"),
    [
        ("Question: Who sat on the mat?\nAnswer: The cat.", "Who sat on the mat?"),
        ("Passage: The cat sat.\nQuestion: Who sat there?\nAnswer: The cat.", "The cat sat.\n\nWho sat there?"),
        ("User: Is there a bus today?\nAssistant: Yes.", "Is there a bus today?"),
        ("# zip\n\n> Packs files.", "How do I use the command zip? Give examples."),
        (
            'def add(a, b):\n    """The sum."""\n    return a + b\n',
            'Complete this Python function:\n\n```python\ndef add(a, b):\n    """The sum."""\n```',
        ),
        ("Once upon a time there was a fox.", "Continue this text:\n\nOnce upon a time there was a fox."),
    ],
)
def test_documents_become_requests(tmp_path: Path, document: str, request_made: str) -> None:
    (tmp_path / "some.train.txt").write_text(document)
    assert prompt_mix.requests_from(tmp_path, 900) == [Prompt("some", request_made)]


def test_a_long_text_of_one_document_gives_a_request_for_every_paragraph(tmp_path: Path) -> None:
    paragraphs = [f"In the year {year} the tower was mended by two masons." for year in range(1700, 1740)]
    (tmp_path / "book.txt").write_text("\n\n".join(paragraphs))
    requests = prompt_mix.requests_from(tmp_path, 900)
    assert [prompt.text.split("\n\n")[-1] for prompt in requests] == paragraphs


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftscopeError, match="no folder"):
        prompt_mix.requests_from(tmp_path / "nowhere", 900)
    with pytest.raises(DraftscopeError, match=r"no \.txt files"):
        prompt_mix.requests_from(tmp_path, 900)
    (tmp_path / "short.txt").write_text("a")
    with pytest.raises(DraftscopeError, match="no document"):
        prompt_mix.requests_from(tmp_path, 900)


def test_mixed_prompts_have_small_kinds_early_and_none_twice() -> None:
    many, few = [Prompt("many", str(i)) for i in range(400)], [Prompt("few", f"f{i}") for i in range(16)]
    found = prompt_mix.mix([*many, *few, *few], 0)
    assert len(found) == 416 and found == prompt_mix.mix([*many, *few], 0)
    start = [prompt.kind for prompt in found[:96]]
    assert 12 <= start.count("few") <= 16


# The target's answers.


def test_loops_are_found_and_cut() -> None:
    ordinary = list(range(100))
    assert not loops(ordinary) and before_loop(ordinary) == ordinary
    looping = ordinary[:40] + [1, 2, 3] * 40
    assert loops(looping[-64:])
    assert 40 <= len(before_loop(looping)) <= 55
    assert before_loop([7] * 50) == [7] * 4
    assert before_loop([]) == []


def test_answers_are_what_the_target_decodes_in_its_chat_template(engine: DecodingEngine) -> None:
    prompt = Prompt("a", "sun moon 5?")
    (one,) = tokenize([prompt], engine.tokenizer)
    assert engine.tokenizer.decode(one.tokens) == "<sun moon 5?>"
    batch = [one, *tokenize(questions(5), engine.tokenizer)]
    found = writing.answer(engine, batch, 0.0, 0, PLAN)
    assert found is not None
    plain = engine.decode(prompt.text, drafter="plain", max_new_tokens=PLAN.longest, record=False)
    written = before_loop(plain.token_ids)
    if len(written) >= writing.MIN_ANSWER:
        assert found[0].ids[found[0].prompt :].tolist() == written
    for answer in found:
        assert answer.ids[: answer.prompt].tolist() in [each.tokens for each in batch]
        assert answer.features is not None and len(answer.features()) == len(answer.ids) - 1


def test_a_target_without_a_template_continues_the_bare_prompt(home: Path) -> None:
    bare = AutoTokenizer.from_pretrained(home)
    bare.chat_template = None
    (one,) = tokenize([Prompt("a", "sun")], bare)
    assert bare.decode(one.tokens, skip_special_tokens=True) == "sun"


def test_prompts_that_are_all_too_long_are_refused(engine: DecodingEngine) -> None:
    with pytest.raises(DraftscopeError, match="give shorter prompts"):
        tokenize([Prompt("a", "x" * 5000)], engine.tokenizer)


def test_noted_states_are_those_of_a_forward(
    engine: DecodingEngine, answers: tuple[list[TargetAnswer], list[TargetAnswer]]
) -> None:
    """What training reads from disk is what the target computes again, up to the rounding of bf16."""
    network, some = engine.target.network, answers[0][:5]
    student = first_student("eagle3", network, answers[0], PROMPTS, 0)
    one = lesson_for(network, student)
    noted = Teacher(one, PLAN.layers).log_probabilities(some, None)
    without = [TargetAnswer(a.kind, a.temperature, a.prompt, a.ids, None) for a in some]
    teacher = Teacher(one, PLAN.layers)
    computed = teacher.log_probabilities(without, None)
    teacher._last_is_enough = False  # as for a target that scales or caps its logits
    whole = teacher.log_probabilities(without, None)
    torch.testing.assert_close(whole.states, computed.states)
    torch.testing.assert_close(whole.distributions, computed.distributions)
    assert noted.counted is not None and computed.counted is not None
    assert torch.equal(noted.counted, computed.counted) and noted.counted.any(1).all()
    rows = noted.counted
    torch.testing.assert_close(noted.states[rows], computed.states[rows], rtol=0.02, atol=0.02)
    torch.testing.assert_close(noted.distributions[rows].exp(), computed.distributions[rows].exp(), rtol=0, atol=0.03)


def test_writing_goes_on_after_the_last_whole_batch(engine: DecodingEngine, answered: Path, tmp_path: Path) -> None:
    asked = tokenize(questions(96), engine.tokenizer)
    calls = iter([False] * 30 + [True] * 1000)
    assert not collect(engine, asked, tmp_path, PLAN, lambda: next(calls))
    first = [path.read_bytes() for path in on_disk.batch_files(tmp_path)]
    assert 1 <= len(first) < len(list(on_disk.batch_files(answered)))
    assert collect(engine, asked, tmp_path, PLAN, lambda: False)
    resumed, whole = ([path.read_bytes() for path in on_disk.batch_files(place)] for place in (tmp_path, answered))
    assert resumed == whole and resumed[: len(first)] == first


def test_few_prompts_are_asked_at_every_temperature_and_then_that_is_all(
    engine: DecodingEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(engine, tokenize(questions(3), engine.tokenizer), tmp_path, PLAN, lambda: False)
    assert "All 3 prompts are answered at every temperature" in capsys.readouterr().out
    answers = [one for path in on_disk.batch_files(tmp_path) for one in on_disk.read_batch(path, ())]
    assert {one.temperature for one in answers} == set(writing.TEMPERATURES)
    with pytest.raises(DraftscopeError, match="give more prompts"):
        on_disk.load(tmp_path, ())


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error")])
def test_a_full_disk_is_one_sentence_and_leaves_no_broken_batch(
    answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(_: object, path: Path, **__: object) -> None:
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr(on_disk, "save_file", full)
    some = on_disk.read_batch(next(on_disk.batch_files(answered)), PLAN.layers)
    with pytest.raises(DraftscopeError, match="free some space"):
        on_disk.write_batch(on_disk.path_of(tmp_path, 0), some, PLAN.layers)
    assert list(tmp_path.iterdir()) == []


def test_no_prompt_is_both_trained_on_and_held_out(answers: tuple[list[TargetAnswer], list[TargetAnswer]]) -> None:
    def given(some: Sequence[TargetAnswer]) -> set[tuple[int, ...]]:
        return {tuple(answer.ids[: answer.prompt].tolist()) for answer in some}

    train, held = answers
    assert not given(train) & given(held)
    assert all(on_disk.is_held_out(list(prompt)) for prompt in given(held))


# Steps.


def test_an_epoch_has_every_answer_once_and_a_step_depends_on_its_number_only(
    answers: tuple[list[TargetAnswer], list[TargetAnswer]],
) -> None:
    train = answers[0]
    one, other = AnswerBatches(train, 0, 160), AnswerBatches(train, 0, 160)
    steps = [one.step(number) for number in range(60)]
    assert [id(a) for a in other.step(17)] == [id(a) for a in steps[17]]
    seen: list[int] = []
    while len(seen) < len(train):
        seen += [id(answer) for answer in steps.pop(0)]
    assert sorted(seen) == sorted(map(id, train))
    for step in steps:
        assert len(step) == 1 or len(step) * max(len(answer.ids) for answer in step) <= 160


def test_only_tokens_of_answers_count(answers: tuple[list[TargetAnswer], list[TargetAnswer]]) -> None:
    some = answers[0][:4]
    ids, counted = padded(some)
    for answer, row, marks in zip(some, ids, counted, strict=True):
        following = torch.cat([row[1:], torch.tensor([0])])
        assert following[marks].tolist() == answer.ids[answer.prompt :].tolist()


@pytest.mark.parametrize("kind", ["eagle3", "mtp", "medusa", "draft"])
def test_padding_changes_no_loss(
    engine: DecodingEngine, answers: tuple[list[TargetAnswer], list[TargetAnswer]], kind: str
) -> None:
    network = engine.target.network
    short, long = sorted(answers[0], key=lambda answer: len(answer.ids))[:: len(answers[0]) - 1]
    one = lesson_for(network, first_student(kind, network, answers[0], PROMPTS, 0))
    teacher = Teacher(one, PLAN.layers)
    output = teacher.log_probabilities([short, long], None)
    ids = output.ids.clone()
    ids[0, len(short.ids) :] = 5
    assert one.loss(output).item() == pytest.approx(one.loss(output._replace(ids=ids)).item(), abs=1e-6)
    assert output.ids.shape[1] > len(short.ids)


def test_a_text_is_learned_for_one_two_or_four_steps(
    engine: DecodingEngine, answers: tuple[list[TargetAnswer], list[TargetAnswer]], tmp_path: Path
) -> None:
    fitted, source = learn(engine, *answers, tmp_path, 1e-9)
    lesson = fitted.lesson
    assert isinstance(lesson, Distillation)
    shown = {depths: output for output in (source.step(number) for number in range(12)) if (depths := output.depths)}
    assert set(shown) == {1, 2, 4}
    one, two = [kl(*pair.rows_of(shown[2])) for pair in lesson.pairs(shown[2])]
    assert lesson.loss(shown[2]).item() == pytest.approx(
        (lesson.weights[0] * one + lesson.weights[1] * two).item() / sum(lesson.weights[:2])
    )


@torch.no_grad()
def test_a_dspark_row_learns_after_the_token_before_it(
    engine: DecodingEngine, answers: tuple[list[TargetAnswer], list[TargetAnswer]]
) -> None:
    """Its logits for a token are the block's own and the bias of the text's token before."""
    network = engine.target.network
    student = first_student("dspark", network, answers[0], PROMPTS, 0)
    torch.nn.init.normal_(student.markov_head.markov_w2.weight)
    one = lesson_for(network, student)
    some = answers[0][:2]
    drawn = torch.tensor([[3], [5]])
    output = Teacher(one, PLAN.layers).log_probabilities(some, drawn)
    own = blocks(student, output.ids, output.states, drawn)[:, 0]  # [B, N, H]
    for depth, pair in enumerate(one.pairs(output._replace(counted=None)), 1):
        _, logits = pair.rows_of(output._replace(counted=None))
        before = torch.stack([ids[start + depth - 1] for ids, start in zip(output.ids, (3, 5), strict=True)])
        want = student.project(own[:, depth]) + student.bias(student.read(before))
        torch.testing.assert_close(logits[:, 0], want)


# Students.


def test_the_vocabulary_is_what_answers_and_prompts_use_most_and_the_ends() -> None:
    written = [
        TargetAnswer("a", 0.0, 1, torch.tensor([9, 5, 5, 5, 6]), None),
        TargetAnswer("a", 0.0, 1, torch.tensor([9, 7]), None),
    ]
    read = [TokenizedPrompt("a", [11, 11, 11, 12]), TokenizedPrompt("a", [13])]
    shares = token_shares(written, read, 50)
    assert frequent_tokens(shares, 2, []).tolist() == [5, 11]
    assert frequent_tokens(shares, 3, [40]).tolist() == [5, 11, 40]
    assert frequent_tokens(shares, 7, []).tolist() == [0, 5, 6, 7, 11, 12, 13]  # of unused ones those merged first


def test_a_small_llama_starts_with_the_main_components_of_the_targets_embedding(engine: DecodingEngine) -> None:
    rows = engine.target.network.get_input_embeddings().weight
    narrow = main_components(rows, 16)
    best = torch.linalg.svd(rows.detach(), full_matrices=False)
    kept = best.S[:16].square().sum() / best.S.square().sum()
    similar = torch.corrcoef(torch.stack([(rows @ rows.T).flatten(), (narrow @ narrow.T).flatten()]))[0, 1]
    assert kept > 0.3 and similar > 0.5
    draft = small_llama(engine.target.network)
    assert draft.config.vocab_size == V and draft.config.rope_parameters["rope_theta"] == 10000.0
    with pytest.raises(DraftscopeError, match="wider than its target"):
        main_components(rows, 64)


# Training.


RECIPE = Recipe(Rates(matrices=4e-3, rest=5e-3), 256)


def learn(
    engine: DecodingEngine,
    train: Sequence[TargetAnswer],
    held: Sequence[TargetAnswer],
    place: Path,
    steps: float,
    about: str = "x",
) -> tuple[Fitted, AnswerText]:
    """An EAGLE-3 head that is trained on answers."""
    lesson = lesson_for(engine.target.network, first_student("eagle3", engine.target.network, train, PROMPTS, 0))
    source = AnswerText(Teacher(lesson, PLAN.layers), train, held, RECIPE, 0, about)
    return fit(lesson, source, RECIPE, Budget(steps, clock=ticking()), place), source


@pytest.mark.slow
def test_a_head_learns_its_target(
    engine: DecodingEngine, answers: tuple[list[TargetAnswer], list[TargetAnswer]], tmp_path: Path
) -> None:
    _, source = learn(engine, *answers, tmp_path / "none", 1e-9)
    before = source.agreement(answers[1])
    fitted, source = learn(engine, *answers, tmp_path / "some", 60.0)
    after = source.agreement(answers[1])
    assert fitted.done and fitted.progress.step == 60
    assert after.alpha[0] > before.alpha[0] and len(after.alpha) == 4


def test_training_goes_on_with_more_answers_and_minutes(
    engine: DecodingEngine, answers: tuple[list[TargetAnswer], list[TargetAnswer]], tmp_path: Path
) -> None:
    train, held = answers
    few, _ = learn(engine, train[:20], held, tmp_path, 3.0)
    first = few.lesson.student.targets.clone()
    other = first_student("eagle3", engine.target.network, train, PROMPTS, 0)
    assert not torch.equal(other.targets, first)  # more answers would choose other tokens
    fitted, _ = learn(engine, train, held, tmp_path, 6.0)
    assert fitted.done and fitted.progress.step == 6
    assert torch.equal(fitted.lesson.student.targets, first)  # but the tokens it was trained on stay
    with pytest.raises(DraftscopeError, match="another seed"):
        learn(engine, train, held, tmp_path, 6.0, "another target")


def test_a_state_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    """A head's, saved after five steps of twelve before there was one `fit` for all; and the names of its folders."""

    def some(seed: int) -> list[TargetAnswer]:
        drawn = torch.Generator().manual_seed(seed)
        ids = [torch.randint(2, 64, (20 + 4 * (number % 3),), generator=drawn) for number in range(12)]
        return [TargetAnswer("a", 0.0, 4, tokens, None) for tokens in ids]

    copyfile(STATES / "eagle3.pt", tmp_path / "state.pt")
    saved = torch.load(STATES / "eagle3.pt", weights_only=True)["model"]
    network, train, recipe = build(VERY_TINY, 0), some(0), replace(RECIPE, tokens_per_step=64)
    lesson = lesson_for(network, first_student("eagle3", network, train, PROMPTS, 5))
    teacher = Teacher(lesson, writing.feature_layers(6))
    source = AnswerText(teacher, train, some(1)[:2], recipe, 0, "eagle3 0123456789ab.0")
    still = fit(lesson, source, recipe, Budget(12.0, deadline=0.0, clock=ticking()), tmp_path)
    assert (still.progress.step, still.progress.tokens, still.done) == (5, 5 * 64, False)
    assert all(torch.equal(weight, saved[name]) for name, weight in lesson.student.state_dict().items())
    rest = fit(lesson, source, recipe, Budget(12.0, clock=ticking()), tmp_path)
    assert rest.done and rest.progress.step == 12
    prompts = [TokenizedPrompt("a", [2, 3]), TokenizedPrompt("it's", [4])]
    assert writing.digest_of("0123456789ab.0", prompts) == "45513575756db3f2"


# The whole command.


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(drafter_training.PRESETS, "cpu", replace(CPU, answers=PRESET))
    monkeypatch.setattr(figures, "TRIALS", replace(figures.TRIALS, gammas=(2,), tokens=8))


def prompt_file(place: Path) -> Path:
    path = place / "prompts.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": p.text, "kind": p.kind}) for p in questions(96)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", trained_kinds())
def test_the_whole_command(home: Path, tmp_path: Path, small: None, kind: str, engine: DecodingEngine) -> None:
    out = tmp_path / "out"
    asked = DrafterTraining(str(home), kind, out, tmp_path / "work", prompts=prompt_file(tmp_path))
    assert train_drafter(asked)
    record = json.loads((out / "training.json").read_text())
    assert record["kind"] == kind and record["answers"]["tokens"] > 400
    assert record["target"] == engine.target.digest and record["target_name"] == engine.target.name
    assert [(trial["gamma"], trial["temperature"]) for trial in record["trials"]] == [(2, 0.0), (2, 1.0)]
    assert all(trial["tau"] >= 1 and trial["ratio"]["low"] > 0 and trial["c"] > 0 for trial in record["trials"])
    card = (out / "README.md").read_text()
    assert "alpha 1" in card and "tau" in card and "draftscope train-drafter" in card
    assert "license" not in card.split("---")[1]  # for whoever wrote the prompts to say
    network = engine.target.network
    ids = torch.randint(V, (1, 12))
    if kind == "draft":
        loaded: Any = AutoModelForCausalLM.from_pretrained(out)
        assert AutoTokenizer.from_pretrained(out).get_vocab() == engine.tokenizer.get_vocab()
        assert loaded.dtype == torch.bfloat16 and loaded(ids).logits.shape == (1, 12, V)
        return
    head = load_head(kind, out, SharedWeights.of(network))
    (state,) = (tmp_path / "work").glob(f"{kind}.*/state.pt")
    weights = torch.load(state, weights_only=True)["model"]
    for name, value in head.state_dict().items():  # what was trained, rounded to bf16
        expected = weights[name].to(torch.bfloat16) if value.is_floating_point() else weights[name]
        assert torch.equal(value, expected.to(value.dtype)), name
    again = load_head(kind, out, SharedWeights.of(network))
    assert all(torch.equal(a, b) for a, b in zip(outputs(engine, head, ids), outputs(engine, again, ids), strict=True))
    if isinstance(head, Eagle3):
        config = json.loads((out / "config.json").read_text())
        assert "eagle_aux_hidden_state_layer_ids" not in config and config["norm_before_residual"] is False


def outputs(engine: DecodingEngine, head: Head, ids: Tensor) -> list[Tensor]:
    one = lesson_for(engine.target.network, head)
    shown = one.run_target(ids, one.draw(ids, torch.Generator().manual_seed(0)))
    return [pair.rows_of(shown)[1] for pair in one.pairs(shown)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["block", "draft"])
def test_a_preset_that_computes_again_in_bf16_trains_too(
    home: Path, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What the GPU preset does, in miniature: no states on disk, bf16 matmuls, and pieces that are continued."""
    preset = replace(PRESET, keeps_features=False, sitting=1.0)
    monkeypatch.setitem(drafter_training.PRESETS, "cpu", replace(CPU, answers=preset))
    for module in ("fit.numerics", "publish.publish", "drafter_training"):
        monkeypatch.setattr(f"draftscope.train.{module}.precision", lambda _: torch.bfloat16)
    asked = DrafterTraining(str(home), kind, tmp_path / "out", tmp_path / "work", prompts=prompt_file(tmp_path))
    assert not train_drafter(replace(asked, sitting=1e-9))
    assert not asked.out.exists()
    assert train_drafter(asked)
    record = json.loads((asked.out / "training.json").read_text())
    assert record["precision"] == "bfloat16" and record["steps"] > 0
    (one,) = (tmp_path / "work").glob("answers.*")
    assert all(
        answer.features is None for path in on_disk.batch_files(one) for answer in on_disk.read_batch(path, PLAN.layers)
    )


def commanded(*words: str) -> int:
    code = imported("train-drafter").main(list(words), standalone_mode=False)
    assert isinstance(code, ExitCode)
    return code


@pytest.mark.slow
def test_a_sitting_stops_and_the_command_continues(
    home: Path, tmp_path: Path, small: None, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--target", str(home), "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"))
    common = (*common, "--prompts", str(prompt_file(tmp_path)), "--threads", "1")
    assert commanded(*common, "--sitting", "0.0001") == ExitCode.INTERRUPTED
    assert "Run the same command" in capsys.readouterr().out
    assert commanded(*common) == 0
    assert "tau" in capsys.readouterr().out
    before = json.loads((tmp_path / "out" / "training.json").read_text())
    file = tmp_path / "out" / "model.safetensors"
    save_file(load_file(file) | {"norm.weight": torch.full((SHAPE.hidden_size,), 7.0).bfloat16()}, file)
    place = ("--warm-start", str(tmp_path / "out"), "--out", str(tmp_path / "more"))
    assert commanded(*common, *place, "--minutes", "0.0001") == 0
    after = json.loads((tmp_path / "more" / "training.json").read_text())
    assert after["before"]["tokens"] == after["agreement"]["all"]["tokens"] > 0
    assert after["started_from"] == "out" and "from the weights of out" in (tmp_path / "more" / "README.md").read_text()
    assert after["tokens_seen"] - before["tokens_seen"] == after["steps"] * after["tokens_per_step"]
    passes = [record["answers"]["epochs"] / record["steps"] for record in (before, after)]
    assert passes[0] == pytest.approx(passes[1])
    assert load_file(tmp_path / "more" / "model.safetensors")["norm.weight"].float().mean() == pytest.approx(
        7.0, abs=0.1
    )


def test_a_stop_says_whether_there_are_answers(
    engine: DecodingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It named a folder that did not exist."""
    asked = DrafterTraining("model", "draft", tmp_path / "out", tmp_path / "work")
    monkeypatch.setattr(drafter_training, "collect", lambda *_: False)
    assert not drafter_training._train(asked, engine, questions(3), 0.0)
    assert capsys.readouterr().out == (
        "Stopped before the target had finished its first answers. Run the same command to start again.\n"
    )
    monkeypatch.setattr(
        drafter_training.on_disk, "batch_files", lambda folder: iter([folder / "answers-0.safetensors"])
    )
    assert not drafter_training._train(asked, engine, questions(3), 0.0)
    assert f"its answers are in '{tmp_path / 'work'}" in capsys.readouterr().out


@pytest.mark.slow
def test_measuring_can_be_interrupted_and_begun_again(
    home: Path, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with weights and no record would not be known as one of this command's."""
    asked = DrafterTraining(str(home), "draft", tmp_path / "out", tmp_path / "work", prompts=prompt_file(tmp_path))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(drafter_training, "trials", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_drafter(asked)
    assert not asked.out.exists()
    assert train_drafter(asked)
    assert {"training.json", "config.json", "README.md"} <= {path.name for path in asked.out.iterdir()}
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("unfinished")] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--tokens", "0"), "--tokens"),
        (("--minutes", "0"), "--minutes"),
        (("--prompts", "nowhere.jsonl"), "cannot be read"),
        (("--text", "nowhere"), "no folder"),
        (("--out", "."), "holds other files"),
        (("--out", "head", "--warm-start", "./head"), "are both 'head': write to another folder"),
        (("--warm-start", "nowhere"), "There is no drafter in 'nowhere'"),
        (("--preset", "gpu"), "needs a CUDA device"),
    ],
)
def test_unusable_requests_are_refused_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("precious")
    (tmp_path / "head").mkdir()
    (tmp_path / "head" / "config.json").write_text("{}")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(DraftscopeError, match=sentence) as caught:
        commanded("--target", "no-such-model", *words)
    assert "\n" not in str(caught.value)


def test_asked_keeps_kind_and_tokens(engine: DecodingEngine) -> None:
    (one,) = tokenize([Prompt("tale", "sun moon")], engine.tokenizer)
    assert isinstance(one, TokenizedPrompt) and one.kind == "tale" and len(one.tokens) > 2
