"""Puts a hook after a function, where the function is the one that is known here."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from draftscope_vllm.kept_rounds import RoundRecorder

Function = Callable[..., Any]
Hook = Callable[[dict[str, Any], Any, float], None]  # arguments by name, what was returned, and when it began
Place = tuple[Any, str, tuple[str, ...], Hook]  # what holds a function, its name, and the parameters that are read


def put(places: Iterable[Place], recorder: RoundRecorder) -> None:
    """Puts the hooks in, all or none. Raises `LookupError` for a vLLM with other functions."""
    for place, name, original, hook in [
        (at, name, recognise(at, name, known), hook) for at, name, known, hook in places
    ]:
        setattr(place, name, hooked(original, recorder, hook))


def recognise(place: Any, name: str, expected: tuple[str, ...]) -> Function:
    """The function of that name. Raises `LookupError` if it lacks an expected parameter."""
    function = getattr(place, name, None)
    got = () if function is None else tuple(inspect.signature(function).parameters)
    if not set(expected) <= set(got):
        raise LookupError(
            f"{name}: expected the parameters {', '.join(expected)}; found {', '.join(got) or 'no such function'}"
        )
    assert function is not None
    return function  # type: ignore[no-any-return]


def hooked(original: Function, recorder: RoundRecorder, hook: Hook) -> Function:
    """`original`, with a hook after it."""
    names = tuple(inspect.signature(original).parameters)

    @wraps(original)
    def call(*args: Any, **named: Any) -> Any:
        began = time.perf_counter()
        result = original(*args, **named)
        if recorder.on:
            try:
                hook({**dict(zip(names, args, strict=False)), **named}, result, began)
            except Exception as error:
                recorder.disable(f"the hook of {original.__name__} failed ({error!r})")
        return result

    return call
