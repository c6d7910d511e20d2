"""SGLang: `/generate` with token ids in and out; `meta_info` of the end counts the request's speculation.

A chunk is a burst. Text and ids come from the beginning each time, or only what is new with
`--incremental-streaming-output`; which of the two is seen from the number of tokens. Read in SGLang 0.5.23, not run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, Field

from draftscope.servers.adapter import MAX_ROUND, Chunk, Counted, Identity, Offers, Request
from draftscope.servers.programs.program import Flag, Program, ServedPair, Start, WantedChain
from draftscope.servers.programs.web_server import (
    Cards,
    Count,
    TokenIds,
    WebServer,
    chosen,
    finish,
    known,
    same_prompt,
)
from draftscope.servers.wire import Wire


class Info(BaseModel):
    """`/server_info`, of which only this is read."""

    version: str | None = None
    model_path: str | None = None
    enable_deterministic_inference: bool = False


class Finish(BaseModel):
    type: str


class Meta(BaseModel):
    prompt_tokens: Count | None = None
    completion_tokens: Count
    finish_reason: Finish | None = None
    spec_verify_ct: Count | None = None
    spec_num_proposed_drafts: Count | None = None
    spec_num_correct_drafts: Count | None = None
    spec_correct_drafts_histogram: list[Count] | None = Field(None, max_length=MAX_ROUND)  # [accepted tokens] rounds
    output_token_logprobs: list[list[float | int | str | None]] = []  # [log-probability, id, text], from the start


class SglangEvent(BaseModel):
    text: str = ""
    output_ids: list[int] = []
    meta_info: Meta


class Text(BaseModel):
    text: str


def recognise(wire: Wire, cards: Cards, model: str | None) -> SGLang | None:
    """The server if it is SGLang."""
    if not any(card.owned_by == "sglang" for card in cards.data):
        return None
    card = chosen(cards, model, wire.url)
    info = wire.try_get("/server_info", Info) or wire.try_get("/get_server_info", Info) or Info()
    about = Identity(
        url=wire.url,
        kind="sglang",
        version=info.version,
        model=card.id,
        weights=info.model_path or card.root,
        context=card.max_model_len,
        offers=Offers(seed=info.enable_deterministic_inference, chat=False, bursts_are_chunks=True),
    )
    return SGLang(wire, about)


class SGLang(WebServer):
    """An SGLang server."""

    def _chunks(self, request: Request) -> Iterator[Chunk]:
        ids: tuple[int, ...] = ()
        text = ""
        for event, at in self.wire.events("/generate", self._body(request), SglangEvent):
            meta, sent = event.meta_info, tuple(event.output_ids)
            since_start = (
                sent[: len(ids)] == ids and event.text.startswith(text) and len(sent) == meta.completion_tokens
            )
            new_ids, new_text = (sent[len(ids) :], event.text[len(text) :]) if since_start else (sent, event.text)
            ids, text = ids + new_ids, text + new_text
            if meta.finish_reason:
                same_prompt(self, request, meta.prompt_tokens)
            yield Chunk(
                ids=new_ids,
                text=new_text,
                at=at,
                finish=finish(self, meta.finish_reason.type) if meta.finish_reason else None,
                counted=_counted(meta) if meta.finish_reason else None,
                written=meta.completion_tokens if meta.finish_reason else None,
                logprobs=known([one[0] for one in meta.output_token_logprobs[-len(new_ids) :] if new_ids]),
            )

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = {
            "max_new_tokens": request.max_tokens,
            "sampling_seed": request.seed,
            "temperature": request.temperature,
            "top_k": request.top_k or -1,
            "top_p": request.top_p,
            "min_p": request.min_p,
            "stop": list(request.stop),
            "ignore_eos": request.ignore_eos,
        }
        salt = {"extra_key": uuid4().hex} if request.fresh else {}
        logprobs = {"return_logprob": True} if request.logprobs else {}
        return {"input_ids": list(request.ids), "sampling_params": sampling, "stream": True, **salt, **logprobs}

    def tokenize(self, text: str) -> tuple[int, ...]:
        body = {"model": self.identity.model, "prompt": text, "add_special_tokens": False}
        return tuple(self.wire.post("/tokenize", body, TokenIds).tokens)

    def detokenize(self, ids: Sequence[int]) -> str:
        body = {"model": self.identity.model, "tokens": list(ids), "skip_special_tokens": False}
        return self.wire.post("/detokenize", body, Text).text


def _counted(meta: Meta) -> Counted | None:
    if meta.spec_verify_ct is None:
        return None
    rounds = meta.spec_correct_drafts_histogram or []
    return Counted(
        rounds=meta.spec_verify_ct,
        drafted=meta.spec_num_proposed_drafts,
        accepted=meta.spec_num_correct_drafts,
        by_position=tuple(sum(rounds[i + 1 :]) for i in range(len(rounds) - 1)),
    )


def _start_arguments(pair: ServedPair, port: int) -> list[str]:
    arguments = ["python", "-m", "sglang.launch_server", "--model-path", pair.target]
    arguments += ["--context-length", str(pair.context), "--max-running-requests", str(pair.requests)]
    arguments += ["--enable-metrics", "--host", "127.0.0.1", "--port", str(port)]
    if pair.gpus * pair.nodes > 1:
        arguments += ["--tp", str(pair.gpus * pair.nodes)]
    if pair.nodes > 1:
        arguments += ["--nnodes", str(pair.nodes), "--node-rank", "RANK", "--dist-init-addr", "FIRST_NODE:5000"]
    return arguments


def _speculation(wanted: WantedChain) -> list[str]:
    """The token before the draft is one of those that it counts."""
    more = ["--speculative-algorithm", PROGRAM.drafters[wanted.kind]]
    if wanted.has_model:
        more += ["--speculative-draft-model-path", wanted.model]
    if wanted.kind != "ngram":
        more += ["--speculative-num-steps", str(wanted.gamma), "--speculative-eagle-topk", "1"]
    return [*more, "--speculative-num-draft-tokens", str(wanted.gamma + 1)]


def _settings(wanted: WantedChain) -> str:
    """The adaptive file exists for EAGLE and EAGLE-3 with a top-k of 1; its keys are the smallest batch sizes."""
    settings = shlex.join(_speculation(wanted))
    if wanted.kind not in ("eagle", "eagle3") or len(wanted.schedule) < 2:
        return settings
    file = {str(part.first): {"candidate_steps": [part.gamma]} for part in wanted.schedule}
    return f"{settings} --speculative-adaptive --speculative-adaptive-config FILE  # FILE holds {json.dumps(file)}"


PROGRAM = Program(
    kind="sglang",
    title="SGLang",
    recognise=recognise,
    starts=(
        Start(
            name="sglang",
            install="python -m venv sglang && sglang/bin/pip install sglang",
            arguments=_start_arguments,
            speculation=_speculation,
            flags=(
                Flag("--max-running-requests", "a speculative server caps it at 48 if unset: set it on both sides"),
                Flag(
                    "--speculative-num-steps, -eagle-topk, -num-draft-tokens",
                    "depth, width and size of the tree; topk 1 is a chain",
                ),
                Flag("--speculative-accept-threshold-single, -acc", "below 1 the output is no longer the target's"),
                Flag("--enable-deterministic-inference", "without it seeds are ignored"),
                Flag("--tp, --nnodes, --node-rank", "GPUs and nodes; run the command on each node with its own rank"),
            ),
            distributed=True,
        ),
    ),
    sampling_order=("temperature", "top_k", "top_p", "min_p"),
    names={"draft": "STANDALONE", "ngram": "NGRAM"},
    settings=_settings,
    checked="compared with the source of SGLang 0.5.23, not run",
)
