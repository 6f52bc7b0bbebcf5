"""Compare a record with the frozen lines, and freeze a record.

A line of a record is one model of a suite, put through one preset. The frozen lines are kept
in a file for each half. A frozen line also has its size, and names the fields that differ
between runs of the same code, with the reason.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from benchmarks.yardstick.suites import ABSENT, SIZES, Key, Record, half_of_model

Records = dict[Key, Record]

KEY = ("suite", "model", "preset")
NOT_COMPARED = ("size", "unstable")
FROZEN = Path(__file__).parent
MOST_UNSTABLE = 0.01
"""Share of the frozen lines that may have fields that are not stable."""
OPEN_HALF = 0
"""The half that is looked at. Of the other one, only numbers are printed."""


def read(*paths: Path) -> Records:
    """Return the lines of records by key, without lines that were cut off."""
    found: Records = {}
    for path in paths:
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            suite, model, preset = (entry.pop(name) for name in KEY)
            found[suite, model, preset] = entry
    return found


def line_of(key: Key, entry: Record) -> str:
    """Return a line of a record."""
    named = dict(zip(KEY, key, strict=True)) | entry
    return json.dumps(named, ensure_ascii=False, separators=(",", ":")) + "\n"


def half_files(folder: Path = FROZEN) -> list[Path]:
    """Return the files of the frozen lines, by half."""
    return [folder / f"half_{half}.jsonl" for half in (0, 1)]


def within(records: Records, size: str, suites: Sequence[str], half: int | None) -> Records:
    """Return the frozen lines that a run of a size, of some suites and of a half compares."""
    wanted = SIZES[: SIZES.index(size) + 1]
    return {
        key: entry
        for key, entry in records.items()
        if entry["size"] in wanted
        and (not suites or key[0] in suites)
        and half in (None, half_of_model(*key[:2]))
    }


@dataclass
class Comparison:
    """What differs between frozen lines and a record.

    Attributes:
        compared: Number of lines in both.
        changed: By field and key, the first thing that differs.
        gone: Frozen lines that the record does not have.
        new: Lines that are not frozen.
        not_run: Lines that were not run, with the reason.
        unstable: Number of fields that are not compared, because they are not stable.
    """

    compared: int = 0
    changed: dict[str, dict[Key, str]] = field(default_factory=lambda: defaultdict(dict))
    gone: list[Key] = field(default_factory=list)
    new: list[Key] = field(default_factory=list)
    not_run: dict[Key, str] = field(default_factory=dict)
    unstable: int = 0

    @property
    def differs(self) -> bool:
        """Whether a frozen line is not as it was."""
        return bool(self.changed or self.gone)


def compare(frozen: Records, record: Records) -> Comparison:
    """Compare frozen lines with a record, field by field."""
    found = Comparison(
        not_run={k: e["reason"] for k, e in record.items() if e["outcome"] == "not run"}
    )
    absent = {suite for suite, model, _ in found.not_run if model == ABSENT}
    for key in sorted(frozen.keys() | record.keys()):
        if key in found.not_run or key[0] in absent:
            continue
        if key not in record:
            found.gone.append(key)
        elif key not in frozen:
            found.new.append(key)
        else:
            found.compared += 1
            _compare_line(found, key, frozen[key], record[key])
    return found


def _compare_line(found: Comparison, key: Key, old: Record, new: Record) -> None:
    unstable = old.get("unstable", {})
    found.unstable += len(unstable)
    for name in sorted(old.keys() | new.keys()):
        same = old.get(name) == new.get(name)
        if not same and name not in NOT_COMPARED and name not in unstable:
            found.changed[name][key] = _first(old.get(name), new.get(name))


def _first(old: Any, new: Any) -> str:
    """Return the first part in which two values differ, as text."""
    if isinstance(old, list) and isinstance(new, list):
        parts = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        _, a, b, c, d = next(part for part in parts if part[0] != "equal")
        old, new = "; ".join(old[a:b]), "; ".join(new[c:d])
    if isinstance(old, dict) and isinstance(new, dict):
        name = next(n for n in {**old, **new} if old.get(n) != new.get(n))
        return f"{name} {_first(old.get(name), new.get(name))}"
    return f"{_short(old)}, now {_short(new)}"


def _short(value: Any) -> str:
    text = "nothing" if value in (None, "") else str(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def report(found: Comparison, show: int, half: int | None = None) -> list[str]:
    """Return what differs as lines.

    Args:
        found: The comparison.
        show: Number of models to name for each field.
        half: The half that the reader asked for, which is then shown even if it is held back.
    """
    lines = [f"{found.compared} lines compared"]
    if found.unstable:
        lines[0] += f", {found.unstable} fields of them skipped as unstable"
    reasons: dict[tuple[str, str], int] = Counter(
        (key[0], reason) for key, reason in found.not_run.items()
    )
    lines += [f"not run: {s}, {n} lines: {why}" for (s, why), n in reasons.items()]
    if found.new:
        lines.append(f"{len(found.new)} lines are not frozen, and were not compared")
    if not found.differs:
        return [*lines, "no line differs" if found.compared else "nothing was compared"]

    def visible(key: Key) -> bool:
        shown = OPEN_HALF if half is None else half
        return half_of_model(*key[:2]) == shown

    if found.gone:
        texts = dict.fromkeys(found.gone, "frozen, and not in the record")
        lines += _section("gone", texts, show, visible)
    for name in sorted(found.changed, key=lambda name: (name != "outcome", name)):
        lines += _section(name, found.changed[name], show, visible)
    return lines


def _section(
    name: str, texts: dict[Key, str], show: int, visible: Callable[[Key], bool]
) -> list[str]:
    """Return the lines of one field; models of the half that is held back are counted."""
    kinds = Counter((key[0], key[2]) for key in texts)
    where = ", ".join(f"{n} in {suite} {preset}" for (suite, preset), n in kinds.items())
    shown = sorted(filter(visible, texts))
    lines = ["", f"{name}: {len(texts)} differ ({where})"]
    lines += [f"  {' | '.join(key)}: {texts[key]}" for key in shown[:show]]
    if rest := len(shown[show:]):
        lines.append(f"  and {rest} more")
    if held := len(texts) - len(shown):
        lines.append(f"  and {held} in the half that is held back")
    return lines


def freeze(
    records: Sequence[Records],
    sizes: dict[Key, str],
    reason: str | None,
    folder: Path = FROZEN,
) -> list[str]:
    """Write records of the same code as the frozen lines; return what was done.

    Lines that the first record has are replaced, and the others stay. Lines of items that no
    longer exist are removed. Fields that differ between the records are marked as unstable.

    Args:
        records: One record or several of the same lines.
        sizes: The smallest size of each item that exists.
        reason: Why fields differ between the records.
        folder: Folder of the frozen lines.

    Raises:
        ValueError: Fields differ and no reason is given, or too many lines have such fields.
    """
    old, (first, *others) = read(*half_files(folder)), records
    entries = {
        key: {"size": sizes[key], **entry}
        for key, entry in first.items()
        if key in sizes and entry["outcome"] != "not run"
    }
    marks = {key: dict(old.get(key, {}).get("unstable", {})) for key in entries}
    for other in others:
        for name, texts in compare(first, other).changed.items():
            for key in texts.keys() & entries.keys():
                marks[key].setdefault(name, reason)
    nameless = [key for key, mark in marks.items() if None in mark.values()]
    if nameless:
        shown = "\n  ".join(f"{' | '.join(key)}: {', '.join(marks[key])}" for key in nameless)
        raise ValueError(f"{len(nameless)} lines differ between the records:\n  {shown}")
    for key, mark in marks.items():
        if mark:
            entries[key]["unstable"] = mark
    absent = {suite for suite, model, _ in sizes if model == ABSENT}
    kept = {
        key: entry | {"size": sizes.get(key, entry["size"])}
        for key, entry in old.items()
        if key not in entries and (key in sizes or key[0] in absent)
    }
    lines = kept | entries
    unstable = sum("unstable" in entry for entry in lines.values())
    if unstable > MOST_UNSTABLE * len(lines):
        raise ValueError(f"{unstable} of {len(lines)} lines are unstable; 1 % may be")
    for half, path in enumerate(half_files(folder)):
        chosen = sorted(key for key in lines if half_of_model(*key[:2]) == half)
        path.write_text("".join(line_of(key, lines[key]) for key in chosen), "utf-8")
    return [f"{len(entries)} lines frozen, {len(kept)} kept, {unstable} unstable"]


def count(records: Iterable[tuple[Key, Record]], seconds: dict[str, float]) -> list[str]:
    """Return a table of outcomes by suite, with the processor time that was just spent."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for (suite, _, _), entry in records:
        rows[suite][entry["outcome"]] += 1
    lines = ["| suite | lines | outcomes | processor seconds |", "|---" * 4 + "|"]
    for suite, outcomes in rows.items():
        parts = ", ".join(f"{number} {name}" for name, number in outcomes.most_common())
        lines.append(
            f"| {suite} | {outcomes.total()} | {parts} | {seconds.get(suite, 0):.0f} |"
        )
    return lines
