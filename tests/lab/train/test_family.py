"""All embedded members train, resume, and draft as they were trained; the command skips finished ones."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

import draftscope
from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.masks import Reach, attention_mask
from draftscope.models.cache.slots import SlotCache
from draftscope.models.heads import Block, Eagle3, Head, RecurrentHead, SharedWeights, load_head, save_head
from draftscope.models.heads.lessons import Distillation, DraftModelLesson, NextTokens, blocks, unroll
from draftscope.models.loading import embedded as family
from draftscope.models.loading.checkpoints import CheckpointOptions, find
from draftscope.models.loading.checkpoints import load_model as load_checkpoint
from draftscope.models.loading.embedded import FAMILY, Member
from draftscope.train import family as training
from draftscope.train.data import corpus
from draftscope.train.data.batches import Batches
from draftscope.train.data.corpus import Texts
from draftscope.train.fit import fit as fitting
from draftscope.train.fit import numerics
from draftscope.train.fit import training_texts as text_sources
from draftscope.train.fit.evaluate import agreement
from draftscope.train.fit.fit import Budget
from draftscope.train.fit.numerics import Rates, Recipe
from draftscope.train.fit.training_texts import CorpusText
from draftscope.train.publish import figures
from draftscope.train.publish.card import about
from draftscope.train.publish.publish import pack, read_record
from draftscope.train.students import recipes, students
from draftscope.train.students.shapes import build, llama, mamba2, mixture, parameters
from draftscope.train.students.students import (
    SHAPES,
    first_head,
    first_model,
    frequent,
    lesson_for,
    load_model,
)
from draftscope_app.cli.exit_codes import ExitCode
from tests.lab.train.test_train import STEP, interrupting, on_corpus, refused, ticking, write_corpus
from tests.lab.train.test_train import commanded as train_command

V = 280
TINY = llama(V, layers=4, width=32, heads=2, key_value_heads=1, mlp=64, positions=1024)
SMALLER = llama(V, layers=1, width=16, heads=2, key_value_heads=1, mlp=32, positions=1024)
TINY_SHAPES = {name: SMALLER if name not in ("target", "experts", "mamba2") else TINY for name in SHAPES} | {
    "mamba2": mamba2(V, layers=1, width=32, state=8),
    "experts": mixture(V, 2, 32, 2, 1, 64, experts=4, active=2, mlp=16),
}
RECIPE = Recipe(Rates(matrices=4e-3, rest=5e-3), STEP, samples=2)
DRAFTERS = [member for member in FAMILY if member.of == "target"]
HEADS = [member for member in FAMILY if member.is_head]
RECURRENT = [member for member in HEADS if member.kind in ("eagle", "eagle3", "mtp")]


def by_name(member: Member) -> str:
    return member.name


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def texts(place: Path) -> Texts:
    files = corpus.domain_files(place, "train").values()
    bpe = corpus.train_tokenizer((text for path in files for text in corpus.documents(path)), V)
    return corpus.read_corpus(place, bpe, place / "cache")


@pytest.fixture(scope="module")
def target() -> Any:
    return build(TINY, seed=0).eval()


@pytest.fixture(scope="module")
def trained(texts: Texts, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A target that is worth imitating."""
    model = build(TINY, seed=0)
    place = tmp_path_factory.mktemp("target") / "state"
    on_corpus(NextTokens(model), texts, place, Budget(32.0, clock=ticking()), recipe=RECIPE)
    return model.eval()


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(students, "SHAPES", TINY_SHAPES)


def fresh(member: Member, target: Any, texts: Texts) -> Any:
    """The member before training."""
    return first_head(member, target, Batches(texts.train, 0, STEP), 0) if member.is_head else first_model(member, 0)


def shaken(head: Head) -> Head:
    """The head with random weights instead of the zeros it starts with."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in head.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.1)
    return head.eval()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where text that a target has generated lies for all its students, as for those of the command."""
    return tmp_path_factory.mktemp("samples")


def train(
    one: Distillation, texts: Texts, place: Path, steps: int, clock: Callable[[], float], samples: Path | None = None
) -> bool:
    budget = Budget(float(steps), clock=clock)
    return on_corpus(one, texts, place / "state", budget, recipe=RECIPE, samples=samples).done


