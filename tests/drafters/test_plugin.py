"""Drafters from elsewhere: the example in engine/README.md; wrong ones, which `check` or the guard must find; broken
ones, which must end nothing else."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import draftscope
from draftscope import (
    DrafterInfo,
    DraftscopeError,
    DraftTree,
    GammaOptions,
    deterministic_chains,
    sampled_chain,
    sampled_tree,
)
from draftscope.base import costs
from draftscope.base.costs import PLAIN
from draftscope.base.errors import PluginWarning
from draftscope.base.steps import last
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import adopt, find, known, problems, registry
from draftscope.drafters.options import DrafterOptions
from draftscope.measure import check as checks
from draftscope.measure.check import check, checked
from draftscope.measure.findings import Finding
from draftscope.measure.greedy_checks import PROMPTS
from draftscope.verify.sampling import Sampling
from draftscope.verify.uniforms import Streams
from draftscope.verify.verify import verify_tree
from draftscope_app.cli.main import main
from tests.support.models import made_calibration

README = Path(__file__).resolve().parents[2] / "engine" / "README.md"
DRAFTERS = README.parent / "draftscope" / "drafters" / "README.md"
REPEATS = "abcabcabcabcabcabc"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is remembered lies in an empty folder."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checks, "fresh_seed", lambda seed: seed)  # the same findings in every run of a test


def readme_code(file: Path = README, title: str = "## Add a drafter") -> str:
    section = file.read_text(encoding="utf-8").split(title)[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None
    return code[1]


@pytest.fixture(scope="module")
def example() -> type[draftscope.Drafter]:
    """The class that the README's first block defines."""
    assert len([line for line in readme_code().splitlines() if line.strip()]) <= 20
    names: dict[str, Any] = {}
    exec(readme_code(), names)
    made: type[draftscope.Drafter] = names["Bigram"]
    return made


class Follow(draftscope.Drafter):
    """What followed a token most often in this text, without chance."""

    def __init__(self, parts: draftscope.Parts[GammaOptions]) -> None:
        self.gamma, self.device, self.vocabulary = parts.options.gamma, parts.device, parts.vocabulary

    def propose(self, state: draftscope.State, depth: int) -> DraftTree:
        drafts = [self.follow(text, min(self.gamma, depth)) for text in state.texts]
        return deterministic_chains(drafts, ["follow"] * len(drafts), self.device)

    def follow(self, text: Any, count: int) -> list[int]:
        after: dict[int, tuple[int, int]] = {}
        for (first, second), times in Counter(pairwise(text)).items():
            after[first] = max(after.get(first, (0, 0)), (times, second))
        draft, token = [], text[-1]
        while len(draft) < count and token in after:
            token = after[token][1]
            draft.append(token)
        return draft


INFO = DrafterInfo(name="follow", title="Bigrams of the text", paper="", create=Follow, options=GammaOptions)


class Entry:
    """What an installed package's entry point looks like."""

    def __init__(self, info: Any, name: str = "", value: str = "my_package:INFO") -> None:
        self._info, self.name, self.value = info, name or info.name, value

    def load(self) -> Any:
        if isinstance(self._info, Exception):
            raise self._info
        return self._info


def plugged_in(monkeypatch: pytest.MonkeyPatch, *infos: Any) -> None:
    entries = tuple(info if isinstance(info, Entry) else Entry(info) for info in infos)
    monkeypatch.setattr(registry, "installed", lambda: entries)


def findings(engine: DecodingEngine, name: str, samples: int = 1500) -> dict[str, Finding]:
    return {finding.name: finding for finding in check(engine, name, samples=samples, prompts=PROMPTS[:2])}


# As it is given.


