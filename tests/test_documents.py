"""The Markdown files hold what is here: tables as the code writes them, files, commands, labels and snippets."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import pytest

import draftscope
from draftscope.base.markdown import one_line
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.registry import BUILT_IN
from draftscope.measure.bench.rows import BenchRow
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.main import main
from draftscope_app.doors.door import commands, tasks
from tests.generated_tables import ROOT, TABLES, shown

OURS = (
    "README.md",
    "engine/README.md",
    "engine/draftscope/decode/README.md",
    "engine/draftscope/log/README.md",
    "engine/draftscope/drafters/README.md",
    "engine/draftscope/models/README.md",
    "engine/draftscope/verify/README.md",
    "engine/SERVERS.md",
    "engine/METRICS.md",
    "engine/inside/README.md",
    "app/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("app/draftscope_app/**/README.md"))),
    "assets/instrument/README.md",
    "app/DEPLOY.md",
    "app/CLASS.md",
    "tests/README.md",
    "assets/models/README.md",
)
RESULTS = ("assets/results/FINDINGS.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("assets/results/*/*.md")))
CARDS = tuple(str(path.relative_to(ROOT)) for path in ROOT.glob("assets/models/*/README.md"))
LANGUAGES = r"(?:py|js|md|json|yaml|toml|css|png|txt)"


def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def section(file: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    return text(file).split(f"## {heading}\n")[1].split("\n## ")[0]


def code(file: str) -> Iterator[str]:
    """Everything set as code: what stands between backticks, and the lines of commands."""
    without_fences = re.sub(r"```.*?```", "", text(file), flags=re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", without_fences)
    yield from (line.split("   #")[0].strip() for line in without_fences.splitlines() if line.startswith("    "))


def anchors(file: str) -> set[str]:
    """The places in a file that a link can name, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)$", text(file), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# What is generated.


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_the_code_writes(name: str) -> None:
    file, table = TABLES[name]
    assert shown(name) == table(), f"{file} is behind the code; run: python -m tests.generated_tables"


def test_a_line_of_prose_fits_a_screen() -> None:
    """Tables are as wide as their cells."""
    for file in (*OURS, "assets/results/FINDINGS.md"):
        lines = re.sub(r"```.*?```", "", text(file), flags=re.DOTALL).splitlines()
        assert not [line for line in lines if len(line) > 145 and not line.lstrip().startswith("|")], file


# What is named.


def test_links_lead_somewhere() -> None:
    named = [(page, link) for page in (*OURS, *RESULTS, *CARDS) for link in re.findall(r"\]\(([^)\s]+)\)", text(page))]
    for file, link in named:
        if link.startswith(("http://", "https://")):
            continue
        place, _, anchor = link.partition("#")
        path = ((ROOT / file).parent / place).resolve() if place else ROOT / file
        assert path.exists(), f"{file}: {link}"
        if anchor:
            assert anchor in anchors(str(path.relative_to(ROOT))), f"{file}: {link}"


def test_files_and_modules_that_are_named_exist() -> None:
    tops = "|".join(path.name for path in ROOT.iterdir() if path.is_dir())
    for file, words in ((page, words) for page in (*OURS, *RESULTS) for words in code(page)):
        roots = (ROOT, ROOT / "engine" / "draftscope", ROOT / "app" / "draftscope_app", (ROOT / file).parent)
        for path in re.findall(
            rf"(?<![\w./-])(?:(?:{tops})(?:/[\w.-]+)+|[\w-]+(?:/[\w.-]+)*/[\w.-]+\.{LANGUAGES})\b/?", words
        ):
            assert any((root / path).exists() for root in roots), f"{file}: {path}"
        for module in re.findall(r"python3? -m ([\w.]+)", words):
            assert module in ("pip", "venv") or find_spec(module), f"{file}: {module}"


def test_a_file_that_is_named_without_its_folder_exists() -> None:
    source = {path.name for top in ("engine", "app", "assets/instrument") for path in (ROOT / top).rglob("*.*")}
    for page in (page for page in OURS if page.startswith(("engine/draftscope", "app/draftscope_app", "assets"))):
        named = {words for words in code(page) if re.fullmatch(r"[\w-]+\.(?:py|js|css|html)", words)}
        assert named <= source, page


