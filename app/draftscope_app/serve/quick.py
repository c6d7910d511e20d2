"""What Gradio and Python do at a start that this server does not need: more than half of the time to the page.

Gradio writes a stub for editors beside each of its components whenever it is imported, and makes a whole app whenever
a page is begun, ended and queued, of which only that of `launch` serves anybody. It has no setting for either.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from draftscope.base.collecting import without_collecting

STUBS = "gradio.component_meta"  # the module that writes them


@contextmanager
def keeping_all() -> Iterator[None]:
    """No look for garbage inside; what is there afterwards is never looked through again."""
    with without_collecting():
        try:
            yield
        finally:
            gc.freeze()


def import_without_stubs() -> None:
    """Imports Gradio."""
    finder = _WithoutStubs()
    sys.meta_path.insert(0, finder)
    try:
        import gradio  # noqa: F401
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def without_apps() -> Iterator[None]:
    """Pages that are made inside have no app before they are launched."""
    from gradio.routes import App

    made = App.__dict__["create_app"]
    App.create_app = lambda *_, **__: None  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        App.create_app = made  # type: ignore[method-assign]


class _WithoutStubs:
    """Finds the module that writes stubs, and takes its function away once it is there."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == STUBS else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            vars(module)["create_or_modify_pyi"] = lambda *_: None

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