def test_the_readmes_drafter_passes_every_check_and_is_checked_from_then_on(
    pair: DecodingEngine, example: type[draftscope.Drafter]
) -> None:
    run = pair.decode(REPEATS, example, max_new_tokens=40, temperature=1.0, seed=2)
    assert run.metrics.num_accepted_tokens > 0 and run.start.drafter == "bigram"
    assert run.round_events[0].nodes[0].q is not None
    assert run.start.unchecked and "unchecked" in repr(run)
    greedy = pair.decode(REPEATS, example, max_new_tokens=40)
    assert greedy.token_ids == pair.decode(REPEATS, "plain", max_new_tokens=40).token_ids
    assert next(each for each in pair.drafters() if each.name == "bigram").unchecked
    assert all(finding.passed for finding in findings(pair, "bigram", 500).values())
    assert not pair.decode("ab", example, max_new_tokens=2).start.unchecked
    assert not next(each for each in pair.drafters() if each.name == "bigram").unchecked


@pytest.mark.parametrize("sampling", [{"top_k": 1}, {"top_p": 0.7}, {"temperature": 0.5, "min_p": 0.1}])
def test_a_drawn_chain_is_truncated_as_the_target_is(
    tiny: DecodingEngine, example: type[draftscope.Drafter], sampling: dict[str, Any]
) -> None:
    """q has no mass where temperature, top-k, top-p or min-p leave none, and every drafted token has some."""
    run = tiny.decode("abcab", example, max_new_tokens=30, **{"temperature": 1.0} | sampling)
    nodes = [node for event in run.round_events for node in event.nodes]
    assert nodes and all(node.q for node in nodes)
    if "top_k" in sampling:  # of equal logits the first k and all that equal the k-th stay, as in transformers
        assert run.token_ids == tiny.decode("abcab", "plain", max_new_tokens=30).token_ids
        assert {round(1 / node.q, 4) for node in nodes} <= {1, 2, 3, 4, 5}


@pytest.mark.parametrize("q", [[0.1, 0.2, 0.7], [0.0, 0.4, 0.6], [0.0, 1.0, 0.0]])
def test_a_drawn_tree_of_one_call_follows_the_target(q: list[float]) -> None:
    """Three children of the root, drawn without replacement, or as many as q has tokens, and one below the last: the
    first token is then distributed as p."""
    p, sampling, runs = torch.tensor([0.5, 0.3, 0.2]), Sampling(), 6000
    drawn_from = torch.tensor(q).expand(runs, 3)
    uniforms = Streams(5, tuple(range(runs))).uniforms(0, 4)
    siblings = sampling.draw_distinct(drawn_from, uniforms.draft[:, :3])
    below = sampling.draw(drawn_from, uniforms.draft[:, 3])
    tree = sampled_tree(
        [-1, -1, -1, 2], torch.cat([siblings, below[:, None]], 1), drawn_from[:, None].expand(-1, 4, -1), sampling
    )
    kept = torch.tensor(q).count_nonzero().item()
    assert (tree.never_accepted == torch.tensor([kept < 1, kept < 2, kept < 3, kept < 3])).all()
    found = verify_tree(p.expand(runs, 5, 3), tree, uniforms)
    first = torch.where(found.path[:, 0] >= 0, tree.tokens.gather(1, found.path[:, :1].clamp(min=0))[:, 0], found.last)
    counts = torch.bincount(first, minlength=3)
    assert ((counts - runs * p) ** 2 / (runs * p)).sum() < 27.6  # chi-square of 2 degrees, p = 1e-6


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.3}])
def test_the_documents_tree_drafts_whatever_the_sampling(pair: DecodingEngine, sampling: dict[str, Any]) -> None:
    names: dict[str, Any] = {}
    exec(readme_code(DRAFTERS, "## A drawn tree"), names)
    run = pair.decode("abcabcab", names["Siblings"], max_new_tokens=20, gamma=3, **sampling)
    drafted = [[node.token for node in event.nodes] for event in run.round_events]
    assert {len(set(tokens)) for tokens in drafted if "top_p" not in sampling} <= {3}
    assert all(len(tokens) == 3 for tokens in drafted)
    if not sampling:  # the three that the text has most of
        assert set(drafted[0]) == set(pair.encode("abc")[-3:])
        assert run.token_ids == pair.decode("abcabcab", "plain", max_new_tokens=20).token_ids