def test_names_stand_in_the_files_that_are_said_to_hold_them() -> None:
    for heading, least in (("Where is what?", 4), ("A round's life", 10)):
        named = re.findall(r"`([\w.]+)` in \[[^\]]+\]\(([^)]+)\)", section("engine/README.md", heading))
        assert len(named) >= least, heading
        for name, file in named:
            for part in name.split("."):
                assert re.search(rf"\b(?:def|class) {part}\b", text(f"engine/{file}")), f"{name} is not in {file}"


def test_the_picture_of_a_rounds_life_names_files_that_the_steps_below_it_name() -> None:
    named = re.findall(r"\(([^)]+)\)", section("engine/README.md", "A round's life"))
    drawn = re.findall(r'class="room"[^>]*>([^<]+)<', text("engine/round.svg"))
    assert len(drawn) >= 8
    for path in (path for words in drawn if "/" in words for path in words.split(", ")):
        assert any(f"/{path}" in file for file in named), path


def test_make_targets_exist() -> None:
    every = (words for file in OURS for words in code(file))
    named = {target for words in every for target in re.findall(r"\bmake ([a-z][\w-]*)", words)}
    assert named <= set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))


@pytest.fixture
def known_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., set[str]]:
    """The options of a command, as its help lists them; empty where there is no such command."""
    monkeypatch.setenv("COLUMNS", "300")  # so that no option is cut

    def ask(*command: str) -> set[str]:
        with contextlib.suppress(SystemExit):
            main([*command, "--help"])
        return options(capsys.readouterr().out)

    return ask


