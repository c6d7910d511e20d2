"""The figures of the house: what is counted, and that a figure which grew is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.house import FORBIDDEN, count_house, grown


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small house: one class of a name, no forbidden name."""
    for name, text in {
        "engine/a.py": "class Pair:\n    pass\n",
        "app/b.py": "def show(text: str) -> str:\n    return text\n",
        "assets/instrument/c.js": "export const lines = [];\n",
        "assets/instrument/vendor/d.js": "export const own = 1;\n",
        "tests/test_a.py": "told = 1\n",
        "tests/programs/e.py": "own = 1\n\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_figures_of_a_small_house(house: Path) -> None:
    figures = count_house(house)
    assert (figures.source_lines, figures.test_lines, figures.program_lines) == (5, 1, 2)
    assert (figures.python_modules, figures.javascript_modules) == (2, 1)
    assert not figures.duplicate_classes and figures.forbidden_names == dict.fromkeys(FORBIDDEN, 0)


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("engine/b.py", "class Pair:\n    pass\n", "duplicate_classes 'Pair' has grown from 0 to 2."),
        ("app/c.py", "def own(text): ...\n", "forbidden_names 'own' has grown from 0 to 1."),
        ("app/c.py", "def f(asked): ...\n", "forbidden_names 'asked' has grown from 0 to 1."),
        ("app/c.py", "for each in (): f.found = each\n", "forbidden_names 'found' has grown from 0 to 1."),
        ("app/c.py", "class alone: ...\n", "forbidden_names 'alone' has grown from 0 to 1."),
        ("app/c.py", "import x as told\n", "forbidden_names 'told' has grown from 0 to 1."),
        ("app/told.py", "", "forbidden_names 'told' has grown from 0 to 1."),
        ("assets/instrument/e.js", "export function told() {}\n", "forbidden_names 'told' has grown from 0 to 1."),
        ("assets/instrument/e.css", "p {}\n", "source_lines has grown from 5 to 6."),
        ("tests/test_b.py", "own = 1\n", "test_lines has grown from 1 to 2."),
    ],
)
def test_what_grows_is_named(house: Path, file: str, text: str, expected: str) -> None:
    before = count_house(house)
    assert not grown(before, before)
    (house / file).write_text(text)
    assert expected in grown(before, count_house(house))


def test_words_in_texts_and_calls_of_others_are_no_names(house: Path) -> None:
    (house / "app/c.py").write_text('"""What is found."""\nprint("own", match.own)\n')
    assert count_house(house).forbidden_names == dict.fromkeys(FORBIDDEN, 0)
