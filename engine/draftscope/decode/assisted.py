"""transformers' own assisted generation, recorded:

    with draftscope.watch(model, tokenizer) as watched:
        model.generate(**inputs, do_sample=True, assistant_model=draft)
    watched.decisions

Two methods of the object that drafts are watched, nothing else is replaced. What it drew is drawn once more from the
same random state, on the side: if the tokens are the same, the random numbers are. The state is then put back. What
goes wrong in all this ends the recording, never the text.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import torch
import transformers
from torch import Tensor
from transformers.generation.utils import _speculative_sampling

from draftscope.base.machine import own_version
from draftscope.base.text import Cut, Ending, Pieces, Transcript
from draftscope.decode.recorder import Recorder
from draftscope.decode.session import Step
from draftscope.decode.start import device_name
from draftscope.trace.events import AnyEvent, ModelInfo, Round, RunEnd, RunStart
from draftscope.trace.result import Recorded, Trace
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import DraftTree, deterministic_chains, empty, sampled_chain
from draftscope.verify.uniforms import Uniforms, no_uniforms
from draftscope.verify.verify import Verification

LOG = logging.getLogger(__name__)
LANE = "transformers"
MAX_SEED, UNSEEDED = 2**53, -1  # torch seeds itself with a larger number where nobody does
DRAWN_OTHERWISE = (
    "What was drawn here cannot be drawn again, so its random numbers are unknown: something else draws between "
    "drafting and verifying, such as dropout. Call model.eval()."
)
ENSEMBLE = "assistant_ensemble_weight changes the rule, which is not recorded."
BROKEN = "draftscope.watch stopped recording because of an unexpected error ({}: {}); the text goes on as without it."


class Watched(Recorded):
    """What was recorded so far: a run for each call of `generate` that drafted. `stopped` says why recording ended
    before the text, if it did."""

    events: list[AnyEvent]

    def __init__(self) -> None:
        super().__init__([])
        self.stopped = ""

    @property
    def trace(self) -> Trace:
        """The runs one by one: `trace[0].metrics`."""
        return Trace(tuple(self.events))

    def __repr__(self) -> str:
        return repr(self.trace)

    def _repr_html_(self) -> str:
        runs = self.trace
        return runs[0]._repr_html_() if len(runs) == 1 else runs._repr_html_()


@contextmanager
def watch(model: Any, tokenizer: Any = None) -> Iterator[Watched]:
    """Records what `model.generate` drafts and decides, until the end of the `with`: transformers' assisted generation,
    with a draft model or prompt lookup. Without a tokenizer, tokens are shown as their numbers. Raises nothing of its
    own: what cannot be recorded ends the recording, and `stopped` says why."""
    watched, find = Watched(), model._get_candidate_generator
    recording = _Recording(watched, model, tokenizer)

    def recorded(**given: Any) -> Any:
        generator = find(**given)
        recording.safely(recording.begin, generator, given)
        return generator

    model._get_candidate_generator = recorded
    try:
        yield watched
    finally:
        del model._get_candidate_generator
        recording.safely(recording.end)


@dataclass
class _Recording:
    """The calls of `generate` within one `with`."""

    watched: Watched
    model: Any
    tokenizer: Any
    calls: list[_Call] = field(default_factory=list)

    def safely(self, step: Callable[..., None], *given: Any) -> None:
        """Does a step of recording. An error in it ends the recording and is said once."""
        if self.watched.stopped:
            return
        try:
            step(*given)
        except Exception as error:
            self.watched.stopped = BROKEN.format(type(error).__name__, error)
            LOG.warning(self.watched.stopped)
            with suppress(Exception):
                self.end(self.watched.stopped)

    def begin(self, generator: Any, given: dict[str, Any]) -> None:
        self.end()
        call = _Call(self.watched.events, self.model, self.tokenizer, given, f"generate-{len(self.calls) + 1}")
        self.calls.append(call)
        call.attach(generator, self.safely)

    def end(self, message: str = "") -> None:
        for call in self.calls:
            call.end(message)


class _Numbers:
    """The pieces of tokens whose tokenizer is not known."""

    def is_special(self, token: int) -> bool:
        del token
        return False

    def raw(self, token: int) -> bytes:
        return f"<{token}>".encode()

    def shown(self, token: int) -> str:
        return f"<{token}>"


@dataclass
class _Drafted:
    """What was proposed in a round, when, and the random state after that."""

    ids: Tensor  # [1, prompt and text so far, and L drafted tokens]
    logits: Tensor | None  # [1, L, V]
    began: float
    ended: float
    state: Tensor


@dataclass
class _Call:
    """One call of `generate`."""

    events: list[AnyEvent]
    model: Any
    tokenizer: Any
    given: dict[str, Any]
    run: str
    drafted: _Drafted | None = None
    began: float = 0.0
    rounds: int = 0
    clock: float = 0.0
    cut: Cut | None = None
    over: bool = False
    pieces: Any = field(init=False)

    def __post_init__(self) -> None:
        config, ids = self.given["generation_config"], self.given["input_ids"]
        self.config, self.prompt, self.device = config, ids[0].tolist(), ids.device
        self.pieces = _Numbers() if self.tokenizer is None else Pieces(self.tokenizer)
        ends = getattr(config, "_eos_token_tensor", None)
        eos = frozenset() if ends is None else frozenset(ends.flatten().tolist())
        self.transcript = Transcript(self.pieces, Ending(eos, (), config.max_length - len(self.prompt)))
        self.temperature = float(config.temperature or 1.0) if config.do_sample else 0.0
        start = self._start()
        self.recorder = Recorder(start, self.pieces)
        self.events.append(start)

    def attach(self, generator: Any, safely: Callable[..., None]) -> None:
        draft, learn = generator.get_candidates, generator.update_candidate_strategy

        def drafting(*given: Any, **named: Any) -> Any:
            safely(self._begin)
            drafted = draft(*given, **named)
            safely(self._keep, drafted)
            return drafted

        def verified(ids: Tensor, logits: Tensor, *more: Any, **named: Any) -> Any:
            safely(self._see, ids, logits)
            return learn(ids, logits, *more, **named)

        generator.get_candidates, generator.update_candidate_strategy = drafting, verified

    def end(self, message: str = "") -> None:
        """The run has ended with what its rounds wrote."""
        if self.over:
            return
        self.over = True
        reason = "error" if message else self.cut or "stop"
        rounds = [event for event in self.events if isinstance(event, Round) and event.run == self.run]
        self.events.append(
            RunEnd(
                run=self.run, lane=LANE, reason=reason, text="".join(event.text_delta for event in rounds),
                token_ids=[token for event in rounds for token in event.emitted], target_forwards=len(rounds),
                end=self.clock, message=message,
            )
        )  # fmt: skip

    def _begin(self) -> None:
        self.began = self._now()

    def _keep(self, drafted: tuple[Tensor, Tensor | None]) -> None:
        self.drafted = _Drafted(*drafted, self.began, self._now(), self._state())

    def _see(self, ids: Tensor, logits: Tensor) -> None:
        now = self._now()
        if not self.over and self.drafted is not None:
            self._record(self.drafted, ids[0].tolist(), logits, now)

    @torch.no_grad()
    def _record(self, seen: _Drafted, text: list[int], logits: Tensor, now: float) -> None:
        written = text[len(self.prompt) + len(self.transcript.tokens) :]
        count = logits.shape[1] - 1
        if getattr(self.config, "assistant_ensemble_weight", None) is not None:
            return self.end(ENSEMBLE)
        tokens, uniforms = self._drawn_again(seen, logits, count)
        if tokens[: len(written)] != written:
            return self.end(DRAWN_OTHERWISE)
        fed = self.transcript.add(tokens)
        self.cut = fed.cut
        drafting, all_of_it = 1e3 * (seen.ended - seen.began), 1e3 * (now - seen.began)
        stages = {"propose": drafting, "verify": all_of_it - drafting, "accept": 0.0, "commit": 0.0, "host": 0.0}
        path, p = list(range(len(tokens) - 1)), logits.float().softmax(-1)
        tree = self._tree(seen, count)
        step = Step(
            index=self.rounds, rows=[0], start=self.clock, end=self.clock + sum(stages.values()), tree=tree,
            logits=logits, p=p if self.temperature else None, uniforms=uniforms,
            verification=_verification(tree, p, path, tokens[-1]), paths=[path], last=[tokens[-1]], live=[True],
            fed=[fed], stages=stages, graphs_recorded=0,
        )  # fmt: skip
        event = self.recorder.round(step)
        assert event is not None
        self.events.append(_without_last_uniforms(event))
        self.rounds, self.clock = self.rounds + 1, step.end
        return None

    def _tree(self, seen: _Drafted, count: int) -> DraftTree:
        draft = seen.ids[0, seen.ids.shape[1] - count :]
        if not count:
            return empty(1, self.device)
        if seen.logits is None:
            return deterministic_chains([draft.tolist()], ["prompt lookup"], self.device)
        q = seen.logits.float().softmax(-1)
        sampling = Sampling(self.temperature)
        return sampled_chain([token[None] for token in draft], list(q.unbind(1)), sampling, "assistant")

    def _drawn_again(self, seen: _Drafted, logits: Tensor, count: int) -> tuple[list[int], Uniforms]:
        """The tokens of the round, before the text's end cuts them, and what each drafted one was compared with."""
        unknown = no_uniforms(1, count, self.device)
        draft = seen.ids[0, seen.ids.shape[1] - count :].tolist()
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            if self.temperature and seen.logits is not None and count:
                self._put(seen.state)
                u = torch.rand(1, count, device=self.device)
                self._put(seen.state)
                tokens, _ = _speculative_sampling(seen.ids, seen.logits, count, logits)
                return tokens[0].tolist(), Uniforms(unknown.draft, u.double(), unknown.last)
            self._put(seen.state)
            drawn = torch.multinomial(logits[0].softmax(-1), 1)[:, 0] if self.temperature else logits[0].argmax(-1)
        selected = drawn.tolist()
        matches = next((i for i, token in enumerate(draft) if token != selected[i]), count)
        return selected[: matches + 1], unknown

    def _state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()

    def _put(self, state: Tensor) -> None:
        torch.cuda.set_rng_state(state, self.device) if self.device.type == "cuda" else torch.set_rng_state(state)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _start(self) -> RunStart:
        assistant, config, seed = self.given.get("assistant_model"), self.config, torch.initial_seed()
        models = [_model_info("target", self.model), *([] if assistant is None else [_model_info("draft", assistant)])]
        prompt = "" if self.tokenizer is None else self.tokenizer.decode(self.prompt)
        settings = {
            "temperature": self.temperature, "top_k": config.top_k or 0, "top_p": config.top_p or 1.0,
            "max_new_tokens": config.max_length - len(self.prompt),
        }  # fmt: skip
        return RunStart(
            run=self.run, lane=LANE, draftscope=own_version(), torch=torch.__version__,
            transformers=transformers.__version__, device=device_name(self.device),
            dtype=str(self.model.dtype).removeprefix("torch."), threads=torch.get_num_threads(), models=models,
            drafter="prompt lookup" if assistant is None else "assistant", exact=True, rule="token",
            seed=seed if seed <= MAX_SEED else UNSEEDED, settings=settings, prompt=prompt,
            prompt_tokens=len(self.prompt), prompt_last_raw=self.pieces.shown(self.prompt[-1]),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip


def _verification(tree: DraftTree, p: Tensor, path: list[int], last: int) -> Verification:
    """The result as it was, and what a correction was drawn from."""
    slot, residual = len(path), p[:, len(path)]
    if tree.distributions is not None and slot < tree.nodes:
        residual = (residual - tree.distributions[:, slot]).clamp_min(0)
    return Verification(
        torch.tensor([path]), torch.tensor([slot]), torch.tensor([slot]), torch.tensor([last]), residual
    )


def _without_last_uniforms(event: Round) -> Round:
    """The target's own tokens are drawn by torch.multinomial, from no single random number that could be named."""
    decisions = [decision.model_copy(update={"uniform": None}) for decision in event.decisions]
    return event.model_copy(update={"decisions": decisions, "last": event.last.model_copy(update={"uniform": None})})


def _model_info(role: Literal["target", "draft"], model: Any) -> ModelInfo:
    config = model.config.get_text_config()
    return ModelInfo(
        role=role, name=model.name_or_path or type(model).__name__, parameters=model.num_parameters(),
        layers=config.num_hidden_layers, hidden=config.hidden_size,
    )  # fmt: skip
