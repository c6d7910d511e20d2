"""The Python face: `lab = draftscope.load()`, `lab.decode(prompt)`, `lab.rounds(prompt)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import torch
import transformers

from draftscope import drafters
from draftscope.base.costs import Calibration
from draftscope.base.errors import DraftscopeError
from draftscope.base.text import Ending, Pieces
from draftscope.base.versions import own_version, revision
from draftscope.decode.acceptance import by_rank
from draftscope.decode.calibrate import calibration_of
from draftscope.decode.fork import ForkPoint
from draftscope.decode.recorder import Recorder
from draftscope.decode.run import Result, Run
from draftscope.decode.session import Session
from draftscope.drafters import DrafterInfo, TextDraftModel
from draftscope.drafters.policy.sequoia import best_tree
from draftscope.drafters.settings import Settings
from draftscope.models.counter import ForwardCounter
from draftscope.models.forward.ballast import Shape, pair_of
from draftscope.models.forward.compiled import compile_if_faster
from draftscope.models.heads import Head, Lender, kind_of, load_head
from draftscope.models.loading import embedded
from draftscope.models.loading.chat import Chat
from draftscope.models.loading.checkpoints import (
    Loading,
    Place,
    end_of_text,
    find,
    load_model,
    load_tokenizer,
    other_tokens,
    refuse_other_vocabulary,
)
from draftscope.models.loading.devices import pick_device, pick_device_map, pick_dtype
from draftscope.models.loading.threads import ROWS, cores, fastest_threads
from draftscope.models.model import Model
from draftscope.trace import events as trace
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import Counts
from draftscope.verify.uniforms import Streams

CHAT = Chat()
THROUGH_TEXT = "slem"  # who drafts in place of 'draft' where the draft model has another tokenizer


def load(
    target: str | Path | None = None,
    draft: str | Path | None = None,
    dtype: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    *,
    device_map: str | None = None,
    revision: str | None = None,
    draft_revision: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    progress: bool = False,
    ballast: str | None = None,
    heads: Sequence[str] = (),
    spare_cores: int = 0,
    graphs: bool = True,
    compiled: bool = False,
) -> Lab:
    """Loads a pair by hub id or folder; without arguments, the embedded pair and the heads that were trained for it. A
    target alone has no draft model. Embedded models also go by their names in the family ('draft-2l'). Of several
    drafts with commas between them the first is the draft model; in a cascade each drafts for the one before it. A
    draft with another tokenizer than the target's drafts through text (see `Lab.limits`).

    `device_map` spreads the target over all devices ('auto'); the draft lies where the target's inputs go. `revision`
    and `draft_revision` (of the first draft) are branches, tags or commits on the hub. `progress` shows bars while
    weights come. `ballast` names a pair of real shapes that target and drafts carry
    (`draftscope.models.forward.ballast.PAIRS`): same tokens, their costs. `heads` are drafters that read the target's
    features, each as 'kind:folder or hub id' (kinds: `draftscope.models.heads.KINDS`).

    Without `threads`, a CPU takes the number with which this target's own forward is fastest, leaving `spare_cores`. On
    CUDA the models' forwards are replayed from graphs (`draftscope.models.forward.graphs`), unless `graphs` is False.
    `compiled` compiles forwards on a CPU (`draftscope.models.forward.compiled`), which takes a minute; `Lab.compiled`
    tells what came of it.

    Raises `DraftscopeError` for a missing or damaged checkpoint, unequal vocabularies in a cascade, too little memory,
    or a device that is not there.
    """
    if threads is not None:
        if threads < 1:
            raise DraftscopeError(f"threads = {threads}: choose at least 1.")
        torch.set_num_threads(threads)
    weights = pair_of(ballast) if ballast is not None else None
    spread, where = pick_device_map(device_map, device), pick_device(device)
    how = Loading(pick_dtype(dtype, where), where, spread, trust_remote_code, allow_pickle, progress)
    if target is None:
        target, draft = embedded.home("target"), draft or embedded.home("draft")
        heads = [*embedded.heads_for(target), *heads]  # of two of a kind the later counts
    place, drafts = _places(target, draft, how, revision, draft_revision)
    tokenizer, theirs = load_tokenizer(place), [load_tokenizer(draft) for draft in drafts]
    foreign = len(theirs) == 1 and bool(other_tokens(tokenizer, theirs[0]))
    for other in [] if foreign else theirs:
        refuse_other_vocabulary(tokenizer, other)
    big = load_model(place, how)
    small = [load_model(draft, replace(how, device=big.device, device_map=None)) for draft in drafts]
    own_heads = dict(_head(spec, big) for spec in heads)
    _equip(big, small, own_heads, weights, graphs)
    own, text_draft = ([], TextDraftModel(small[0], theirs[0])) if foreign else (small, None)
    lab = Lab(big, own[0] if own else None, tokenizer, own_heads, tuple(own[1:]), foreign=text_draft)
    lab.make_ready(spare_cores if threads is None else None, compiled)
    return lab


def _places(
    target: str | Path, draft: str | Path | None, how: Loading, revision: str | None, draft_revision: str | None
) -> tuple[Place, list[Place]]:
    """Where the target and the drafts are. Everything that can be said without the weights is said here."""
    drafts = _named(draft)
    if not drafts and draft_revision is not None:
        raise DraftscopeError(f"draft_revision = '{draft_revision}', but no draft is named; name one or leave it out.")
    found = find(embedded.resolved(target), how, revision)
    return found, [find(name, how, None if i else draft_revision) for i, name in enumerate(drafts)]


def _equip(
    target: Model, drafts: list[Model], heads: dict[str, NamedHead], weights: tuple[Shape, Shape] | None, graphs: bool
) -> None:
    """What the models carry beside their own: ballast first, then graphs of the forward that they have with it."""
    if weights is not None:
        target.weigh_down(weights[0])
        for model in drafts:
            model.weigh_down(weights[1])
    if graphs and target.device.type == "cuda":
        recording: list[Model | Head] = [target, *drafts, *(head.network for head in heads.values())]
        for each in recording:
            each.record_graphs()


def _named(draft: str | Path | None) -> list[str | Path]:
    """The draft models that are named, with commas between them; a folder whose own name has a comma is one."""
    if draft is None or Path(draft).exists():
        return [] if draft is None else [embedded.resolved(draft)]
    return [embedded.resolved(name.strip()) for name in str(draft).split(",")]


def _head(spec: str, target: Model) -> tuple[str, NamedHead]:
    """'kind:source' -> the kind that drafters ask for, and the head."""
    kind, _, source = spec.partition(":")
    if not source:
        raise DraftscopeError(f"head = '{spec}': write KIND:MODEL, for example eagle3:folder-or-hub-id.")
    network = load_head(kind, source, Lender.of(target.network))
    return kind_of(network), NamedHead(network, Path(source).name)


@dataclass(frozen=True)
class NamedHead:
    """A head that reads the target's features, and what screens call it."""

    network: Head
    name: str


