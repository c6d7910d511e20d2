"""Training on a text of a few hundred lines and models of a few thousand weights."""

from __future__ import annotations

import lzma
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tokenizers import Tokenizer
from tokenizers.models import BPE
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.models.heads.lessons import DraftModelLesson, Lesson, NextTokens
from draftscope.models.loading import embedded
from draftscope.train import family
from draftscope.train.data import corpus
from draftscope.train.data.batches import DECK, Batches, deck_shares
from draftscope.train.data.corpus import Domain, Texts, sources
from draftscope.train.fit import fit as fitting
from draftscope.train.fit import training_texts as text_sources
from draftscope.train.fit.evaluate import agreements, scores
from draftscope.train.fit.fit import Budget, Fitted, TrainingProgress, TrainingRun, fit
from draftscope.train.fit.numerics import Optimizers, Rates, Recipe, schedule
from draftscope.train.fit.training_texts import CorpusText, fingerprint
from draftscope.train.publish.card import card
from draftscope.train.publish.figures import WRITTEN, repeats, specimens
from draftscope.train.publish.publish import Publication, TrainingRecord, read_record, save_student, tokens_behind
from draftscope.train.students import students
from draftscope.train.students.recipes import PRESETS
from draftscope.train.students.shapes import DRAFT, TARGET, build, llama, parameters
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.main import imported

TINY = llama(280, layers=2, width=32, heads=2, key_value_heads=1, mlp=64, positions=1024)
TINIER = llama(280, layers=1, width=16, heads=2, key_value_heads=1, mlp=32, positions=1024)
STEP = 1024  # tokens: two rows of 512, or one of 1,024
SMALL = Recipe(Rates(matrices=4e-3, rest=5e-3), STEP, samples=4)


