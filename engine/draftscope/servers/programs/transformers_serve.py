"""`transformers serve`: `/v1/completions` with text in and text out.

It takes no token ids and gives none, so the prompt is sent as the text that the ids decode to; its count of prompt
tokens shows whether it read the same ones. Run against transformers 5.23.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from draftscope.servers.adapter import Chunk, Identity, Offers, Request, ServerError
from draftscope.servers.programs.program import Program, WantedChain
from draftscope.servers.programs.web_server import Cards, Count, WebServer, finish, same_prompt
from draftscope.servers.wire import Wire

OFFERS = Offers(ids_in=False, ids_out=False, chat=False, ignore_eos=False, tokenize=False)
ROUTES = {"/load_model", "/v1/responses", "/v1/completions"}  # together only here


class Routes(BaseModel):
    paths: dict[str, Any]


class ServeChoice(BaseModel):
    text: str = ""
    finish_reason: str | None = None


class ServeUsage(BaseModel):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None


class ServeEvent(BaseModel):
    choices: list[ServeChoice]
    usage: ServeUsage | None = None


def recognise(wire: Wire, cards: Cards, model: str | None) -> TransformersServe | None:
    """The server if it is `transformers serve`."""
    routes = wire.try_get("/openapi.json", Routes)
    if routes is None or not set(routes.paths) >= ROUTES:
        return None
    name = model or (cards.data[0].id if len(cards.data) == 1 else "")
    if not name:
        raise ServerError(f"{wire.url} does not say which model it serves; give its name, as it was started with.")
    about = Identity(
        url=wire.url,
        kind="transformers",
        version=None,
        model=name,
        weights=None,
        context=None,
        offers=OFFERS,
    )
    return TransformersServe(wire, about)


class TransformersServe(WebServer):
    """A `transformers serve` server."""

    def _chunks(self, request: Request) -> Iterator[Chunk]:
        for event, at in self.wire.events("/v1/completions", self._body(request), ServeEvent):
            choice = event.choices[0] if event.choices else ServeChoice()
            if event.usage is not None:
                same_prompt(self, request, event.usage.prompt_tokens)
            written = event.usage.completion_tokens if event.usage else None
            yield Chunk(ids=(), text=choice.text, at=at, finish=finish(self, choice.finish_reason), written=written)

    def _body(self, request: Request) -> dict[str, Any]:
        sampled = {"temperature": request.temperature, "top_k": request.top_k, "top_p": request.top_p}
        config: dict[str, Any] = {"do_sample": False} if request.temperature == 0 else {"do_sample": True, **sampled}
        if request.min_p and request.temperature:
            config["min_p"] = request.min_p
        return {
            "model": self.identity.model,
            "prompt": request.text,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "generation_config": json.dumps(config),
            "stream": True,
            **({"stop": list(request.stop)} if request.stop else {}),
        }


def _settings(wanted: WantedChain) -> str:
    """`generate` decodes one sequence when it speculates."""
    if wanted.kind == "ngram":
        return f"model.generate(..., prompt_lookup_num_tokens={wanted.gamma})"
    fixed = 'num_assistant_tokens_schedule="constant", assistant_confidence_threshold=0.0'
    model = f'AutoModelForCausalLM.from_pretrained("{wanted.model}")'
    return f"model.generate(..., assistant_model={model}, num_assistant_tokens={wanted.gamma}, {fixed})"


SERVE = Program(
    kind="transformers",
    title="transformers serve",
    recognise=recognise,
    sampling_order=("temperature", "top_k", "top_p", "min_p"),
    returns_ids=False,
)
GENERATE = Program(
    kind="transformers-generate",
    title="transformers",
    names={"ngram": "prompt_lookup_num_tokens", "draft": "assistant_model"},
    settings=_settings,
    checked="compared with transformers 5.23.0, not run; one sequence at a time",
)
