"""The results that claims are judged by: files that `bench`, `regret`, `advise`, `train-drafter` and `make gpu`
wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, read_bytes

RowJson = Mapping[str, Any]


@dataclass(frozen=True)
class SavedResults:
    """What was found in files; None for a file that was not given. Benchmarks may be of several drafts.

    Rows whose texts mostly loop flatter every drafter, so they count only in `every_row`.
    """

    benches: Sequence[RowJson] = ()
    regret: RowJson | None = None
    advice: RowJson | None = None
    continued: RowJson | None = None  # a drafter's training that started from another's weights
    gpu: RowJson | None = None  # the suite on a card

    @property
    def before_and_after(self) -> tuple[RowJson, RowJson] | None:
        """How far a drafter agreed with its target before that training and after it."""
        return (self.continued["before"], self.continued["agreement"]["all"]) if self.continued is not None else None

    @property
    def rows(self) -> Sequence[RowJson]:
        """Our own drafters' rows of all benchmarks with the models of the largest one, plain left out."""
        return [row for row in self.every_row if not _loops(row)]

    @property
    def every_row(self) -> Sequence[RowJson]:
        """`rows`, with those whose texts loop."""
        return [row for bench in self._main_benches for row in _drafted_rows(bench)]

    @property
    def by_draft(self) -> Mapping[str, Sequence[RowJson]]:
        """Rows without loops, by draft model, of all benchmarks with the largest one's target."""
        by_draft: dict[str, list[RowJson]] = {}
        for bench in self.benches:
            if bench["machine"].get("target") == self.machine.get("target"):
                rows = [row for row in _drafted_rows(bench) if not _loops(row)]
                by_draft.setdefault(str(bench["machine"].get("draft", "")), []).extend(rows)
        return by_draft

    @property
    def plain(self) -> Sequence[RowJson]:
        """Plain decoding's own rows of the same benchmarks as `rows`."""
        return [row for bench in self._main_benches for row in bench["rows"] if row["drafter"] == "plain"]

    def swept(self, field: str) -> Sequence[RowJson]:
        """Rows of the benchmarks, with the models of the largest one, that went through several values of `field`."""
        swept = [bench for bench in self._main_benches if len({row[field] for row in bench["rows"]}) > 1]
        return [row for bench in swept for row in _drafted_rows(bench) if not _loops(row)]

    @property
    def of_experts(self) -> Sequence[RowJson]:
        """Rows of the benchmarks whose target is a mixture of experts."""
        benches = [bench for bench in self.benches if "experts" in str(bench["machine"].get("target"))]
        return [row for bench in benches for row in _drafted_rows(bench) if not _loops(row)]

    @property
    def exact_single(self) -> Sequence[RowJson]:
        """Exact rows of one sequence on prompts as they are."""
        return [row for row in self.rows if row["batch"] == 1 and row["context"] is None and not row["lossy"]]

    def best_against(self, ours: Sequence[str], others: Sequence[str]) -> list[tuple[RowJson, RowJson]]:
        """The best row of either group of drafters, for each kind and temperature."""
        places: dict[object, tuple[list[RowJson], list[RowJson]]] = {}
        for row in self.exact_single:
            sides = places.setdefault(place_of(row), ([], []))
            for side, names in zip(sides, (ours, others), strict=True):
                if row["drafter"] in names:
                    side.append(row)
        return [(fastest(first), fastest(second)) for first, second in places.values() if first and second]

    def fastest_beside_plain(self) -> list[tuple[RowJson, RowJson]]:
        """The fastest row and plain's, for each kind and temperature whose gaps between tokens are known."""
        plain = {place_of(row): row for row in self.plain if row.get("gap_ms")}
        places: dict[object, list[RowJson]] = {}
        for row in self.exact_single:
            if row.get("gap_ms") and place_of(row) in plain:
                places.setdefault(place_of(row), []).append(row)
        return [(fastest(rows), plain[place_of(rows[0])]) for rows in places.values()]

    def dense_beside_experts(self) -> list[tuple[RowJson, RowJson]]:
        """The same setting on the dense target and on the mixture of experts."""
        dense = {(row["name"], *place_of(row)): row for row in self.exact_single}
        sparse = [row for row in self.of_experts if row["batch"] == 1 and not row["lossy"]]
        return [(dense[key], row) for row in sparse if (key := (row["name"], *place_of(row))) in dense]

    @property
    def _largest(self) -> RowJson | None:
        return max(self.benches, key=lambda bench: len(bench["rows"]), default=None)

    @property
    def _main_benches(self) -> Sequence[RowJson]:
        """The benchmarks with the models of the largest one."""
        largest = self._largest
        return [bench for bench in self.benches if largest is not None and _models(bench) == _models(largest)]

    @property
    def machine(self) -> RowJson:
        """Of the largest benchmark, or of the first file that names one."""
        file = next((file for file in (self._largest, self.regret, self.advice, self.gpu) if file), None)
        return file["machine"] if file else {}


def fastest(rows: Sequence[RowJson]) -> RowJson:
    """The row with the largest speedup."""
    return max(rows, key=lambda row: row["ratio_to_plain"]["median"])


def place_of(row: RowJson) -> tuple[object, ...]:
    """What rows must share to be compared."""
    return row["kind"], row["temperature"], row["batch"], row["context"]


def _models(bench: RowJson) -> tuple[object, object]:
    return bench["machine"].get("target"), bench["machine"].get("draft")


def _loops(row: RowJson) -> bool:
    return bool(int(row.get("looping") or 0) > row["runs"] / 2)


def _drafted_rows(bench: RowJson) -> list[RowJson]:
    return [row for row in bench["rows"] if row["system"] == "draftscope" and row["drafter"] != "plain"]


def read(path: Path, field: str) -> RowJson:
    """A file of one JSON object that has `field`. Raises `DraftscopeError` for another one."""
    text = read_bytes(path, "The file of results")
    try:
        results = json.loads(text)
    except ValueError:
        results = None
    if not isinstance(results, dict) or field not in results:
        raise DraftscopeError(f"The results '{path}' are no JSON object with '{field}'; give the file of that command.")
    return results


def in_folder(folder: Path) -> SavedResults:
    """Everything that the commands wrote into the folder and the folders in it."""
    benches, regrets, advices, records, gpus = (
        [read(path, field) for path in sorted(folder.rglob(name))]
        for name, field in (
            ("bench.json", "rows"), ("regret.json", "rows"), ("advice.json", "limits"), ("training.json", "name"),
            ("gpu.json", "sections"),
        )
    )  # fmt: skip
    continued = [record for record in records if record.get("before")]
    return SavedResults(benches, *(next(iter(files), None) for files in (regrets, advices, continued, gpus)))
