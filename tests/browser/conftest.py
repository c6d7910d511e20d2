"""One browser and one server for all tests of the page; each test opens pages of its own.

Who loads other models into the server has another: see `test_other_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html
from draftscope.trace.events import AnyEvent
from tests.support.alone import Alone
from tests.support.browsers import chromium, refuse_none
from tests.support.models import byte_tokenizer, random_llama
from tests.support.raced import race_of
from tests.support.served import served
from tests.support.visit import Visit, forget, visitor


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    yield from chromium()


@pytest.fixture(scope="session")
def long_winded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A random pair over bytes, slow and endless enough to be stopped: no end of text, a long context."""
    root = tmp_path_factory.mktemp("long-winded")
    folders = root / "target", root / "draft"
    for folder, layers in zip(folders, (8, 1), strict=True):
        model = random_llama(3, 258, layers=layers)
        model.config.max_position_embeddings = 4096
        model.lm_head.weight.data[:2] = 0.0
        model.config.eos_token_id = model.generation_config.eos_token_id = None
        model.save_pretrained(folder)
        tokenizer = byte_tokenizer()
        tokenizer.eos_token = None
        tokenizer.save_pretrained(folder)
    return folders


@pytest.fixture(scope="session")
def address(long_winded: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page that all share."""
    refuse_none()
    with served(long_winded, tmp_path_factory.mktemp("page")) as url:
        yield url


@pytest.fixture(scope="package")
def regulars(browser: Any) -> list[Any]:
    """Visitors who come again and again and have the page's files. One window of each stays open for all tabs."""
    contexts = [visitor(browser) for _ in range(2)]
    for context in contexts:
        context.new_page()
    return contexts


@pytest.fixture
def functions(regulars: list[Any]) -> Any:
    """The window that stays open, which no page was loaded in: for scripts that need the instrument's functions only.
    To load the page takes a second."""
    return regulars[0].pages[0]


@pytest.fixture
def visit(regulars: list[Any], address: str) -> Iterator[Callable[..., Visit]]:
    """Opens pages, each for another visitor, without motion unless the `looks` say so: what moves keeps a core busy. At
    the end none had an error or asked for anything outside."""
    opened: list[Visit] = []

    def opens(query: str = "", wait: bool = True, **looks: Any) -> Visit:
        forget(context := regulars[len(opened)], address)
        opened.append(Visit(context, address, query, wait, **{"reduced_motion": "reduce"} | looks))
        return opened[-1]

    yield opens
    for page in opened:
        page.close()


@pytest.fixture
def played(browser: Any, pair: DecodingEngine, tmp_path: Path) -> Iterator[Callable[..., Alone]]:
    """Opens runs of the byte pair, each as a file that plays by itself, and shows them whole. A page of the server
    costs five times as much."""
    opened: list[Alone] = []

    def opens(run: list[AnyEvent] | None = None, context: dict[str, Any] | None = None, **own: Any) -> Alone:
        path = tmp_path / f"run-{len(opened)}.html"
        path.write_text(html.page(run if run is not None else race_of(pair, **own)), encoding="utf-8")
        opened.append(Alone(browser, path, **(context or {})))
        opened[-1].ask("e => e.transport.toEnd()")
        opened[-1].painted()
        return opened[-1]

    yield opens
    for page in opened:
        page.close()
