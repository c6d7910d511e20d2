"""The house: lines by door, and that a name which became more frequent is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.house import ESLINT, FORBIDDEN, count_names, grown, lines_by_room

# `make lint` requires eslint wherever a browser is required.
pytestmark = pytest.mark.skipif(not ESLINT.exists(), reason="eslint is not installed")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small house: one class of a name, no forbidden name."""
    for name, text in {
        "engine/a.py": "class Pair:\n    pass\n",
        "app/draftscope_app/doors/decide/b.py": "def show(text: str) -> str:\n    return text\n",
        "assets/instrument/c.js": "export const lines = [];\n",
        "assets/instrument/vendor/d.js": "export const own = 1;\n",
        "tests/test_a.py": "told = 1\n",
        "tests/programs/e.py": "own = 1\n\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_lines_of_a_small_house_are_counted_by_door(house: Path) -> None:
    lines = lines_by_room(house)
    assert {room: count for room, count in lines.items() if count} == {
        "core": 3,
        "decide": 2,
        "tests": 1,
        "programs": 2,
    }
    names = count_names(house)
    assert (
        not names.duplicate_classes
        and not names.duplicate_files
        and names.forbidden_names == dict.fromkeys(FORBIDDEN, 0)
    )


def test_a_name_that_becomes_more_frequent_is_said(house: Path) -> None:
    before = count_names(house)
    assert not grown(before, before)
    for file, text in {
        "engine/b.py": "class Pair: ...\n",
        "engine/room/job.py": "",  # a task's, as every task may have one
        "app/job.py": "",
        "app/told.py": "def own(asked): ...\n",
        "app/d.py": "import x as told\nfor each in (): f.found = each\n",
        "app/f.py": "LEAST_S = 1\ndef f(most_tokens, at_most): ...\n",
        "app/e.py": '"""What is found."""\nprint("own", match.own, own=1)\n',  # no names that are given here
        "assets/instrument/e.js": "export function alone() {}\n",
        "assets/instrument/e.css": "p {}\n",
        "tests/test_b.py": "own = 1\n",
    }.items():
        (house / file).parent.mkdir(exist_ok=True)
        (house / file).write_text(text)
    assert grown(before, count_names(house)) == [
        "duplicate_classes 'Pair' has grown from 0 to 2.",
        "duplicate_files 'b.py' has grown from 0 to 2.",
        "forbidden_names 'own' has grown from 0 to 1.",
        "forbidden_names 'told' has grown from 0 to 2.",
        "forbidden_names 'alone' has grown from 0 to 1.",
        "forbidden_names 'found' has grown from 0 to 1.",
        "forbidden_names 'each' has grown from 0 to 1.",
        "forbidden_names 'asked' has grown from 0 to 1.",
        "forbidden_names 'most_' has grown from 0 to 1.",
        "forbidden_names 'least_' has grown from 0 to 1.",
    ]
