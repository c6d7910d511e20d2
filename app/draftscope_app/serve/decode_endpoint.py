"""`decode` for programs: one call that returns one JSON object, the same as `draftscope decode --json` prints.

`gradio_client`, plain HTTP and (with `gradio[mcp]`) MCP see it with every setting as a typed argument.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, get_args, get_origin

import gradio as gr
from pydantic.fields import FieldInfo

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings, known_settings
from draftscope.trace.result import Result
from draftscope_app.engine.admission import Admission, Given
from draftscope_app.engine.answers import Engine, watch, whole
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.visitors import Visitors, asker_of
from draftscope_app.page.listeners.engine_status import able
from draftscope_app.reports import run_report

OPENING = """Continues a prompt by speculative decoding and returns the text, its tokens and what the run measured.

Parameters:
    prompt: the text to continue
"""
DRAFTER = "name of a drafter; empty: the draft model's chain, or a similar one that can run on this server's models"
CLOSING = "Returns:\n    text, token_ids, drafter, exact, synthetic, settings, target_forwards and metrics"


def endpoint(admission: Admission, visitors: Visitors) -> Callable[..., Any]:
    """The function behind the endpoint, for `gr.api`; its arguments are the prompt and every setting."""

    known = _offered()

    async def decode(request: gr.Request, prompt: str, *values: Any) -> Any:
        try:
            given = {"prompt": prompt} | dict(zip(known, values, strict=True))
            given["drafter"] = given["drafter"] or await _usual(admission.engine)
            answer = admission.admit(given, _job, asker=asker_of(request, None))
            with visitors.of(request.session_hash).call(answer):
                events = await whole(admission.engine, answer)
        except DraftscopeError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return json.loads(run_report.as_json(run_report.decoded(Result(tuple(events)))))

    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("request", either, annotation=gr.Request),
        inspect.Parameter("prompt", either, annotation=str),
        *(inspect.Parameter(n, either, default=_default(f), annotation=_type(f)) for n, f in known.items()),
    ]
    decode.__signature__ = inspect.Signature(parameters, return_annotation=dict)  # type: ignore[attr-defined]
    decode.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": dict}
    lines = [f"    {name}: {field.description}" for name, field in known.items()]
    decode.__doc__ = "\n".join([OPENING.rstrip(), *lines, CLOSING])
    return decode


def _job(given: Given) -> RunJob:
    settings = Settings.of(**{name: value for name, value in given.items() if name != "prompt"})
    return RunJob(id=new_id(), prompt=given["prompt"], lanes={settings.drafter: settings})


def defaults() -> list[Any]:
    """What the endpoint's settings are when they are not given, in order, as JSON."""
    return [_default(field) for field in _offered().values()]


def _offered() -> dict[str, FieldInfo]:
    """The settings of a call. Which drafter is the usual one depends on the models that are loaded."""
    settings = dict(known_settings())
    settings["drafter"] = FieldInfo(annotation=str, default="", description=DRAFTER)
    return settings


async def _usual(engine: Engine) -> str:
    """A chain of the draft model, or the nearest drafter that can run; known once the models are loaded."""
    async for status in watch(engine.changed, lambda: engine.status):
        if status.phase != "loading":
            break
    return able(Settings.of().drafter, engine.status.drafters)


def _default(field: FieldInfo) -> Any:
    """A setting's default, as JSON."""
    return list(field.default) if isinstance(field.default, tuple) else field.default


def _type(field: FieldInfo) -> Any:
    """A setting's type, as JSON: a tuple becomes a list."""
    annotation = field.annotation
    if get_origin(annotation) is not tuple:
        return annotation
    element = get_args(annotation)[0]
    return list[getattr(element, "__origin__", element)]  # type: ignore[misc]
