"""Runs that may end the process, noted on a page that the parent process reads.

Some values end the process of an engine. The program therefore runs below a small parent,
:mod:`onnx_passes.cli.supervision`, which repeats a command without what ended it.
Without such a parent nothing is written and nothing is avoided.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from mmap import mmap
from types import TracebackType

INPUTS = "made-up inputs"
"""The group of inputs at the edges of what a model takes, and of what follows from them."""

GENERATED = "generated inputs"
"""The group of ordinary inputs, and of others in their place."""

DRAWN = "drawn values"
"""The group of values that parts of a model run on alone, and of values that are disturbed."""

FOLDING = "folding"
"""The group of nodes that are computed because their inputs are constants."""

ENGINES = "engines"
"""The group of engines that run the original, where nothing else is known of a run."""

AHEAD = "a result ahead of the original"
"""The group of engines that run a result before it is known that they run the original."""

INFERENCE = "shape inference"
"""The group of questions to onnx, whose library ends the process on some sizes."""

GROUPS = (INPUTS, GENERATED, DRAWN, FOLDING, ENGINES, AHEAD, INFERENCE)
"""What a command can do without."""
RESULT = "the check of the result"
"""The name of what runs at the end, on one engine or on all."""

MANY = "many at once"
"""The detail of what runs in one session with others of its group."""

_HEAD, _SLOT, _SLOTS = 64, 1024, 64
_LONGEST_LABEL = 300
_SHOWN = 3
_PLACE = struct.Struct("=dH")
"""Of a slot: when a run began, by the monotonic clock, and bytes of the labels behind it."""
_LONGEST = struct.Struct("=d")


def label(group: str, detail: str) -> str:
    """Return what a run is called, should it end the process: the same in each run."""
    text = f"{group} ({detail})".encode(errors="replace")
    return text[:_LONGEST_LABEL].decode(errors="replace").replace("\n", " ")


def group_of(label: str) -> str:
    """Return the group of a label: what stands before its details in parentheses."""
    return label.partition(" (")[0]


class Page:
    """Memory that a process shares with those that it forks."""

    def __init__(self) -> None:
        self._memory = mmap(-1, _HEAD + _SLOT * _SLOTS)
        self._free = list(range(_HEAD, len(self._memory), _SLOT))

    @property
    def code(self) -> int | None:
        """The exit code that the program announced; None if it did not end by itself."""
        return self._memory[1] if self._memory[0] else None

    @code.setter
    def code(self, code: int) -> None:
        self._memory[:2] = bytes((1, code & 255))

    @property
    def longest(self) -> float:
        """Seconds of the longest run on ordinary inputs."""
        return float(_LONGEST.unpack_from(self._memory, 8)[0])

    @longest.setter
    def longest(self, seconds: float) -> None:
        _LONGEST.pack_into(self._memory, 8, seconds)

    def take_slot(self) -> int | None:
        """Return a slot for a thread; None if there is none left."""
        return self._free.pop() if self._free else None

    def release(self, slot: int) -> None:
        """Clear a slot, for another thread."""
        _PLACE.pack_into(self._memory, slot, 0.0, 0)
        self._free.append(slot)

    def write(self, slot: int, labels: tuple[str, ...]) -> None:
        """Note what begins now, the innermost label last. What does not fit is cut."""
        text = "\n".join(labels).encode(errors="replace")[: _SLOT - _PLACE.size]
        self._memory[slot + _PLACE.size : slot + _PLACE.size + len(text)] = text
        _PLACE.pack_into(self._memory, slot, time.monotonic(), len(text))

    def active(self) -> dict[tuple[int, float], tuple[str, ...]]:
        """Return the labels of what runs, by slot and by when the innermost began."""
        found = {}
        for slot in range(_HEAD, len(self._memory), _SLOT):
            began, size = _PLACE.unpack_from(self._memory, slot)
            if size:
                text = self._memory[slot + _PLACE.size : slot + _PLACE.size + size]
                found[slot, began] = tuple(text.decode(errors="replace").split("\n"))
        return found


_page: Page | None = None
_avoided: dict[str, str] = {}
_alone = False
_reported: set[str] = set()
_mine = threading.local()


def attach(page: Page, avoided: dict[str, str], *, alone: bool) -> None:
    """Note on a page what this process runs.

    ``avoided`` are labels and groups to avoid, each with what an engine died of. With
    ``alone`` one run waits for the other, so that it is known which one dies.
    """
    global _page, _avoided, _alone
    _page, _avoided, _alone = page, avoided, alone
    os.register_at_fork(after_in_child=_detach)


def _detach() -> None:
    global _page
    _page = None


def one_at_a_time() -> bool:
    """Whether runs must not go on beside each other."""
    return _alone


def announce(code: int) -> None:
    """Note that the program ends by itself."""
    if _page is not None:
        _page.code = code


def avoided(label: str) -> str | None:
    """Return why a run must not take place, as a sentence; None if it may."""
    cause = _avoided.get(label) or _avoided.get(group_of(label))
    return None if cause is None else f"{_who(label)} {cause} there"


def _who(label: str) -> str:
    return "onnx" if group_of(label) == INFERENCE else "an engine"


def allow(group: str) -> None:
    """Run what was to be avoided: there is nothing else to run."""
    for one in [one for one in _avoided if group_of(one) == group]:
        del _avoided[one]


def take_notes() -> list[str]:
    """Return what this run does without, a sentence for each cause, and not again."""
    # Without a result ahead nothing is lost.
    new = [one for one in _avoided if one not in _reported and group_of(one) != AHEAD]
    _reported.update(new)
    groups = Counter(map(group_of, new))
    told: dict[str, list[str]] = defaultdict(list)
    for one in new:
        # What was found when each ran by itself says more.
        if not one.endswith(f"({MANY})") or groups[group_of(one)] == 1:
            told[f"{_who(one)} {_avoided[one]} there"].append(one)
    return [
        f"the run was repeated without {_listed(names)}: {cause}"
        for cause, names in told.items()
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def running(label: str) -> AbstractContextManager[object]:
    """Note what this thread runs until the block ends: a :func:`label`, or a stage."""
    return _Running(label) if _page is not None else _NOTHING


def engine_run(label: str | None = None) -> AbstractContextManager[object]:
    """Note that an engine runs once; by default under the label of the block around it."""
    timed = label is None or group_of(label) == GENERATED
    return _Running(label, timed=timed) if _page is not None else _NOTHING


class _Running:
    __slots__ = ("_began", "_label", "_outer", "_slot", "_timed")

    def __init__(self, label: str | None, *, timed: bool = False) -> None:
        self._label, self._timed = label, timed

    def __enter__(self) -> None:
        page = _page
        self._outer: tuple[str, ...] = getattr(_mine, "labels", ())
        self._slot: int | None = getattr(_mine, "slot", None)
        self._began = time.monotonic()
        labels = self._outer if self._label is None else (*self._outer, self._label)
        if page is None or not labels:
            return
        if group_of(labels[-1]) in GROUPS:
            _silence_aborts()
        if self._slot is None:
            _mine.slot = page.take_slot()
        _mine.labels = labels
        if _mine.slot is not None:
            page.write(_mine.slot, labels)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        page = _page
        if page is None:
            return
        if self._timed and (seconds := time.monotonic() - self._began) > page.longest:
            page.longest = seconds
        slot = getattr(_mine, "slot", None)
        _mine.labels, _mine.slot = self._outer, self._slot
        if slot is not None and self._slot is None:
            page.release(slot)
        elif slot is not None:
            page.write(slot, self._outer)


@cache
def _silence_aborts() -> None:
    """Let C++ end this process without a line: notes of the repeated run say why it ended."""
    import ctypes

    with suppress(OSError, AttributeError):
        set_handler = ctypes.CDLL("libstdc++.so.6")["_ZSt13set_terminatePFvvE"]
        set_handler(ctypes.cast(ctypes.CDLL(None)["abort"], ctypes.c_void_p))


_NOTHING = nullcontext()