def test_what_makes_no_tree_is_said_where_it_is_made() -> None:
    q, token, greedy = torch.tensor([[0.5, 0.5]]), torch.tensor([1]), Sampling(0)
    for act, sentence in (
        (lambda: sampled_chain([1], [q], greedy), r"tokens\[0\] has 1; give a tensor \[B\]"),
        (
            lambda: sampled_chain([token], [q[0]], greedy),
            r"distributions\[0\] has the shape \[2\]; give a tensor",
        ),
        (lambda: sampled_chain([token], [], greedy), "1 tokens and 0 distributions"),
        (
            lambda: sampled_tree([-1, 0], token[:, None], q[:, None], greedy),
            "parents has 0, and distributions only 1",
        ),
        (
            lambda: sampled_tree([0], token[:, None], q[:, None], greedy),
            r"parents \[0\]: each must be -1 or",
        ),
        (lambda: deterministic_chains([1], ["x"], "cpu"), r"drafts = \[1\], .*give a list of token ids and a text"),
        (lambda: deterministic_chains([[1]], [], "cpu"), r"drafts = \[\[1\]\], origin = \[\]; give a list"),
    ):  # type: tuple[Any, str]
        with pytest.raises(ValueError, match=sentence):
            act()


def test_a_file_is_given_by_its_name(pair: DecodingEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(readme_code(), encoding="utf-8")
    assert pair.decode(REPEATS, f"{file}:Bigram", max_new_tokens=4).start.drafter == "bigram"
    for text, sentence in (
        (f"{file}:Other", "defines no 'Other'"),
        (f"{tmp_path}/gone.py:Bigram", "is not there; check the path"),
        (f"{file}:pairwise", "give a name, a DrafterInfo, a subclass of draftscope.Drafter"),
    ):
        with pytest.raises(DraftscopeError, match=sentence):
            adopt(text)
    with pytest.raises(DraftscopeError, match=f"name the drafter in that file too, as '{file}:NAME'"):
        adopt(str(file))
    file.write_text("import sys; sys.exit(0)", encoding="utf-8")
    assert main(["decode", "ab", "--drafter", f"{file}:Bigram"]) == 2
    file.write_text("1 / 0", encoding="utf-8")
    assert main(["decode", "ab", "--drafter", f"{file}:Bigram"]) == 2
    assert "does not run (ZeroDivisionError: division by zero); mend it." in capsys.readouterr().err


def test_the_command_line_knows_a_files_drafter_and_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its option is refused by its range, which no command knows before the file is read."""
    options = (
        "class Seen(draftscope.GammaOptions):\n    seen_least: int = Field(default=1, le=9, description='x')\n"
        "Bigram.options = Seen\n"
    )
    code = f"import draftscope\nfrom pydantic import Field\n{readme_code()}\n{options}"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "draftscope_app.cli.commands.decode", raising=False)  # as in a fresh process
    assert main(["decode", "ab", f"--drafter={tmp_path / 'mine.py'}:Bigram", "--seen-least", "10"]) == 2
    assert "seen_least = 10: should be less than or equal to 9." in capsys.readouterr().err


def test_a_visitors_text_never_runs_a_file(pair: DecodingEngine, tmp_path: Path) -> None:
    """Only Python and the command line read files: what the page and the API take is the name of a drafter."""
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    settings = draftscope.Settings.of(drafter=f"{file}:Bigram")
    for ask in (lambda: pair.start("ab", settings), lambda: list(checked(pair, settings))):
        with pytest.raises(DraftscopeError, match="There is no drafter"):
            ask()
    assert not (tmp_path / "ran").exists()


def test_what_is_no_drafter_is_one_sentence() -> None:
    class Unfinished(draftscope.Drafter):
        pass

    for made, sentence in (
        (Unfinished, "The drafter 'Unfinished' of this program lacks propose"),
        (3, "drafter = 3: give a name, a DrafterInfo"),
        (replace(INFO, name="ngram"), "The drafter 'ngram' of this program has the name of a built-in one"),
    ):
        with pytest.raises(DraftscopeError, match=sentence):
            adopt(made)  # type: ignore[arg-type]
    assert adopt(find("ngram")) == "ngram"


def test_a_drafter_that_is_given_again_replaces_the_earlier_one() -> None:
    class One(DrafterOptions):
        again: int = 1

    class Two(DrafterOptions):
        again: str = ""

    assert adopt(replace(INFO, options=One)) == adopt(replace(INFO, options=Two)) == "follow"
    assert find("follow").options is Two and find("follow").source == "this program"


# What breaks ends nothing else.


def test_plugins_that_cannot_be_used_are_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, pair: DecodingEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Entry(ImportError("no module named 'gone'"), "broken")
    plugged_in(monkeypatch, broken, replace(INFO, name="suffix"), Entry(3, "three"), INFO)
    with pytest.warns(PluginWarning) as warned:
        assert pair.decode("ab", "plain", max_new_tokens=2).token_ids
    said = " ".join(str(each.message) for each in warned)
    assert "'broken' from my_package:INFO does not load (no module named 'gone')" in said
    assert "'suffix' of my_package has the name of a built-in one" in said and "'three'" in said
    assert {"broken", "suffix", "three"} == problems().keys() and "follow" in known()
    with pytest.raises(DraftscopeError, match="'broken' from my_package:INFO does not load"):
        pair.decode("ab", "broken", max_new_tokens=2)
    plugged_in(monkeypatch, Entry(ImportError("gone"), "broken"))  # another process
    assert main(["decode", "ab", "--gamma", "0"]) == 2
    left_out, refused = capsys.readouterr().err.splitlines()
    assert left_out.startswith("draftscope: The drafter 'broken' from my_package:INFO does not load (gone); mend or")
    assert refused == "draftscope: gamma = 0: should be greater than or equal to 1."


def test_a_plugin_that_raises_ends_no_calibration_and_spoils_none(
    monkeypatch: pytest.MonkeyPatch, tiny: DecodingEngine
) -> None:
    class Raises(Follow):
        def propose(self, state: draftscope.State, depth: int) -> DraftTree:
            raise IndexError("somewhere")

    drafting = dict.fromkeys([PLAIN, *calibration.drafting_of(tiny)], made_calibration().drafting["draft"])
    measured = made_calibration(measured_for=calibration.measured_for(tiny), drafting=drafting)
    costs.save(measured)
    plugged_in(monkeypatch, replace(INFO, create=Raises))
    assert last(calibration.calibration_of(tiny)) == measured == costs.load_saved(calibration.measured_for(tiny))


# What a drafter returns.


def wrong(**changes: Any) -> Any:
    """A drafter whose tree has other values in some fields: each a function of the right tree."""

    class Wrong(Follow):
        def propose(self, state: draftscope.State, depth: int) -> DraftTree:
            q = torch.full((len(state.texts), self.vocabulary), 1 / self.vocabulary)
            tokens = [torch.zeros(len(state.texts), dtype=torch.long)] * 2
            tree = sampled_chain(tokens, [q, q], Sampling(), "wrong")
            return replace(tree, **{name: change(tree) for name, change in changes.items()})

    return replace(INFO, create=Wrong)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tokens": lambda tree: tree.tokens + 99}, "tokens holds 99, and the target knows 0 to 4"),
        ({"tokens": lambda tree: tree.tokens - 1}, "tokens holds -1"),
        ({"tokens": lambda tree: tree.tokens[:, :1]}, r"tokens has the shape \[1, 1\] instead of \[1, 2\]"),
        ({"tokens": lambda tree: tree.tokens.float()}, "tokens is of torch.float32 instead of torch.int64"),
        ({"tokens": lambda tree: None}, "tokens has None instead of"),
        ({"distributions": lambda tree: 3 * tree.distributions}, "distributions has a row that sums to 3 instead of 1"),
        (
            {"distributions": lambda tree: tree.distributions[..., :3]},
            r"the shape \[1, 2, 3\] instead of \[1, rows, 5\]",
        ),
        ({"distributions": lambda tree: tree.distributions * torch.nan}, "sums to nan instead of 1"),
        ({"distributions": lambda tree: tree.distributions + signs(tree)}, "holds a negative probability"),
        ({"distributions": lambda tree: never(tree)}, "a drawn token has probability 0 in its distribution"),
        ({"proposal_row": lambda tree: tree.proposal_row + 9}, "proposal_row holds 10, and distributions has 2 rows"),
        ({"shown_row": lambda tree: tree.shown_row[:, 1:]}, r"shown_row has the shape \[1, 2\] instead of \[1, 3\]"),
        ({"never_accepted": lambda tree: tree.tokens}, "never_accepted is of torch.int64"),
        ({"drawn": lambda tree: "none"}, "drawn is 'none', but proposal_row says 'all'"),
        ({"origin": lambda tree: ((),)}, r"origin has \(\) instead of 2 texts"),
        ({"origin": lambda tree: ((1, 2),)}, r"origin has \(1, 2\) instead of 2 texts"),
        ({"origin": lambda tree: None}, "origin is None instead of a sequence of texts"),
        ({"topology": lambda tree: None}, "topology is None, not a Topology"),
        ({"forward_ms": lambda tree: None}, "forward_ms is None instead of a tuple of milliseconds"),
        ({"distributions": lambda tree: [1]}, r"distributions is \[1\] instead of torch.float32"),
        ({"distributions": lambda tree: tree.distributions.half()}, "distributions is torch.float16 instead of"),
    ],
)
def test_a_wrong_tree_is_one_sentence_with_drafter_round_and_field(
    tiny: DecodingEngine, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DraftscopeError, match=f"'follow' proposed a wrong tree in round 0: .*{sentence}"):
        tiny.decode("abcab", wrong(**changes), max_new_tokens=8, temperature=1.0)


def failing(*_: Any) -> Any:
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layers": (99,)}, r"has layers = \(99,\); give a tuple of some of 0 to"),
        ({"layers": 3}, "has layers = 3; give a tuple"),
        ({"annotations": lambda self, row: None}, "failed in annotations, round 0: TypeError"),
        ({"annotations": lambda self, row: ["x"]}, "annotates round 0 with x, which is no event"),
        (
            {"propose": lambda self, state, depth: sys.exit()},
            "failed in propose, round 0: SystemExit at test_plugin.py",
        ),
        (
            {"propose": lambda self, state, depth: sampled_chain([1], [1], Sampling())},  # type: ignore[list-item]
            r"failed in propose, round 0: ValueError at test_plugin.py, .*: tokens\[0\] has 1; give a tensor \[B\]",
        ),
    ],
)
def test_a_wrong_class_is_one_sentence(tiny: DecodingEngine, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DraftscopeError, match=f"'follow' {sentence}"):
        tiny.decode("abcab", replace(INFO, create=type("Wrong", (Follow,), changes)), max_new_tokens=8)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": 5}, "The drafter 5 of this program has name = 5; give it one of letters, digits and '-'"),
        ({"name": "a,b:c"}, "has name = 'a,b:c'"),
        ({"title": None}, "has title = None; write a text"),
        ({"options": None}, "has options = None; name a class, such as draftscope.GammaOptions"),
        ({"options": GammaOptions()}, "has options = GammaOptions"),
        ({"head": "eagle3"}, "has head = 'eagle3'; give a HeadKind"),
    ],
)
def test_a_wrong_entry_is_one_sentence_and_ends_no_list(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DraftscopeError, match=sentence):
        adopt(replace(INFO, **changes))
    plugged_in(monkeypatch, Entry(replace(INFO, **changes), name="entry"))
    with pytest.warns(PluginWarning, match="'entry' from my_package:INFO does not load"):
        assert len(tiny.drafters()) == len(known()) and "entry" in problems()
    assert tiny.decode("abcab", "ngram", max_new_tokens=2).text
    with pytest.raises(DraftscopeError, match=r"There is no drafter 'ngrm'; did you mean 'ngram'\?"):
        find("ngrm")


def test_functions_of_an_entry_that_fail_end_no_list(tiny: DecodingEngine) -> None:
    """A drafter is listed with what failed; where it is asked for, that is a sentence."""
    adopt(replace(INFO, unfit=failing))
    (listed,) = (each for each in tiny.drafters() if each.name == "follow")
    assert not listed.available and listed.why_not == "its 'unfit' fails (ZeroDivisionError: mine)"
    adopt(replace(INFO, nodes=failing))
    with pytest.raises(DraftscopeError, match="'follow' failed when it counts its nodes: ZeroDivisionError at test_pl"):
        tiny.decode("abcab", "follow", max_new_tokens=2)


def signs(tree: DraftTree) -> Tensor:
    return torch.tensor([-0.5, 0.5, 0.0, 0.0, 0.0])


def never(tree: DraftTree) -> Tensor:
    return torch.tensor([0.0, 0.25, 0.25, 0.25, 0.25]).expand(1, 2, 5)


def test_what_is_no_tree_or_too_large_or_raises_is_one_sentence(tiny: DecodingEngine) -> None:
    def proposing(act: Any) -> DrafterInfo:
        return replace(INFO, create=type("Acting", (Follow,), {"propose": lambda self, state, depth: act(state)}))

    def fails_late(state: draftscope.State) -> DraftTree:
        return deterministic_chains([[1, 2][: state.round // 0 if state.round == 2 else 1]], [""], "cpu")

    for act, sentence in (
        (lambda _: None, "proposed a wrong tree in round 0: it is None, not the DraftTree that sampled_chain"),
        (lambda _: deterministic_chains([[1] * 9], [""], "cpu"), "it has 9 nodes, and its options declare at most 4"),
        (fails_late, "failed in propose, round 2: ZeroDivisionError at test_plugin.py, line "),
    ):
        with pytest.raises(DraftscopeError, match=sentence):
            tiny.decode("abcab", proposing(act), max_new_tokens=20)
    with pytest.raises(DraftscopeError, match=r"makes None; its `create` must return a draftscope\.Drafter"):
        tiny.decode("abcab", replace(INFO, create=lambda parts: None), max_new_tokens=4)


def test_a_drafter_that_remembers_another_run_is_found(tiny: DecodingEngine) -> None:
    """It drafts from the texts of all runs, so its uniforms meet other nodes the second time."""
    seen: list[list[int]] = []

    class Leaky(Follow):
        def follow(self, text: list[int], count: int) -> list[int]:
            seen.append(list(text))
            return [token % 5 for token in range(len(seen), len(seen) + count)]

    found = findings(tiny, adopt(replace(INFO, create=Leaky)))
    assert not found["begun again"].passed


def test_a_drafter_that_claims_distributions_it_did_not_draw_from_is_found(tiny: DecodingEngine) -> None:
    class Liar(Follow):
        def propose(self, state: draftscope.State, depth: int) -> DraftTree:
            tree = super().propose(state, depth)
            if tree.nodes == 0:
                return tree
            q = torch.full((len(tree.tokens), 5), 1 / 5)
            made = sampled_chain(list(tree.tokens.unbind(1)), [q] * tree.nodes, Sampling())
            return replace(made, never_accepted=tree.never_accepted)

    name = adopt(replace(INFO, create=Liar))
    found = findings(tiny, name)
    assert not found["joint distribution (block)"].passed
    assert tiny.decode("ab", name, max_new_tokens=2).start.unchecked
