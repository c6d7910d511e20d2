"""Anything that anybody sends is read, or refused in one sentence: nothing hangs, nothing crashes.

A few hundred inputs of each kind; `DRAFTSCOPE_INPUTS=2500` tries so many of each of the four, 10,000 in all.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import read as read_prompts
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings, known_settings
from draftscope.models.loading.checkpoints import CheckpointOptions, find
from draftscope.trace import files, html, metrics, tables
from draftscope_app.engine.admission import Admission, Given
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import Job
from draftscope_app.page.plots.run_plots import pictures
from draftscope_app.page.runs.feed import recording
from draftscope_app.serve import decode_endpoint
from draftscope_app.serve.calls import FilledIn

MANY = int(os.environ.get("DRAFTSCOPE_INPUTS", "100"))
any_input = hypothesis_settings(
    max_examples=MANY,
    deadline=20_000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@contextmanager
def refused_in_a_sentence() -> Iterator[None]:
    """Whatever happens in here, only a short `DraftscopeError` may come of it."""
    try:
        yield
    except DraftscopeError as refused:
        sentence = str(refused)
        assert 0 < len(sentence) < 1000 and sentence.encode(), sentence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn, whole: bytes) -> bytes:
    """A valid file with values, lines or bytes of it replaced, removed or repeated."""
    lines = whole.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["value", "value", "value", "bytes", "drop", "repeat", "swap", "any"])):
            case "value":
                lines[place] = json.dumps(changed(draw, parsed(lines[place]))).encode()
            case "bytes":
                cut = draw(st.integers(0, len(lines[place])))
                lines[place] = lines[place][:cut] + draw(st.binary(max_size=4)) + lines[place][cut + 1 :]
            case "drop" if len(lines) > 1:
                del lines[place]
            case "repeat":
                lines.insert(place, lines[place])
            case "swap":
                lines[0], lines[place] = lines[place], lines[0]
            case "any":
                lines[place] = draw(st.binary(max_size=40))
    return b"\n".join(lines)


def parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def changed(draw: st.DrawFn, value: Any) -> Any:
    """The value with one of its parts, at whatever depth, replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        name = draw(st.sampled_from(sorted(value)))
        return value | {name: changed(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], changed(draw, value[place]), *value[place + 1 :]]
    if isinstance(value, float) and draw(st.booleans()):
        return draw(st.floats())
    if isinstance(value, int) and draw(st.booleans()):
        return draw(st.sampled_from([-1, 0, 1, 2**31, 2**63, 10**30, 10**400]) | st.integers())
    return draw(JSON)


@pytest.fixture(scope="module")
def trace(tiny: DecodingEngine) -> bytes:
    runs = [tiny.decode("abcab", name, temperature=1.0, max_new_tokens=8) for name in ("sampled-tree", "draft")]
    return "\n".join(files.line(event) for run in runs for event in run.events).encode()


@pytest.mark.slow
@any_input
@given(data=st.data())
def test_any_trace_file(tmp_path: Path, trace: bytes, data: st.DataObject) -> None:
    content = data.draw(mutated(trace))
    path = tmp_path / "any.jsonl"
    path.write_bytes(gzip.compress(content, 1) if data.draw(st.booleans()) else content)
    with refused_in_a_sentence():
        events = files.read(path, 2**24).events
        metrics.fold(events)
        pictures(events)
        json.loads(recording(events))
        tables.frame(events)
        html.page(events)


@any_input
@given(
    content=st.binary(max_size=200) | st.lists(JSON.map(json.dumps), max_size=5).map(lambda x: "\n".join(x).encode())
)
def test_any_prompt_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with refused_in_a_sentence():
        prompts, _ = read_prompts(path)
        assert all(prompt.text.encode() for prompt in prompts)


KNOWN = list(known_settings())


@any_input
@given(
    values=st.dictionaries(st.sampled_from(KNOWN), JSON, max_size=6), prompt=JSON, body=st.binary(max_size=50) | JSON
)
def test_any_values_of_a_call(tiny: DecodingEngine, values: dict[str, Any], prompt: Any, body: Any) -> None:

    def begins(_: Given) -> Job:
        tiny.start("abc", Settings.of(**values).model_copy(update={"max_new_tokens": 4}))
        raise DraftscopeError("It would begin.")

    with refused_in_a_sentence():
        sent = body if isinstance(body, bytes) else json.dumps({"data": body}).encode()
        assert len(FilledIn(None, decode_endpoint.defaults()).filled(sent)["data"]) == 1 + len(KNOWN)  # type: ignore[arg-type]
    with refused_in_a_sentence():
        Admission(None, Limits(max_text=65536)).admit({"prompt": prompt} | values, begins)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(pair_folders: tuple[Path, Path]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pair_folders[1].iterdir() if path.is_file()}


CONTENTS = ("config.json", "config.json", "model.safetensors", "model.safetensors.index.json", "generation_config.json")


@any_input
@given(name=st.sampled_from(CONTENTS), place=st.integers(0, 400), value=JSON, junk=st.binary(max_size=9))
def test_any_checkpoint_folder(
    tmp_path_factory: pytest.TempPathFactory, small: dict[str, bytes], name: str, place: int, value: Any, junk: bytes
) -> None:
    """As far as a model is looked at before it is loaded: a value of a file is another one, or bytes of it are."""
    folder, whole = tmp_path_factory.mktemp("any"), small.get(name, b'{"weight_map": {"a": "model.safetensors"}}')
    content = whole[:place] + junk + whole[place + 1 :]
    if name.endswith(".json") and not junk:
        keys = sorted(known := parsed(whole))
        content = json.dumps(known | {keys[place % len(keys)]: value}).encode()
    for own, kept in (small | {name: content}).items():
        (folder / own).write_bytes(kept)
    with refused_in_a_sentence():
        find(folder, CheckpointOptions(torch.float32, torch.device("cpu")))
