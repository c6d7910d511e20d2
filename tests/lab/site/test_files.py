"""The folder of a site: what is in it, how large it is, and what the command says."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from draftscope.trace.events import EVENT
from draftscope_app.cli.main import main
from draftscope_app.doors.door import doors, tasks
from draftscope_app.lab.site import shelf, site_files
from draftscope_app.lab.site.texts import RecordedText

MAX_MB = 8
MAX_FIRST = 1_000_000  # bytes of a first visit


def held(path: Path) -> Any:
    """What a file of data gives to the page."""
    found = re.fullmatch(r'draftscopeFile\("([^"]*)", "([^"]*)"\);\n', path.read_text())
    assert found is not None
    return found[1], gzip.decompress(base64.b64decode(found[2])).decode()


def test_every_door_is_a_page_and_every_run_a_file(site: Path, recordings: Path) -> None:
    assert {path.name for path in site.glob("*.html")} == {"index.html", *(f"{door.name}.html" for door in doors())}
    runs = shelf.read(recordings)
    assert {path.stem for path in (site / "run").iterdir()} == {run.name for run in runs}
    for run in runs:
        name, text = held(site / "run" / f"{run.name}.js")
        assert name == f"run/{run.name}"
        assert tuple(EVENT.validate_python(event) for event in json.loads(f"[{text}]")) == run.events


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        html = page.read_text()
        assert "default-src 'none'" in html
        for link in re.findall(r'(?:src|href)="([^"]*)"', html):
            assert link.startswith("#") or (site / link).is_file(), link
    assert not re.search(r"@import|url\((?!#)", (site / "site.css").read_text())


def test_it_is_small(site: Path) -> None:
    """Recordings of all texts, at the size that each may have, and all else."""
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    runs = sum(path.stat().st_size for path in (site / "run").iterdir())
    assert size - runs < MAX_MB * 1e6 / 2


def test_the_first_picture_needs_four_small_files(site: Path) -> None:
    """Of which none is compressed; the others come when they are asked for."""
    html = (site / "index.html").read_text()
    assert re.findall(r'(?:src|<link[^>]* href)="([^"]*)"', html) == ["site.css", "draftscope.js"]
    first = ("index.html", "site.css", "draftscope.js", "run/first.js")
    assert sum((site / name).stat().st_size for name in first) < MAX_FIRST


def test_cards_that_need_addresses_of_a_server_stay_away(site: Path) -> None:
    script = (site / "draftscope.js").read_text()
    for task in tasks():
        if task.has("card.js"):
            assert (f"{task.mount}/card.js" in script) is not task.has("server.py"), task.name


def test_lessons_and_exhibits_are_answers_in_files(site: Path) -> None:
    name, text = held(site / "answer" / "museum.js")
    assert (name, len(json.loads(text)["exhibits"])) == ("answer/museum", 4)
    _, text = held(site / "answer" / "lesson" / "round.js")
    assert json.loads(json.loads(text))["lesson"] == "round"


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["site", "build", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"draftscope: '{tmp_path}' is not empty; name a new folder.\n"
    assert main(["site", "build", str(tmp_path / "mine.txt")]) == 2
    assert "name another folder" in capsys.readouterr().err


def test_a_site_without_recordings_says_what_records_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "build", str(tmp_path / "site"), "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "no runs of the texts story, structured, question are recorded; 'draftscope site record'" in said.err
    assert re.search(r"has 4 pages and 1 runs?, \d\.\d MB; open index\.html in it", said.out)


def test_quick_records_what_is_missing_and_leaves_out_what_cannot_be_had(
    pair_folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = (
        RecordedText("story", str(pair_folders[0]), "story", ("ngram",)),
        RecordedText("question", str(tmp_path / "nowhere"), "story", ("ngram",)),
    )
    monkeypatch.setattr(shelf, "TEXTS", texts)
    assert main(["site", "build", str(tmp_path / "site"), "--quick", "--runs", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr()
    assert "recording 'story' on this processor, " in said.err
    assert "'question' is left out: " in said.err
    assert "has 4 pages and 3 runs" in said.out
    assert {path.stem for path in (tmp_path / "site" / "run").iterdir()} == {"first", "story-ngram-0", "story-ngram-1"}


def test_two_builds_of_the_same_runs_are_the_same(recordings: Path, site: Path, tmp_path: Path) -> None:
    site_files.build(tmp_path, shelf.read(recordings))
    for path in (path for path in site.rglob("*") if path.is_file()):
        assert (tmp_path / path.relative_to(site)).read_bytes() == path.read_bytes(), path