def weights(model: Any) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


# Learning.


def loss(one: Distillation, texts: Texts) -> float:
    ids, following = Batches(texts.train, 1, STEP).rows(0, 512)
    drawn = one.draw(ids, torch.Generator().manual_seed(0))
    with torch.no_grad():
        return one.loss(one.prepare(torch.cat([ids, following[:, -1:]], 1), drawn)).item()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("member", DRAFTERS, ids=by_name)
def test_every_drafter_reduces_its_loss(
    member: Member, trained: Any, texts: Texts, samples: Path, tmp_path: Path
) -> None:
    one = lesson_for(trained, fresh(member, trained, texts))
    before = loss(one, texts)
    assert train(one, texts, tmp_path, 8, ticking(), samples)
    assert loss(one, texts) < 0.99 * before


@pytest.mark.slow
def test_experts_reduce_their_loss_and_all_are_used(texts: Texts, tmp_path: Path) -> None:
    model = first_model(family.find("experts"), 0)
    inputs, following = Batches(texts.train, 1, STEP).rows(0, 512)
    lesson = NextTokens(model)
    output = lesson.prepare(torch.cat([inputs, following[:, -1:]], 1), None)
    before = lesson.loss(output).item()
    on_corpus(lesson, texts, tmp_path / "state", Budget(12.0, clock=ticking()), recipe=RECIPE)
    assert lesson.loss(output).item() < before - 0.5
    routed = model(input_ids=inputs, output_router_logits=True).router_logits[0].topk(2).indices
    assert torch.bincount(routed.flatten(), minlength=4).min() > 0


@pytest.mark.slow
def test_an_interrupted_lesson_with_random_parts_resumes_to_the_same_weights(
    target: Any, texts: Texts, tmp_path: Path
) -> None:
    """A block drafter: its lesson draws where blocks start."""
    results = []
    for folder_name, clocks in (("whole", [ticking()]), ("parts", [interrupting(at=7), ticking()])):
        for clock in clocks:
            student = fresh(family.find("block"), target, texts)
            done = train(lesson_for(target, student), texts, tmp_path / folder_name, 6, clock)
            results.append((done, weights(student)))
    (whole, once), (stopped, part), (resumed, twice) = results
    assert (whole, stopped, resumed) == (True, False, True)
    assert torch.equal(once, twice) and not torch.equal(once, part)