def write_corpus(place: Path) -> Path:
    """Two domains of regular text: a few dozen documents each."""
    rng = random.Random(0)
    for split, documents in (("train", 60), ("val", 12)):
        tales = [
            " ".join(rng.choice(["the cat sat.", "a dog ran.", "so it went."]) for _ in range(80))
            for _ in range(documents)
        ]
        sums = ["\n".join(f"{n} + {n} = {n + n}" for n in range(rng.randrange(50), 90)) for _ in range(documents)]
        with lzma.open(place / f"tales.{split}.txt.xz", "wt", encoding="utf-8") as out:
            out.write("\n<|endoftext|>\n".join(tales))
        (place / f"sums.{split}.txt").write_text("\n<|endoftext|>\n".join(sums), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    place = write_corpus(tmp_path_factory.mktemp("corpus"))
    train_files = corpus.domain_files(place, "train").values()
    bpe = corpus.train_tokenizer((text for path in train_files for text in corpus.documents(path)), 280)
    return corpus.read_corpus(place, bpe, place / "cache")


def ticking() -> Callable[[], float]:
    """A clock in which every step takes a second, so that budgets count steps exactly."""
    ticks = iter(range(1_000_000))
    return lambda: float(next(ticks))


def on_corpus(
    lesson: Lesson,
    texts: Texts,
    place: Path,
    budget: Budget,
    seed: int = 0,
    seen: int = 0,
    order: int | None = None,
    recipe: Recipe = SMALL,
) -> Fitted:
    """Training on the corpus, without torch.compile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_sources, "compiled", lambda function: function)
        patch.setattr(fitting, "compiled", lambda function: function)
        source = CorpusText(lesson, texts, recipe, seed, seed if order is None else order, seen, place.parent)
        return fit(lesson, source, recipe, budget, place)


def train_target(texts: Texts, place: Path, steps: int, clock: Callable[[], float]) -> tuple[LlamaForCausalLM, bool]:
    model = build(TINY, seed=0)
    return model, on_corpus(NextTokens(model), texts, place, Budget(float(steps), clock=clock)).done


def nats(model: LlamaForCausalLM, texts: Texts) -> float:
    found = scores(model, texts.val, 2, texts.tokenizer)
    return sum(score.nats_per_token for score in found.values()) / len(found)


@pytest.mark.slow
def test_a_target_learns_and_a_draft_learns_it(texts: Texts, tmp_path: Path) -> None:
    before = nats(build(TINY, seed=0), texts)
    model, done = train_target(texts, tmp_path / "target", 24, ticking())
    assert done
    assert nats(model, texts) < before - 1.0
    draft = build(TINIER, seed=0)
    on_corpus(DraftModelLesson(model, draft), texts, tmp_path / "draft" / "state", Budget(20.0, clock=ticking()))

    def alpha(one: LlamaForCausalLM) -> float:
        found = agreements(DraftModelLesson(model, one), texts.val, 2)
        return sum(value.alpha[0] for value in found.values()) / len(found)

    assert alpha(draft) > alpha(build(TINIER, seed=0)) + 0.1
    same = agreements(DraftModelLesson(model, model), texts.val, 2)["sums"]
    assert same.alpha == pytest.approx((1.0,), abs=1e-3) and same.greedy == (1.0,)


def interrupting(at: float) -> Callable[[], float]:
    """A ticking clock that interrupts the run when it reaches `at`; it is read twice a step."""
    tick = ticking()

    def read() -> float:
        now = tick()
        if now == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return now

    return read


def same_weights(one: LlamaForCausalLM, other: LlamaForCausalLM) -> bool:
    expected = other.state_dict()
    return all(torch.equal(weight, expected[name]) for name, weight in one.state_dict().items())


def test_a_run_with_another_seed_text_or_target_is_not_resumed(texts: Texts, tmp_path: Path) -> None:
    train_target(texts, tmp_path / "target", 1, ticking())
    with pytest.raises(DraftscopeError, match="another seed"):
        on_corpus(NextTokens(build(TINY, seed=1)), texts, tmp_path / "target", Budget(2.0), seed=1)
    fewer = Texts(texts.train[:1], texts.val, texts.tokenizer)
    with pytest.raises(DraftscopeError, match="another seed, text"):
        on_corpus(NextTokens(build(TINY, seed=0)), fewer, tmp_path / "target", Budget(2.0))
    targets = build(TINY, seed=0), build(TINY, seed=1)
    assert fingerprint(0, texts.train, targets[0]) != fingerprint(0, texts.train, targets[1])


class Command:
    """A pickle that would run a command when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("content", ["command", "list", "keys", "weights", "progress", "cut", "text"])
def test_a_state_that_somebody_changed_is_one_sentence_and_runs_nothing(
    texts: Texts, tmp_path: Path, content: str
) -> None:
    """It ended in torch's own exceptions, or in a KeyError."""
    train_target(texts, tmp_path / "target", 1, ticking())
    path, mark = tmp_path / "target" / "state.pt", tmp_path / "mark"
    whole, saved = path.read_bytes(), torch.load(path, weights_only=True)
    changed: dict[str, Any] = {
        "command": {"model": Command(mark)},
        "list": [saved],
        "keys": {"fingerprint": saved["fingerprint"]},
        "weights": saved | {"model": {"a": torch.zeros(2)}},
        "progress": saved | {"progress": {"steps": 1}},
    }
    if content in changed:
        torch.save(changed[content], path)
    else:
        path.write_bytes(whole[:1000] if content == "cut" else b"no state")
    with pytest.raises(DraftscopeError, match=r"state.pt' is not what a training run saves, or is damaged; move"):
        train_target(texts, tmp_path / "target", 2, ticking())
    assert not mark.exists()


def test_rerunning_a_finished_run_changes_nothing(
    texts: Texts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = train_target(texts, tmp_path, 2, ticking())
    second, done = train_target(texts, tmp_path, 2, ticking())
    assert done and same_weights(first, second)
    assert "raise --minutes" in capsys.readouterr().out


def test_a_run_ends_when_its_tokens_are_used_up(texts: Texts, tmp_path: Path) -> None:
    model = build(TINY, seed=0)
    budget = Budget(1000.0, tokens=10 * STEP, clock=ticking())
    fitted = on_corpus(NextTokens(model), texts, tmp_path, budget, seen=4 * STEP)
    assert fitted.done and fitted.progress.step == 6 and fitted.progress.tokens == 10 * STEP


def test_a_sitting_ends_at_its_deadline(texts: Texts, tmp_path: Path) -> None:
    expired = Budget(1000.0, deadline=0.0, clock=ticking())
    fitted = on_corpus(NextTokens(build(TINY, seed=0)), texts, tmp_path, expired)
    assert not fitted.done and fitted.progress.step == 0


VERY_TINY = llama(64, layers=6, width=16, heads=2, key_value_heads=1, mlp=32, positions=1024)
STATES = Path(__file__).parent / "states"  # saved after five steps of twelve, before there was one `fit` for all


@pytest.fixture
def numbers() -> Texts:
    """The text that the models of `STATES` were trained on."""
    tokens = np.random.default_rng(0).integers(2, 64, 4000).astype("uint16")
    tokens[::200] = corpus.END
    domain = Domain.of("numbers", tokens)
    return Texts([domain], [domain], Tokenizer(BPE()))


@pytest.mark.parametrize("name", ["target", pytest.param("draft", marks=pytest.mark.slow)])
def test_a_state_of_an_earlier_version_is_resumed(name: str, numbers: Texts, tmp_path: Path) -> None:
    """It continues from the saved weights, optimizers and step, whatever the model was before."""
    copyfile(STATES / f"{name}.pt", tmp_path / "state.pt")
    saved = torch.load(STATES / f"{name}.pt", weights_only=True)
    recipe = Recipe(SMALL.rates, STEP, samples=2)
    model = build(VERY_TINY if name == "target" else llama(64, 1, 16, 2, 1, 32, 1024), seed=5)
    lesson = NextTokens(model) if name == "target" else DraftModelLesson(build(VERY_TINY, 0), model)
    still = on_corpus(lesson, numbers, tmp_path, Budget(12.0, deadline=0.0, clock=ticking()), recipe=recipe)
    assert (still.progress.step, still.progress.tokens, still.done) == (5, 5 * STEP, False)
    for key, weight in model.state_dict().items():
        assert torch.equal(weight, saved["model"][key])
    rest = on_corpus(lesson, numbers, tmp_path, Budget(12.0, clock=ticking()), recipe=recipe)
    assert rest.done and (rest.progress.step, rest.progress.tokens) == (12, 12 * STEP)


def test_digests_that_name_states_and_finished_runs_do_not_change(numbers: Texts) -> None:
    """As they were computed before there was one `fit` for all."""
    assert repr(SMALL) == "Recipe(rates=Rates(matrices=0.004, rest=0.005), tokens_per_step=1024, samples=4)"
    assert fingerprint(0, numbers.train) == "c194a9d786fe1d05"
    recipe = repr(Recipe(SMALL.rates, STEP, samples=2))
    assert (
        family.digest(fingerprint(0, numbers.train), recipe, str(PRESETS["cpu"].minutes["draft"])) == "7a43fb152fb39848"
    )


def test_a_state_has_the_weights_of_each_optimizer(texts: Texts, tmp_path: Path) -> None:
    """The format of a state file, and which optimizer has which weights of a Llama: matrices of blocks, the rest."""
    train_target(texts, tmp_path, 1, ticking())
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert list(state) == ["fingerprint", "progress", "model", "optimizers"]
    assert list(state["progress"]) == ["step", "tokens", "spent", "durations"]
    model = build(TARGET, seed=0)
    sizes = [len(part["param_groups"][0]["params"]) for part in Optimizers(model, SMALL.rates).state()]
    assert sizes == [56, 18]


def test_the_shipped_weights_have_records_and_cards_that_are_read() -> None:
    for member in embedded.FAMILY:
        folder = embedded.home(member.name)
        assert tokens_behind(folder) > 0 and read_record(folder)["recipe"]
        home = embedded.home(member.of) if member.of else None
        assert embedded.trained_for(folder) == (embedded.digest(home) if home else "")
        assert (folder / "README.md").read_text(encoding="utf-8").startswith("---")


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in (assets() / "models").glob("*/README.md")))
def test_every_shipped_card_names_a_licence_whose_place_is_in_it(folder: str) -> None:
    text = (assets() / "models" / folder / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---")[1])
    page, _, place = head["license_link"].partition("#")
    assert head["license"] and head["license_name"] and page == "README.md"
    assert any(line.lower().replace(" ", "-") == f"##-{place}" for line in text.splitlines())


def test_rows_depend_only_on_seed_and_step(texts: Texts) -> None:
    one, other = Batches(texts.train, 0, STEP), Batches(texts.train, 0, STEP)
    later = one.rows(7, 512)
    for step in (3, 40, 7):
        inputs, following = other.rows(step, 512)
    assert torch.equal(later[0], inputs) and torch.equal(later[1], following)
    assert torch.equal(inputs[:, 1:], following[:, :-1])
    assert not torch.equal(later[0], Batches(texts.train, 1, STEP).rows(7, 512)[0])
    assert torch.equal(one.rows(7, 1024)[0].flatten(), later[0].flatten())


def test_an_epoch_shows_every_document_once(texts: Texts) -> None:
    domain = texts.train[0]
    shuffled = domain.shuffled(seed=0, epoch=3)
    assert sorted(shuffled) == sorted(domain.tokens)
    assert not (shuffled == domain.tokens).all()
    assert shuffled[0] == corpus.END


def test_small_domains_get_a_share_by_their_square_root() -> None:
    cards = deck_shares([100, 400, 10_000])
    assert sum(cards) == DECK
    assert cards == [5, 10, 49]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words",
        "  two  spaces , and .\n\n\ttabs\r\n",
        "12345 + 1e-7",
        "naïve 日本語 🙂\u200b",
        "\x00\x7f a\u0301",
    ],
)
def test_tokenizer_round_trip(texts: Texts, tmp_path: Path, text: str) -> None:
    corpus.save_tokenizer(texts.tokenizer, tmp_path, positions=1024)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    bare = loaded(text, add_special_tokens=False).input_ids
    assert loaded.decode(bare) == text
    assert loaded(text).input_ids == [corpus.END, *bare]
    assert (loaded.bos_token_id, loaded.eos_token_id, loaded.pad_token_id) == (0, 0, 1)


