"""Loading from the hub says how many megabytes have come, and of how many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import draftscope
from draftscope.base.progress import Progress
from draftscope.base.stages import watched_by
from draftscope.models.heads.head_files import read as read_head
from tests.support.local_hub import REPO, local_hub
from tests.support.models import byte_tokenizer, random_llama

MEGABYTES = re.compile(r"fetching the model: (\d+) of (\d+) MB")


def told(heard: list[Progress]) -> list[tuple[int, int]]:
    """Megabytes here and in all, as they were told, of what has several."""
    found = [(int(at[1]), int(at[2])) for each in heard if (at := MEGABYTES.search(each.words))]
    return [(done, whole) for done, whole in found if whole]


@pytest.mark.parametrize("shard", ["1GB", "1MB"])
def test_a_model_that_the_hub_sends_is_told_in_megabytes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], shard: str
) -> None:
    """In one file, and in several that come at once."""
    folder = tmp_path / "model"
    model = random_llama(3, 258, hidden=256)
    model.save_pretrained(folder, max_shard_size=shard)
    byte_tokenizer().save_pretrained(folder)
    files = list(folder.glob("*.safetensors"))
    assert (len(files) > 1) is (shard == "1MB")
    whole = round(sum(file.stat().st_size for file in files) / 1e6)
    heard: list[Progress] = []
    capfd.readouterr()
    with local_hub(folder, tmp_path / "cache"), watched_by(heard.append):
        engine = draftscope.load(REPO, threads=1)
    assert engine.target.name == REPO
    steps = told(heard)
    assert len({done for done, _ in steps}) > 2 and max(steps)[1] == whole
    assert all(done <= all_of_it <= whole for done, all_of_it in steps)
    assert steps[-1][1] == whole and 0 < max(each.share for each in heard) < 1
    last_fetch = max(n for n, each in enumerate(heard) if MEGABYTES.search(each.words))
    assert any(f"reading the weights: {REPO}" in each.words for each in heard[last_fetch:])
    assert "%" not in capfd.readouterr().err


def test_a_head_that_the_hub_sends_is_told_in_megabytes(tmp_path: Path) -> None:
    folder = tmp_path / "head"
    random_llama(3, 258, hidden=256).save_pretrained(folder)
    heard: list[Progress] = []
    with local_hub(folder, tmp_path / "cache"), watched_by(heard.append):
        read_head(REPO)
    assert len({done for done, _ in told(heard)}) > 2