@dataclass(frozen=True)
class Availability:
    """A drafter as this lab can offer it."""

    name: str
    title: str
    exact: bool
    available: bool
    why_not: str
    paper: str
    uses: tuple[str, ...]


class Lab:
    """A target, perhaps a draft model, and their tokenizer, ready to decode.

    `smaller` draft for the draft model in a cascade. `foreign` is a draft model with another tokenizer instead.
    """

    def __init__(
        self,
        target: Model,
        draft: Model | None,
        tokenizer: Any,
        heads: Mapping[str, NamedHead] | None = None,
        smaller: tuple[Model, ...] = (),
        foreign: TextDraftModel | None = None,
    ) -> None:
        self.target = target
        self.heads = dict(heads or {})  # by kind
        self.draft = draft
        self.smaller = smaller
        self.foreign = foreign
        self.tokenizer = tokenizer
        self.pieces = Pieces(tokenizer)
        self.eos = end_of_text(target, tokenizer)
        self.compiled: list[str] = []  # what came of compiling, where that was asked for: a sentence for each model
        self._rates: dict[tuple[str, Sampling], tuple[float, ...]] = {}  # acceptance by rank of a drafter's children
        self._trees: dict[tuple[str, Sampling, int, int], Counts] = {}

    @property
    def models(self) -> list[Model]:
        """Every model that reads the target's tokens, the target first."""
        return [self.target, *([self.draft] if self.draft is not None else []), *self.smaller]

    @property
    def text_draft(self) -> TextDraftModel | None:
        """The draft model for who drafts through text, with its tokenizer: its own, or the target's."""
        return self.foreign or (TextDraftModel(self.draft, self.tokenizer) if self.draft is not None else None)

    @property
    def batches(self) -> bool:
        """Whether unequal texts can be decoded together: a model that makes its own masks takes one at a time."""
        every = [*self.models, *([self.foreign.model] if self.foreign is not None else [])]
        return all(model.trees for model in every)

    @property
    def limits(self) -> list[str]:
        """What these models cannot do here, a sentence each."""
        found = [model.limits for model in self.models if model.limits]
        if self.foreign is not None:
            differing = other_tokens(self.tokenizer, self.foreign.tokenizer)
            found.append(
                f"'{self.foreign.model.name}' has another tokenizer than '{self.target.name}' ({len(differing):,} "
                f"tokens differ, '{differing[0]}' for one), so it drafts through text ('{THROUGH_TEXT}', or 'tli'). "
                "The output's law is exactly the target's; the draft's own over the target's tokens is not known: "
                f"'{THROUGH_TEXT}' shows a point mass, 'tli' its law over the tokens that both have."
            )
        return found

    def decode(self, prompt: str, drafter: str = "draft", record: bool = True, **settings: Any) -> Result:
        """Decodes `prompt` to its end. `settings` are the fields of `Settings` (temperature, gamma, seed, ...)."""
        run = self.session(prompt, Settings.of(drafter=drafter, **settings), record=record)
        events = tuple(run.events())
        return Result(run.text, run.token_ids, events)

    def rounds(self, prompt: str, drafter: str = "draft", **settings: Any) -> Iterator[trace.Round]:
        """Streams the rounds as they are decoded; closing the iterator stops decoding."""
        run = self.session(prompt, Settings.of(drafter=drafter, **settings))
        for event in run.events():
            if isinstance(event, trace.Round):
                yield event

    def session(
        self,
        prompt: str,
        settings: Settings,
        run: str = "run",
        lane: str = "run",
        record: bool = True,
        fork_point: ForkPoint | None = None,
    ) -> Run:
        """A run that has not begun. Everything that can be wrong with prompt and settings is said here.

        With a `fork point` it goes on behind the prompt and exactly those tokens, as a fork of another lane.
        """
        settings = self._spoken(settings)
        info = drafters.find(settings.drafter)
        if info.needs_draft and self.foreign is not None:
            raise DraftscopeError(
                f"The drafter '{info.name}' needs a draft with the target's tokenizer, and "
                f"'{self.foreign.model.name}' has another; choose '{THROUGH_TEXT}' or 'tli'."
            )
        if (info.needs_draft or info.needs_text_draft) and self.text_draft is None:
            raise DraftscopeError(
                f"The drafter '{info.name}' needs a draft model; name one with --draft, or choose 'ngram'."
            )
        if info.needs_head and info.needs_head not in self.heads:
            raise DraftscopeError(
                f"The drafter '{info.name}' needs a head of the kind '{info.needs_head}', trained for "
                f"'{self.target.name}'; name one as --drafter {info.name}:MODEL, or choose 'ngram'."
            )
        if unfit := info.unfit(self.target):
            raise DraftscopeError(
                f"'{info.name}' cannot draft for '{self.target.name}': {unfit}; choose 'draft' or 'ngram'."
            )
        if (limited := self._cannot_branch(info)) is not None:
            raise DraftscopeError(f"{limited.limits} Instead of '{info.name}' choose 'draft' or 'ngram'.")
        given = [] if fork_point is None else fork_point.given(self)
        rendered, tokens = self._read(prompt, len(given) + settings.max_new_tokens, Chat.of(settings))
        session = self.session_of([tokens + given], settings, (0,))
        session.transcripts[0].follow(given)
        recorder = Recorder(run, lane, 0, 0, info.rule_of(settings).name, self.pieces) if record else None
        start = self._run_start(info, prompt, rendered, tokens + given, settings, run, lane)
        if fork_point is not None:
            start = start.model_copy(update={"fork": fork_point.told(self.pieces)})
        return Run(session, start, recorder)

    def session_of(
        self,
        prompts: list[list[int]],
        settings: Settings,
        sequences: tuple[int, ...],
        ends: bool = True,
        counts: Counts | None = None,
    ) -> Session:
        """A bare session of several tokenised prompts; row b draws from stream `sequences[b]`. `ends` heeds EOS.

        `counts` is the tree of a drafter that would otherwise choose one by what was measured.
        """
        settings = self._spoken(settings)
        return self._session(self.target, prompts, settings, Streams(settings.seed, sequences), ends, counts)

    def _spoken(self, settings: Settings) -> Settings:
        """The settings, but that a draft model with another tokenizer drafts through text."""
        through_text = settings.drafter == "draft" and self.foreign is not None
        return settings.model_copy(update={"drafter": THROUGH_TEXT}) if through_text else settings

    def _session(
        self,
        target: Model,
        prompts: list[list[int]],
        settings: Settings,
        streams: Streams,
        ends: bool,
        counts: Counts | None = None,
    ) -> Session:
        info = drafters.find(settings.drafter)
        nodes = info.nodes(settings)
        context = sum(map(len, prompts)) // len(prompts) + settings.max_new_tokens // 2  # about, on the way
        ending = Ending(self.eos if ends else frozenset(), settings.stop, settings.max_new_tokens)
        parts = drafters.Parts(
            settings=settings,
            sampling=Sampling.of(settings),
            batch=len(prompts),
            capacity=max(len(prompt) for prompt in prompts) + settings.max_new_tokens + nodes + 1,
            device=self.target.device,
            tokenizer=self.tokenizer,
            vocabulary=self.target.vocabulary,
            target=target,
            draft=self.draft,
            smaller=self.smaller,
            text_draft=self.text_draft,
            heads={kind: head.network for kind, head in self.heads.items()},
            streams=streams,
            target_continuation=lambda uniforms: self._target_continuation(prompts, settings, uniforms, ends),
            cost=lambda gamma, batch: self.calibration.round_cost(info.name, gamma, batch, context),
            counts=lambda: self._best_tree(info, settings) if counts is None else counts,
        )
        drafter, rule = info.create(parts), info.rule_of(settings)
        return Session(target, drafter, prompts, settings, rule, self.pieces, ending, nodes, streams)

    def _best_tree(self, info: DrafterInfo, settings: Settings) -> Counts:
        """Sequoia's tree for this drafter, pair and machine, of what these settings allow."""
        who = info.name, Sampling.of(settings)
        if who not in self._rates:
            self._rates[who] = by_rank(self._uncounted(), settings)
        allowed = *who, settings.tree_nodes, settings.tree_depth
        if allowed not in self._trees:
            cost = partial(self.calibration.tree_cost, info.needs_head or "draft")
            self._trees[allowed] = best_tree(self._rates[who], settings.tree_nodes, settings.tree_depth, cost)
        return self._trees[allowed]

    def _target_continuation(
        self, prompts: list[list[int]], settings: Settings, uniforms: Streams, ends: bool
    ) -> list[list[int]]:
        """What the target alone writes after each prompt, with the given uniforms; its forwards are counted nowhere."""
        quiet = self._uncounted()
        alone = quiet._session(quiet.target, prompts, settings.model_copy(update={"drafter": "plain"}), uniforms, ends)
        for _ in alone.steps():
            pass
        return [list(transcript.tokens) for transcript in alone.transcripts]

    def _uncounted(self) -> Lab:
        """This lab, but that nobody counts its target's forwards."""
        quiet = copy(self)
        quiet.target = copy(self.target)
        quiet.target.counter = ForwardCounter()
        return quiet

    def encode(self, prompt: str, max_new_tokens: int = 1, chat: Chat = CHAT) -> list[int]:
        """The prompt's tokens, special ones included, by default in the model's chat template if it has one.

        Raises `DraftscopeError` for an empty prompt, or one that with its answer goes beyond the context.
        """
        return self._read(prompt, max_new_tokens, chat)[1]

    def _read(self, prompt: str, max_new_tokens: int, chat: Chat) -> tuple[str, list[int]]:
        """What the models read: the prompt in its chat template (empty where it has none), and its tokens."""
        if not prompt.strip():
            raise DraftscopeError("The prompt is empty; write at least a word to continue from.")
        room = min(model.context for model in self.models)
        if len(prompt) > 64 * room:
            raise DraftscopeError(
                f"The prompt has {len(prompt):,} characters and the models read {room:,} tokens; shorten it."
            )
        rendered = chat.render(self.tokenizer, prompt)
        text, special = (prompt, True) if rendered is None else (rendered, False)  # a template brings its own BOS
        tokens: list[int] = self.tokenizer(text, add_special_tokens=special)["input_ids"]
        self._refuse_length(len(tokens), max_new_tokens, room)
        return rendered or "", tokens

    def _refuse_length(self, tokens: int, more: int, room: int) -> None:
        """One sentence for a prompt that with its answer does not fit the models."""
        if tokens + more > room:
            most = room - tokens
            remedy = f"ask for at most {most} new tokens or shorten it" if most > 0 else "shorten it"
            raise DraftscopeError(
                f"The prompt has {tokens:,} tokens and {more:,} more were asked for, "
                f"but the models' context holds {room:,}; {remedy}."
            )
        for model in self.models:
            if model.seam and tokens - 1 <= model.seam < tokens + more:
                raise DraftscopeError(
                    f"'{model.name}' changes its rotary factors at {model.seam:,} tokens, and {tokens:,} with "
                    f"{more:,} more would cross that; stay below it or start with a longer prompt."
                )

    @cached_property
    def calibration(self) -> Calibration:
        """What rounds cost this pair on this machine; measured where it is not known yet, which takes seconds."""
        return calibration_of(self)

    def drafters(self) -> list[Availability]:
        """Every known drafter, and whether this lab can run it."""
        return [
            Availability(
                name=info.name,
                title=info.title,
                exact=info.exact,
                available=not self._why_not(info),
                why_not=self._why_not(info),
                paper=info.paper,
                uses=info.uses,
            )
            for info in drafters.known().values()
        ]

    def _why_not(self, info: DrafterInfo) -> str:
        """Why this lab cannot run a drafter; empty where it can."""
        if (info.needs_draft or info.needs_text_draft) and self.text_draft is None:
            return "no draft model is loaded"
        if info.needs_draft and self.draft is None:
            return "the draft has another tokenizer"
        if info.needs_head and info.needs_head not in self.heads:
            return f"no {info.needs_head} head is loaded"
        if unfit := info.unfit(self.target):
            return unfit
        limited = self._cannot_branch(info)
        return f"'{limited.name}' takes no trees" if limited else ""

    def _cannot_branch(self, info: DrafterInfo) -> Model | None:
        """The model that takes chains only, where the drafter would grow trees."""
        own = (self.target, self.draft if info.needs_draft else None)
        models = [model for model in own if model is not None and not model.trees]
        return models[0] if models and info.grows_trees else None

    def make_ready(self, spare_cores: int | None, compiled: bool) -> None:
        """Threads by measurement on a CPU, unless `spare_cores` is None; forwards compiled; every drafter run once."""
        if spare_cores is not None and self.target.device.type == "cpu":
            self.choose_threads(max(1, cores() - spare_cores))
        if compiled:
            self.compiled = [compile_if_faster(model) for model in self.models]
        self.warm_up()

    def choose_threads(self, most: int) -> int:
        """The number of threads, at most `most`, with which the target's verify forward is fastest; torch gets it."""
        cache = self.target.cache(1, 2 * ROWS)
        tokens = torch.ones((1, ROWS), dtype=torch.long)
        offsets, nothing = torch.arange(ROWS)[None], torch.zeros(1, dtype=torch.long)

        def forward() -> None:
            cache.truncate(nothing, 0)
            self.target.forward(cache, tokens, offsets)

        return fastest_threads(forward, most)

    def warm_up(self) -> None:
        """A few rounds of everything that later runs measure, so that no first run pays for the libraries' set-up."""
        for name in ("plain", "draft") if self.draft is not None else ("plain",):
            self.decode("a b", drafter=name, max_new_tokens=8, raw=True, record=False)

    def _run_start(
        self,
        info: DrafterInfo,
        prompt: str,
        rendered: str,
        tokens: list[int],
        settings: Settings,
        run: str,
        lane: str,
    ) -> trace.RunStart:
        return trace.RunStart(
            run=run,
            lane=lane,
            draftscope=own_version(),
            torch=torch.__version__,
            transformers=transformers.__version__,
            device=self._device_name(),
            dtype=str(self.target.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            revision=revision(),
            models=self.models_of(info),
            drafter=info.name,
            exact=info.exact_with(settings),
            synthetic=info.synthetic,
            rule=info.rule_of(settings).name,
            seed=settings.seed,
            settings=settings.model_dump(mode="json"),
            prompt=prompt,
            rendered=rendered,
            prompt_tokens=len(tokens),
            prompt_last_raw=self.pieces.shown(tokens[-1]),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def models_of(self, info: DrafterInfo) -> list[trace.ModelInfo]:
        """Who takes part in a run of that drafter."""
        used = [_model_info("target", self.target)]
        if info.needs_draft and self.draft is not None:
            used.append(_model_info("draft", self.draft))
        if info.needs_text_draft and self.text_draft is not None:
            used.append(_model_info("draft", self.text_draft.model))
        if "inner" in info.uses:
            used += [_model_info("draft", model) for model in self.smaller]
        return used + ([_head_info(self.heads[info.needs_head])] if info.needs_head else [])

    def _device_name(self) -> str:
        device = self.target.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _model_info(role: Literal["target", "draft"], model: Model) -> trace.ModelInfo:
    return trace.ModelInfo(
        role=role,
        name=model.name,
        parameters=model.parameters,
        layers=model.layers,
        hidden=model.hidden,
        hash=model.digest,
        ballast=model.ballast.shape.name if model.ballast else "",
        graphs=model.graph_state,
        compiled=model.way == "compiled",
    )


def _head_info(head: NamedHead) -> trace.ModelInfo:
    """A head's own weights: what it borrows from the target is counted there."""
    own = list(head.network.parameters())
    return trace.ModelInfo(
        role="head",
        name=head.name,
        parameters=sum(weight.numel() for weight in own),
        layers=head.network.depth,
        hidden=head.network.lender.hidden,
        graphs="" if head.network.graphs is None else head.network.graphs.state,
    )
