"""A site of a few short races of the byte pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope_app.lab.site import shelf, site_files, site_races
from draftscope_app.lab.site.texts import RecordedText

TINY = RecordedText("story", "the byte pair", "story", ("draft", "sampled-tree", "ngram", "eagle3"))
SHORT = site_races.Length(tokens=12, repeats=1)


@pytest.fixture(scope="package")
def recordings(pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings of one text: of the drafters that it names, those that the byte pair can run."""
    folder = tmp_path_factory.mktemp("recordings")
    list(site_races.record(pair, TINY, SHORT, folder))
    return folder


@pytest.fixture(scope="package")
def site(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site_files.build(folder, shelf.read(recordings))
    return folder