def test_too_little_text_for_the_vocabulary_is_refused() -> None:
    with pytest.raises(DraftscopeError, match="4096"):
        corpus.train_tokenizer(["one two three"], 4096)


def test_every_digit_is_a_token(texts: Texts) -> None:
    assert len(texts.tokenizer.encode("1234", add_special_tokens=False).ids) == 4


def publication(target: str, texts: Texts) -> Publication:
    return Publication("Llama-Tiny", "target", target, "", 0, Path(), partial(family.save_tokenizer, texts))


def test_a_saved_model_loads_with_transformers(texts: Texts, tmp_path: Path) -> None:
    model = build(TINY, seed=0)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    save_student(model, publication("", texts), tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16
    assert model.dtype == torch.float32  # what is measured are the weights as published
    assert torch.equal(loaded.get_input_embeddings().weight.float(), model.get_input_embeddings().weight)
    ids = torch.arange(2, 250)[None]
    again = students.load_model(tmp_path)
    with torch.no_grad():
        assert torch.equal(model.eval()(ids).logits, again.eval()(ids).logits)  # rotary frequencies too
    with pytest.raises(DraftscopeError, match="no model in"):
        students.load_model(tmp_path / "elsewhere")


def test_parameter_counts_match_the_names() -> None:
    assert round(parameters(build(TARGET, 0)) / 1e6) == 15
    assert round(parameters(build(DRAFT, 0)) / 1e6) == 1


def test_the_schedule_warms_up_holds_and_decays_to_zero() -> None:
    assert schedule(0.0, 0.0) < 0.1
    assert schedule(0.3, 0.3) == schedule(0.69, 0.69) == 1.0
    assert 0.4 < schedule(0.85, 0.85) < 0.6
    assert schedule(1.0, 1.0) == 0.0


@pytest.mark.parametrize("before", [0, 20, 180])
def test_continued_training_has_the_rate_of_one_long_run(before: int) -> None:
    """A run of twenty steps after none, as many, and nine times as many."""
    run = TrainingRun(Path(), Budget(20.0), SMALL, "", before * STEP)
    for step in (6, 10, 17):
        done = TrainingProgress(step, (before + step) * STEP, float(step))
        left = (20 - step) / (20 + before)
        assert schedule(run.share(done), run.overall(done)) == pytest.approx(min(1.0, left / 0.3))


class Parrot:
    """Repeats one token if greedy; if sampled, it ends after its third token or never repeats a 4-gram."""

    device = torch.device("cpu")

    def generate(self, input_ids: Tensor, max_new_tokens: int, do_sample: bool, **_: Any) -> Tensor:
        generated = torch.full((len(input_ids), max_new_tokens), 7)
        if do_sample:
            generated[:] = torch.arange(10, 10 + max_new_tokens)
            generated[::2, 3:] = corpus.END
        return torch.cat([input_ids, generated], 1)


def test_repeats_are_counted_in_the_models_continuation_only(texts: Texts) -> None:
    found = repeats(Parrot(), texts.val, 0)
    assert set(found) == {domain.name for domain in texts.val}
    for repeated in found.values():
        assert (repeated.greedy, repeated.sampled) == (1 - 1 / (WRITTEN - 3), 0.0)


def test_the_card_names_every_source(texts: Texts, tmp_path: Path) -> None:
    (tmp_path / "SOURCES.md").write_text(
        "| domain | part | documents | bytes | source | licence |\n|---|---|---:|---:|---|---|\n"
        "| stories | child__llama31 | 2 | 7000000 | someone/somewhere @ 1 | MIT; text generated with Llama 3.1 |\n"
        "| qa | unheard_of | 2 | 1000000 | a library | CC-BY-4.0 |\n"
    )
    model = build(TINY, seed=0).eval()
    record = TrainingRecord(
        name="Llama-Tiny",
        kind="target",
        target="",
        target_name="",
        parameters=parameters(model),
        seed=0,
        minutes=1.0,
        hardware="a machine",
        precision="float32",
        steps=3,
        tokens_per_step=STEP,
        tokens_seen=3 * STEP,
        rates={"matrices": 4e-3, "rest": 5e-3},
        held_out=scores(model, texts.val, 2, texts.tokenizer),
        repeats=repeats(model, texts.val, 0),
    )
    text = card(record, model, sources(tmp_path), "target", specimens(model, texts, seed=0))
    assert text.startswith("---\nlanguage: en\nlicense: other\n")
    for expected in (
        "**Built with Llama.**",
        "unheard_of",
        "a library",
        "child__llama31",
        "Meta",
        "sums",
        "tales",
        "repeated, T = 1",
    ):
        assert expected in text
    record.write(tmp_path)
    assert tokens_behind(tmp_path) == 3 * STEP


def test_a_model_is_loaded_without_bars_in_a_pipe(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    students.build(TINY, 0).save_pretrained(tmp_path)
    assert students.load_model(tmp_path).config.vocab_size == TINY.vocab_size
    assert "Loading weights" not in capfd.readouterr().err
    (tmp_path / "config.json").write_text("no JSON")
    with pytest.raises(DraftscopeError, match="cannot be loaded"):
        students.load_model(tmp_path)


@pytest.mark.slow
def test_the_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(family, "TARGET", TINY)
    monkeypatch.setattr(text_sources, "compiled", lambda function: function)
    monkeypatch.setattr(fitting, "compiled", lambda function: function)
    monkeypatch.setattr(students, "SHAPES", {"target": TINY, "draft": TINIER})
    monkeypatch.setitem(family.PRESETS, "cpu", replace(PRESETS["cpu"], target_step=STEP, draft_step=STEP, samples=4))
    place, out, work = str(write_corpus(tmp_path)), tmp_path / "out", tmp_path / "work"
    common = ("--corpus", place, "--out", str(out), "--work", str(work), "--threads", "1")
    assert commanded("all", *common, "--minutes", "0.02") == 0
    assert "alpha" in capsys.readouterr().out
    target, draft = out / "llama-draftscope-15m", out / "llama-draftscope-draft-1m"
    for made in (target, draft):
        assert AutoModelForCausalLM.from_pretrained(made).config.vocab_size == len(AutoTokenizer.from_pretrained(made))
        assert (made / "README.md").read_text().startswith("---")
    seen = tokens_behind(target)
    assert seen > 0 and seen % STEP == 0
    # Without the saved state, --warm-start continues from the published folder and keeps counting tokens.
    shutil.rmtree(work)
    again = ("target", *common, "--minutes", "0.01", "--warm-start", str(target), "--seed", "1")
    assert commanded(*again) == 0
    assert tokens_behind(target) > seen
    with pytest.raises(DraftscopeError, match="drop --warm-start"):
        commanded(*again)


def commanded(*words: str) -> int:
    """`draftscope train`, whose errors are raised."""
    code = imported("train").main(list(words), standalone_mode=False)
    assert isinstance(code, ExitCode)
    return code


def refused(*words: str, command: Callable[..., int] = commanded) -> str:
    with pytest.raises(DraftscopeError) as caught:
        command(*words)
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith((".", ")"))
    return sentence


def test_wrong_arguments_are_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAFTSCOPE_CORPUS", raising=False)
    assert "--corpus" in refused("target")
    assert "no corpus folder" in refused("target", "--corpus", str(tmp_path / "nowhere"))
    assert "contains no <domain>" in refused("target", "--corpus", str(tmp_path))
    place = str(write_corpus(tmp_path))
    assert "--minutes" in refused("target", "--corpus", place, "--minutes", "0")
    assert "--warm-start" in refused("all", "--corpus", place, "--warm-start", place)
    assert "no model in" in refused("draft", "--corpus", place, "--out", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.train.txt", b"\n\n<|endoftext|>\n", "contains no text"),
        ("a.train.txt", b"", "contains no text"),
        ("a.train.txt", "caf\u00e9".encode("latin-1") + b" au lait", "not UTF-8"),
        ("a.train.txt.xz", lzma.compress(b"text " * 1000)[:-20], "truncated or not an xz file"),
        ("a.train.txt.xz", b"not an archive", "truncated or not an xz file"),
    ],
    ids=["blank", "empty", "latin-1", "truncated", "no archive"],
)
def test_unreadable_files_are_refused(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DraftscopeError, match=reason):
        list(corpus.documents(corpus.domain_files(tmp_path, "train")["a"]))


def test_a_corpus_too_small_for_one_row_is_refused(texts: Texts) -> None:
    short = [Domain.of("tales", texts.train[1].tokens[:100])]
    with pytest.raises(DraftscopeError, match="Too little training text in tales"):
        Texts(short, texts.val, texts.tokenizer)
    with pytest.raises(DraftscopeError, match="Too little held-out text in tales"):
        Texts(texts.train, short, texts.tokenizer)
