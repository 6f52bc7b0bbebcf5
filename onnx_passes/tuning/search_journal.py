"""The record of a search: every score, every model that was tried, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import Feeds, Outputs
from onnx_passes.tuning.format_scores import Score
from onnx_passes.tuning.sketch import Sketch

FORMAT = 1
_NAME = "record.jsonl"


class Record:
    """Decisions in a folder, one a line, from which a search continues.

    Args:
        folder: The folder; it is made if it is not there. None keeps all in memory.
        key: What identifies model, data and settings.

    Raises:
        UsageError: The folder holds the record of another search.
    """

    def __init__(self, folder: Path | None, key: str) -> None:
        self.folder, self.entries = folder, list[PlainDict]()
        if folder is None:
            return
        (folder / "effects").mkdir(parents=True, exist_ok=True)
        path = folder / _NAME
        if path.exists():
            self.entries = list(_lines(path))
            found = self.entries[0].get("key") if self.entries else None
            if found != key:
                raise UsageError(
                    f"the record in {folder} is that of another model, data or settings",
                    help="give another --record, or remove the folder",
                )
            # A line that was cut short would spoil the next one.
            path.write_text("".join(_line(entry) for entry in self.entries))
        else:
            self.add("search", format=FORMAT, key=key)

    def add(self, event: str, **data: object) -> None:
        """Write down a decision."""
        entry = {"event": event, **data}
        self.entries.append(entry)
        if self.folder is not None:
            with open(self.folder / _NAME, "a", encoding="utf-8") as file:
                file.write(_line(entry))

    def of(self, event: str) -> list[PlainDict]:
        """Return the decisions of a kind, in order."""
        return [entry for entry in self.entries if entry["event"] == event]

    def add_score(self, score: Score) -> None:
        """Write down a score, and how it moves the outputs."""
        if self.score(score.group, score.format) is not None:
            return
        number = len(self.of("score"))
        if self.folder is not None:
            arrays = {
                f"{place} {name}": array
                for place, sample in enumerate(score.effect)
                for name, array in sample.items()
            }
            path = self.folder / "effects" / f"{number}.npz"
            np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy names no such type
        self.add(
            "score",
            number=number,
            group=score.group,
            format=score.format,
            refused=score.refused,
            snr=plain(score.snr),
            cost=score.cost,
            shared=score.shared,
            samples=len(score.effect),
            bounds={name: plain(bound) for name, bound in score.bounds.items()},
        )

    def score(self, group: str, name: str) -> Score | None:
        """Return a score that was written down; None if there is none.

        Args:
            group: Name of the group.
            name: Name of the format.
        """
        for entry in self.of("score"):
            if (entry["group"], entry["format"]) == (group, name):
                return self._read(entry)
        return None

    def _read(self, entry: PlainMapping) -> Score | None:
        if self.folder is None:
            return None
        path = self.folder / "effects" / f"{entry['number']}.npz"
        if not path.exists():
            return None
        effect = _read_arrays(path, entry["samples"])
        return Score(
            entry["group"],
            entry["format"],
            entry["refused"],
            float(entry["snr"]),
            entry["cost"],
            effect,
            {name: float(bound) for name, bound in entry["bounds"].items()},
            entry.get("shared", 0.0),
        )

    def add_sketch(self, sketch: Sketch) -> None:
        """Write down which samples groups are scored on, if they were chosen."""
        if sketch.numbers:
            self.add(
                "sketch",
                numbers=list(sketch.numbers),
                represented=[list(places) for places in sketch.represented],
                by_rows=sketch.by_rows,
            )

    def sketch(self, feeds: Sequence[Feeds]) -> Sketch | None:
        """Return the samples that were chosen by an earlier run; None if none were.

        Args:
            feeds: All samples, arrays of any type by name with the axis of samples first.
        """
        for entry in self.of("sketch"):
            numbers, represented = entry["numbers"], entry["represented"]
            return Sketch.of(feeds, numbers, represented, by_rows=entry["by_rows"])
        return None

    def add_outputs(self, names: Mapping[str, str], outputs: Sequence[Outputs]) -> None:
        """Record what a choice computed on the few samples; nothing without a folder.

        Args:
            names: The format of each group.
            outputs: The outputs by name, of any shape and type, for each sample.
        """
        if self.folder is None or self.outputs(names) is not None:
            return
        number = len(self.of("run"))
        arrays = {
            f"{place} {name}": value
            for place, sample in enumerate(outputs)
            for name, value in sample.items()
        }
        if all(isinstance(value, np.ndarray) for value in arrays.values()):
            np.savez(self.folder / "effects" / f"run{number}.npz", **arrays)  # type: ignore[arg-type]
            self.add("run", number=number, names=dict(names), samples=len(outputs))

    def outputs(self, names: Mapping[str, str]) -> list[Outputs] | None:
        """Return what a choice computed on the few samples; None if it is not known."""
        for entry in self.of("run"):
            if self.folder is not None and entry["names"] == dict(names):
                path = self.folder / "effects" / f"run{entry['number']}.npz"
                return _read_arrays(path, entry["samples"]) if path.exists() else None
        return None


def _read_arrays(path: Path, samples: int) -> list[PlainDict]:
    found: list[PlainDict] = [{} for _ in range(samples)]
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            place, _, name = key.partition(" ")
            found[int(place)][name] = arrays[key]
    return found


def plain(number: float) -> float | str:
    """Return a number as JSON has it: infinities and NaN as text."""
    return number if np.isfinite(number) else str(number)


def _line(entry: PlainMapping) -> str:
    return json.dumps(entry, sort_keys=True) + "\n"


def _lines(path: Path) -> Iterator[PlainDict]:
    for line in path.read_text("utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if isinstance(entry, dict):
            yield entry


def read_record(folder: Path) -> list[PlainDict]:
    """Return the decisions in a folder.

    Raises:
        UsageError: There are none.
    """
    path = folder / _NAME
    if not path.is_file():
        raise UsageError(
            f"there is no record in {folder}", help="run tune with --record first"
        )
    return list(_lines(path))