def options(words: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", words))


def test_commands_and_their_options_are_known(known_options: Callable[..., set[str]]) -> None:
    named: dict[tuple[str, ...], set[str]] = {}
    alone = set[str]()  # options without their command
    for words in [words for file in OURS for words in code(file)]:
        command = re.match(r"draftscope ((?:site|space) \w+|[a-z][\w-]*)", words)
        if command:
            named.setdefault(tuple(command[1].split()), set()).update(options(words))
        elif words.startswith("--"):
            alone |= options(words)
    every = set[str]()
    for command, used in named.items():
        known = known_options(*command)
        assert known, f"there is no command 'draftscope {' '.join(command)}'"
        assert used <= known, f"draftscope {' '.join(command)}: {sorted(used - known)}"
        every |= known
    assert alone <= every
    assert {"decode", "serve", "bench", "check", "train", "export"} <= {command[0] for command in named}


def test_every_exit_code_is_explained() -> None:
    listed = re.findall(r"^\| (\d+) \|", section("app/README.md", "The command line"), re.MULTILINE)
    assert [int(code) for code in listed] == list(ExitCode)


# What is listed by hand, and must be whole.


def test_the_readme_is_short_and_lists_every_drafter_once() -> None:
    assert len(text("README.md").splitlines()) <= 190
    rows = re.findall(r"^\| (`.*?) \|", section("README.md", "Drafters"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([\w-]+)`", row)]
    assert sorted(listed) == sorted(BUILT_IN)


def test_the_readmes_headline_is_the_benchmarks() -> None:
    readme = section("README.md", "What was found")
    rows = re.findall(r"^\| [a-z].*\*\*.*$", readme, re.MULTILINE)
    source = re.search(r"\((assets/results/[^)]+\.md)\)", readme)
    assert source is not None
    measured = {re.sub(r", \d+ of \d+ runs loop", "", one_line(line)) for line in text(source[1]).splitlines()}
    assert len(rows) == 6
    assert set(rows) <= measured


def test_tau_means_the_same_wherever_the_formula_is_explained() -> None:
    """The formula's tau was the tokens of a round where it was computed, and the mean acceptance length in words."""
    for file in (
        "README.md",
        "engine/METRICS.md",
        "assets/results/FINDINGS.md",
        "engine/draftscope/measure/bench/report.py",
    ):
        said = re.findall(r"\btau\*? (?:is|being) (the [\w ]+)", one_line(text(file)))
        assert said and all(each.startswith("the tokens of a round") for each in said), file


def test_the_readmes_figures_by_kind_are_the_tables_and_say_that_looping_texts_count() -> None:
    """Two decimals of `By kind of text` count runs that the headline leaves out."""
    bullet = text("README.md").split("- **A head needs its target's own answers")[1].split("\n- ")[0]
    table = (
        text("assets/results/2026-11-26-two-cores-bf16/smollm2-hybrid.md")
        .split("By kind of text, T = 0")[1]
        .split("By kind")[0]
    )
    by_kind = bullet.split("By kind, looping texts included")[1]
    assert re.findall(r"\d+\.\d\d|\d{2,}", by_kind) and not [
        figure for figure in re.findall(r"\d+\.\d\d|\d{2,}", by_kind) if not re.search(rf"\| +{figure}\b", table)
    ]


def test_every_field_of_a_benchmarks_row_is_explained() -> None:
    rows = re.findall(r"^\| (`.*?) \|", section("engine/METRICS.md", "Benchmark"), re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(explained) == sorted(field.name for field in fields(BenchRow))


def test_every_room_of_the_engine_is_listed_in_the_order_that_imports_keep() -> None:
    listed = re.findall(r"^\| \[(\w+)\]", section("engine/README.md", "Rooms, bottom to top"), re.MULTILINE)
    (layers,) = (each["layers"] for each in contracts() if each.get("containers") == ["draftscope"])
    floors = [set(re.findall(r"\w+", layer)) for layer in reversed(layers)]
    assert len(listed) == len(set(listed))
    for floor in floors:
        assert set(listed[: len(floor)]) == floor
        listed = listed[len(floor) :]
    assert listed == []


def test_every_room_of_the_app_is_listed_in_the_order_that_imports_keep() -> None:
    listed = re.findall(r"^\| \[(\w+)\]", section("app/README.md", "Rooms, bottom to top"), re.MULTILINE)
    (layers,) = (each["layers"] for each in contracts() if each["type"] == "layers" and "containers" not in each)
    named = [re.findall(r"draftscope_app\.(\w+)", layer) for layer in layers]
    rooms = [path.name for path in (ROOT / "app/draftscope_app").iterdir() if (path / "__init__.py").exists()]
    assert sorted(listed) == sorted(rooms)
    for higher, lower in pairwise(listed[::-1]):
        assert first(higher, named) <= first(lower, named), f"{higher} is listed above {lower}"


def contracts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    return found


def first(room: str, floors: list[list[str]]) -> int:
    """The highest floor on which something of the room stands."""
    return next(place for place, names in enumerate(floors) if room in names)


def test_every_task_is_listed_with_its_folder() -> None:
    listed = re.findall(r"\]\(draftscope_app/((?:doors/\w+|lab)/\w+)/README\.md\)", text("app/README.md"))
    there = [folder.package for folder in (*tasks(), *(folder for _, folder in commands().values()))]
    assert sorted(listed) == sorted({"/".join(package.split(".")[1:]) for package in there})


def test_the_readmes_snippet_runs(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(draftscope, "load", lambda: pair)
    snippet = re.search(r"```python\n(.*?)```", text("README.md"), re.DOTALL)
    assert snippet is not None
    names: dict[str, Any] = {}
    exec(snippet[1], names)
    assert "Decision(" in capsys.readouterr().out


def test_figures_that_need_a_processors_instructions_name_them() -> None:
    """In the paragraph or the item that has the figure."""
    needs = {
        "2.3 times": "AVX-512 VNNI",
        "1.54** [1.50, 1.56]": "AVX-512",
        "1.54 [1.50, 1.56] at T = 0": "AVX-512 bf16",
    }
    for name in ("README.md", "assets/results/FINDINGS.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        items = re.split(r"\n(?=- |## )", text) if "FINDINGS" in name else re.split(r"\n(?=- |## |\n\n\n)", text)
        for figure, instructions in needs.items():
            wrong = [item[:80] for item in items if figure in item and instructions not in item]
            assert not wrong, (name, figure, wrong)
    assert "with AVX2 alone the head gains 1.33 at T = 0 and 1.28 at T = 1" in (ROOT / "README.md").read_text("utf-8")
