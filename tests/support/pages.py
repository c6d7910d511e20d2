"""One browser and one server for all tests of the page, wherever they stand; each test opens pages of its own.

Who loads other models into the server comes last: see `test_other_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html
from draftscope.trace.events import AnyEvent
from tests.support.alone import Alone
from tests.support.browsers import chromium, refuse_none
from tests.support.lent import Lent
from tests.support.models import byte_tokenizer, random_llama
from tests.support.raced import race_of
from tests.support.served import served
from tests.support.visit import Visit, forget, visitor


class Browser:
    """Chromium, from the first of a row of files that ask for it to the last: while it is open no other event loop can
    run in its thread."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._opened: Any = None
        self._regulars: list[Any] = []
        self._lent: Lent | None = None

    def open(self) -> Any:
        if self._opened is None:
            self._opened = self._closing.enter_context(contextmanager(chromium)())
        return self._opened

    def regulars(self) -> list[Any]:
        if not self._regulars:
            self._regulars = [visitor(self.open()) for _ in range(2)]
            for context in self._regulars:
                context.new_page()
        return self._regulars

    def lent(self, address: str) -> Lent:
        self._lent = self._lent or Lent(visitor(self.open()), address)
        return self._lent

    def close(self) -> None:
        self._closing.close()
        self._opened, self._regulars, self._lent = None, [], None


BROWSER = Browser()


@pytest.hookimpl(trylast=True)  # once the last file's pages are closed
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or (nextitem.path != item.path and "browser" not in getattr(nextitem, "fixturenames", ())):
        BROWSER.close()


@pytest.fixture(scope="module")
def browser() -> Any:
    return BROWSER.open()


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


@pytest.fixture(scope="module")
def regulars(browser: Any) -> list[Any]:
    """Visitors who come again and again and have the page's files. One window of each stays open for all tabs."""
    return BROWSER.regulars()


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
def lent(browser: Any, address: str) -> Iterator[Callable[..., Visit]]:
    """The page that stays open, with the settings of a query in its controls. Afterwards it is as it was."""
    yield BROWSER.lent(address).take
    BROWSER.lent(address).give_back()


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