def test_continued_training_reads_other_text(
    target: Any, texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would read the same text again, and the rest of the corpus too rarely."""
    monkeypatch.setattr(text_sources, "compiled", lambda function: function)
    one = lesson_for(target, fresh(family.find("medusa"), target, texts))
    sources = [CorpusText(one, texts, RECIPE, 0, order, order, tmp_path) for order in (0, 0, 4096)]
    first, again, later = (source.step(0).ids for source in sources)
    assert torch.equal(first, again) and not torch.equal(first, later)


# Training computes what drafting computes.


def drafted(head: RecurrentHead, ids: Tensor, states: Tensor, row: int, depth: int) -> list[Tensor]:
    """The logits [D] of a drafter that starts after token `row` + 1 of a text and drafts its next `depth` tokens."""
    cache = head.cache(1, 64)
    at = torch.arange(row + 1)[None]
    cache.table.begin_write(at)
    logits, features = head(ids[:, 1 : row + 2], head.fuse(states[:, : row + 1]), at, None, cache)
    cache.keep_first(torch.tensor([row + 1]), row + 1)
    found = [logits[0, -1]]
    for step in range(1, depth):
        offsets = torch.tensor([[step - 1]])
        logits, features = one_row(head, cache, ids[:, row + 1 + step, None], features[:, -1:], offsets)
        found.append(logits[0, -1])
    return found


def one_row(
    head: RecurrentHead, cache: SlotCache, token: Tensor, feature: Tensor, offsets: Tensor
) -> tuple[Tensor, Tensor]:
    cache.table.begin_write(offsets)
    cache.table.widen()
    mask = attention_mask(cache.table, Reach(), None, None)
    return head(token, feature, cache.table.length[:, None] + offsets, mask, cache)


@pytest.mark.parametrize("member", RECURRENT, ids=by_name)
@torch.no_grad()
def test_unrolled_training_equals_drafting_with_a_cache(member: Member, target: Any, texts: Texts) -> None:
    head = shaken(fresh(member, target, texts))
    assert isinstance(head, RecurrentHead)
    ids = Batches(texts.train, 0, STEP).rows(0, 512)[0][:2, :24]
    states = lesson_for(target, head).run_target(ids, None).states
    steps = [head.logits(features) for features in unroll(head, ids, states, 4)]
    for text in range(2):
        for row in (0, 7, 19):
            alone = drafted(head, ids[text : text + 1], states[text : text + 1], row, 4)
            for step in range(4):
                torch.testing.assert_close(steps[step][text, row], alone[step], atol=2e-4, rtol=1e-3)
    assert not torch.allclose(steps[0], steps[1], atol=1e-2)


@torch.no_grad()
def test_blocks_trained_together_equal_blocks_drafted_one_by_one(target: Any, texts: Texts) -> None:
    head = shaken(fresh(family.find("block"), target, texts))
    assert isinstance(head, Block)
    one = lesson_for(target, head)
    ids = Batches(texts.train, 0, STEP).rows(0, 512)[0][:2, :48]
    anchors = one.draw(ids, torch.Generator().manual_seed(3))
    assert anchors is not None and anchors.min() >= 1 and anchors.max() <= 48 - 8
    states = one.run_target(ids, None).states
    found = blocks(head, ids, states, anchors)
    for text in range(2):
        for which, start in enumerate(anchors[text].tolist()):
            tokens = head.tokens(ids[text, start, None], 8)
            context = head.fuse(states[text : text + 1, :start])
            alone = head(tokens, context, torch.arange(start + 9)[None])
            torch.testing.assert_close(found[text, which, 1:], alone[0, 1:], atol=2e-4, rtol=1e-3)


@torch.no_grad()
def test_every_depth_is_paired_with_the_right_target_row(target: Any, texts: Texts) -> None:
    """Depth k of row i is about token i + 1 + k, which is predicted by the target's row i + k."""
    ids = Batches(texts.train, 0, STEP).rows(0, 512)[0][:2, :64]
    for member in HEADS:
        one = lesson_for(target, fresh(member, target, texts))
        drawn = one.draw(ids, torch.Generator().manual_seed(3))
        truth = one.run_target(ids, drawn)
        numbered = truth._replace(distributions=torch.arange(64).expand(2, -1)[:, :, None])  # row i contains i
        for depth, pair in enumerate(one.pairs(numbered), 1):
            rows, logits = pair.rows_of(numbered)
            assert rows.shape[:-1] == logits.shape[:-1]
            first = drawn if member.kind == "block" else torch.arange(logits.shape[1]) + 1
            assert torch.equal(rows[..., 0], (first + depth - 1).expand(2, -1))


def test_a_draft_model_is_evaluated_at_one_depth(target: Any, texts: Texts) -> None:
    found = agreement(DraftModelLesson(target, target), texts.val[0], 2)
    assert found.alpha == pytest.approx((1.0,), abs=1e-3)
    head = fresh(family.find("medusa"), target, texts)  # starts with the target's output for the token before
    assert len(agreement(lesson_for(target, head), texts.val[0], 2).alpha) == 4


# Vocabulary and files.


def test_eagle3s_vocabulary_is_the_most_frequent_tokens(target: Any, texts: Texts) -> None:
    batches = Batches(texts.train, 0, STEP)
    tokens = frequent(batches, 40)
    counts = torch.bincount(torch.cat([batches.rows(step, 512)[1].flatten() for step in range(64)]), minlength=V)
    rest = torch.ones(V, dtype=torch.bool).index_fill_(0, tokens, False)
    assert corpus.END in tokens and tokens.equal(tokens.unique())
    assert counts[tokens[tokens != corpus.END]].min() >= counts[rest].max()
    head = fresh(family.find("eagle3"), target, texts)
    assert isinstance(head, Eagle3) and head.lm_head is not None
    assert head.vocabulary == V // 2 and head.targets.equal(frequent(batches, V // 2))
    assert torch.equal(head.lm_head.weight, SharedWeights.of(target).lm_head[head.targets])


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("member", HEADS, ids=by_name)
def test_saved_heads_compute_the_same(member: Member, target: Any, texts: Texts, tmp_path: Path) -> None:
    head = shaken(fresh(member, target, texts))
    save_head(head, tmp_path, "Llama-Draftscope-15M")
    loaded = load_head(member.kind, tmp_path, SharedWeights.of(target))
    ids = Batches(texts.train, 0, STEP).rows(0, 512)[0][:1, :64]
    before, after = lesson_for(target, head), lesson_for(target, loaded)
    drawn = before.draw(ids, torch.Generator().manual_seed(3))
    shown, again = before.run_target(ids, drawn), after.run_target(ids, drawn)
    for one, other in zip(before.pairs(shown), after.pairs(again), strict=True):
        assert torch.equal(one.rows_of(shown)[1], other.rows_of(again)[1])


def test_every_member_has_a_card_a_recipe_and_a_shape() -> None:
    names = {member.name for member in FAMILY}
    said = about()
    assert names == set(said) == set(recipes.MEMBERS)
    assert {member.name for member in FAMILY if not member.is_head} == set(SHAPES)
    assert len({member.folder for member in FAMILY}) == len(FAMILY)
    assert all(member.title.startswith("Llama-") and member.of in ("", "target", "experts") for member in FAMILY)
    with pytest.raises(DraftscopeError, match="choose from target, draft"):
        family.find("eagle4")


def test_the_family_fits_in_80_megabytes(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights in bf16, plus 0.3 MB a folder for tokenizer, card and record."""
    monkeypatch.setattr(students, "SHAPES", SHAPES)
    target = first_model(family.find("target"), 0)
    made = [target if member.name == "target" else fresh(member, target, texts) for member in FAMILY]
    assert 2 * sum(map(parameters, made)) + 300_000 * len(FAMILY) < 80e6


# The command.


def small(patch: pytest.MonkeyPatch) -> None:
    """Tiny shapes, without torch.compile, a fraction of a second for each member."""
    patch.setattr(students, "SHAPES", TINY_SHAPES)
    patch.setattr(training, "TARGET", TINY)
    patch.setattr(training, "ROWS", 2)
    patch.setattr(figures, "WRITTEN", 16)
    patch.setattr(figures, "CONTINUED", 16)
    patch.setattr(text_sources, "compiled", lambda function: function)
    patch.setattr(fitting, "compiled", lambda function: function)
    minutes = {member.name: 0.002 for member in FAMILY}
    steps = {"target_step": STEP, "draft_step": STEP, "head_step": STEP, "samples": 2}
    preset = replace(recipes.CPU, minutes=minutes, enough=1, **steps)
    patch.setattr(training, "PRESETS", {"cpu": preset, "gpu": replace(preset, device="cuda")})


def family_command(place: Path, folder: Path) -> Callable[..., int]:
    """`draftscope train family`, into `folder`."""
    common = ("--corpus", str(place), "--out", str(folder / "out"), "--work", str(folder / "work"))
    return lambda *words: train_command("family", *common, "--threads", "1", *words)


@pytest.fixture(scope="module")
def made(place: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The whole family, trained once, and which students were asked to start as another one."""
    root, begun = tmp_path_factory.mktemp("family"), []

    def watched(student: Any, elder: Any) -> bool:
        begun.append(type(student).__name__)
        return students.start_as(student, elder)

    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        patch.setattr(training, "start_as", watched)
        assert family_command(place, root)("--shards", str(root / "shards")) == 0
    return root, begun


@pytest.fixture
def commanded(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    small(monkeypatch)
    return family_command(place, tmp_path)


@pytest.mark.slow
def test_the_whole_family(
    made: tuple[Path, list[str]], place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, begun = made
    out = root / "out"
    for member in FAMILY:
        record = read_record(out / member.folder)
        assert (out / member.folder / "README.md").read_text().startswith("---") and record["tokens_seen"] > 0
        home = out / family.find(member.of).folder if member.of else None
        assert family.trained_for(out / member.folder) == (family.digest(home) if home else "")
        assert bool(record["agreement"]) == bool(member.of)
        if not member.is_head:
            assert AutoModelForCausalLM.from_pretrained(out / member.folder).config.vocab_size == V
    target = load_model(out / family.find("target").folder)
    assert isinstance(load_head("eagle3", out / family.find("eagle3").folder, SharedWeights.of(target)), Eagle3)
    pieces = sorted((root / "shards").iterdir())
    with tarfile.open(fileobj=io.BytesIO(b"".join(piece.read_bytes() for piece in pieces))) as tar:
        assert {name.split("/")[0] for name in tar.getnames()} == {member.folder for member in FAMILY}
    assert begun == ["Mamba2ForCausalLM", *["LlamaForCausalLM"] * 4]  # no target, no head, and not the draft itself
    draft, deeper = (read_record(out / family.find(name).folder)["tokens_seen"] for name in ("draft", "draft-2l"))
    assert deeper > draft  # it starts from the draft's weights, so the draft's tokens count
    # A second run trains nothing.
    small(monkeypatch)
    assert family_command(place, root)() == 0
    printed = capsys.readouterr().out
    assert printed.count("is finished in") == len(FAMILY) and "written to" not in printed


@pytest.mark.slow
def test_a_member_continues_training_when_its_target_changes_and_after_a_sitting(
    made: tuple[Path, list[str]], commanded: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made[0] / "out", tmp_path / "out")
    home, medusa = (tmp_path / "out" / family.find(name).folder for name in ("target", "medusa"))
    first = read_record(medusa)
    model = load_model(home)
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
    model.to(torch.bfloat16).save_pretrained(home)
    assert commanded("--members", "medusa") == 0
    assert "Medusa: " in capsys.readouterr().out
    second = read_record(medusa)
    assert second["target"] == family.digest(home) != first["target"]
    assert second["tokens_seen"] > first["tokens_seen"] > 0
    assert commanded("--members", "medusa", "--minutes", "0.004") == 0  # the time is part of the recipe
    assert read_record(medusa)["recipe"] != second["recipe"]
    for folder in (medusa, tmp_path / "work"):
        shutil.rmtree(folder)
    assert commanded("--members", "medusa", "--sitting", "0.000001") == ExitCode.INTERRUPTED
    assert not medusa.exists()
    assert commanded("--members", "medusa", "--sitting", "10") == 0


def test_training_continues_only_from_weights_that_fit(target: Any, texts: Texts, tmp_path: Path) -> None:
    member = family.find("block")
    kept = shaken(fresh(member, target, texts)).to(torch.bfloat16)
    save_head(kept, tmp_path, "A head")
    (tmp_path / family.RECORD).write_text('{"tokens_seen": 7}')
    student = fresh(member, target, texts)
    assert training._continue_from(member, tmp_path, target, student) == 7
    assert torch.equal(weights(student).bfloat16(), weights(kept))
    assert training._continue_from(member, tmp_path / "none", target, student) == 0
    wider = Block(replace(student.config, shape=replace(student.config.shape, mlp=8)), SharedWeights.of(target))
    before = weights(wider)
    assert training._continue_from(member, tmp_path, target, wider) == 0 and torch.equal(weights(wider), before)


def test_wrong_family_arguments_are_refused_in_one_sentence(
    commanded: Callable[..., int], tmp_path: Path, place: Path
) -> None:
    assert "choose from target, draft" in refused("--members", "eagle7", command=commanded)
    assert "add it to --members" in refused("--members", "eagle3", command=commanded)
    assert "--sitting" in refused("--sitting", "0", command=commanded)
    assert "no corpus folder" in refused("--corpus", str(tmp_path / "nowhere"), command=commanded)
    if not torch.cuda.is_available():
        assert "--preset cpu" in refused("--preset", "gpu", command=commanded)
    with pytest.raises(DraftscopeError, match="goes with 'family'"):
        train_command("target", "--corpus", str(place), "--members", "draft")


@pytest.mark.slow
def test_the_command_runs_without_gradio(tmp_path: Path) -> None:
    """`draftscope train` on a machine where only the command line's own libraries are installed."""
    code = "import sys; sys.modules['gradio'] = None; from draftscope_app.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "train", "family", "--corpus", str(tmp_path / "nowhere")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("draftscope: There is no corpus folder")


def test_shards_are_small_and_form_one_tar(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "weights").write_bytes(bytes(range(256)) * 100)
    pack([tmp_path / "made"], tmp_path / "shards", piece=10_000)
    pieces = sorted((tmp_path / "shards").iterdir())
    assert len(pieces) > 2 and all(piece.stat().st_size <= 10_000 for piece in pieces)
    with tarfile.open(fileobj=io.BytesIO(b"".join(piece.read_bytes() for piece in pieces))) as tar:
        held = tar.extractfile("made/weights")
        assert held is not None and held.read() == bytes(range(256)) * 100


def test_the_digest_of_a_folder_is_that_of_its_model(tmp_path: Path, texts: Texts) -> None:
    build(TINY, 0).save_pretrained(tmp_path)
    how = CheckpointOptions(torch.float32, torch.device("cpu"))
    assert family.digest(tmp_path) == load_checkpoint(find(tmp_path, how), how).digest != ""
    assert family.trained_for(tmp_path) == ""


def test_a_member_is_found_where_it_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_ASSETS", str(tmp_path))
    assert family.place("eagle3") is None
    made = tmp_path / "models" / "llama-draftscope-eagle3"
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / family.RECORD).write_text(json.dumps({"target": "abc"}))
    assert family.place("eagle3") == made and family.trained_for(made) == "abc"


# Embedded drafters are found.


@pytest.fixture
def embedded(made: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target, a draft and a head in their own assets folder."""
    for name in ("target", "draft", "eagle3"):
        folder = family.find(name).folder
        shutil.copytree(made[0] / "out" / folder, tmp_path / "assets" / "models" / folder)
    small(monkeypatch)
    monkeypatch.setenv("DRAFTSCOPE_ASSETS", str(tmp_path / "assets"))
    return tmp_path


@pytest.mark.slow
def test_heads_load_only_with_the_target_they_were_trained_for(embedded: Path) -> None:
    engine = draftscope.load()
    assert set(engine.heads) == {"eagle3"}
    assert (
        engine.decode("So", "eagle3", max_new_tokens=12).token_ids
        == engine.decode("So", "plain", max_new_tokens=12).token_ids
    )
    record = family.home("eagle3") / family.RECORD
    record.write_text(json.dumps(json.loads(record.read_text()) | {"target": "another"}))
    assert not draftscope.load().heads


@pytest.mark.slow
def test_embedded_models_are_found_by_name(embedded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert family.resolved("draft") == family.home("draft")
    with pytest.raises(DraftscopeError, match="'draft-tiny' is not installed"):
        family.resolved("draft-tiny")
    assert draftscope.load("target", "draft").draft is not None
    monkeypatch.chdir(embedded)
    Path("draft").mkdir()
    assert family.resolved("draft") == "draft"


# Initial weights and precision.


def test_a_deeper_draft_starts_from_the_draft_and_a_mamba_from_scratch() -> None:
    elder, more = build(SMALLER, 1), build(llama(V, layers=2, width=16, heads=2, key_value_heads=1, mlp=32), 2)
    with torch.no_grad():
        for weight in elder.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    assert students.start_as(more, elder)
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(more(ids).logits, elder(ids).logits)
    mamba = build(mamba2(V, layers=1, width=SMALLER.hidden_size, state=8), 3)
    before = {name: value.clone() for name, value in mamba.state_dict().items()}
    assert not students.start_as(mamba, elder)
    assert all(torch.equal(value, before[name]) for name, value in mamba.state_dict().items())


@pytest.mark.parametrize("faster", [torch.bfloat16, torch.float32])
def test_matmuls_run_in_the_fastest_dtype(faster: torch.dtype, monkeypatch: Any) -> None:
    monkeypatch.setattr(numerics, "fastest_dtype", lambda rows: faster)
    numerics.precision.cache_clear()
    try:
        with numerics.mixed(torch.device("cpu")):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == faster
        assert numerics.precision("cuda") == torch.bfloat16
    finally:
        numerics.precision.cache_clear()
