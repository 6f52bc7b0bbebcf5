"""Verified states on the disk: a manifest for each, and blobs that several may share.

A manifest is written last, under a name of its own, and begins with the digest of the rest;
what it refers to is named by its content. So a reader sees a whole state or none, whoever is
writing or cleaning up at that moment, and wherever a writer was stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from onnx_passes.errors import ModelError, OnnxPassesError
from onnx_passes.io.atomic import pending
from onnx_passes.io.blobs import GRACE, Blobs
from onnx_passes.io.detached import Row
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.journal import Event
from onnx_passes.report.json import from_json, to_json
from onnx_passes.report.model import PassReport, RunReport

try:
    import fcntl
except ImportError:  # Windows: there, grace periods have to do
    fcntl = None  # type: ignore[assignment]

LAYOUT = 1
LIMIT = 4 << 30
"""Bytes that saved states may take; the least recently used go first."""

KEPT = 8
"""States that one run leaves at most; the older ones are for when an early pass is changed."""


@dataclass(frozen=True)
class State:
    """A verified state of a run, as plain data.

    Attributes:
        parts: What the run depends on besides its steps: a digest for each, by name.
        model: Path of the input model.
        written: When, ISO 8601.
        planned: Number of passes asked for.
        events: What was done.
        passes: The reports of it.
        applied: Every rewrite.
        skip: Keys of rewrites that are not made again.
        notes: What the report of the run said by then.
        shared: What passes have left for each other.
        results: Results of analyses that are plain data.
        budget: What the gate remembers.
        graph: Digest of the graph without its tensors.
        tensors: Where each tensor is.
        names: By graph, what names were given.
        constants: Outputs of nodes whose constant is noted: graph, node, output by position.
    """

    parts: dict[str, str]
    model: str
    written: str
    planned: int | None
    events: list[Event]
    passes: list[PassReport]
    applied: list[Application]
    skip: list[str]
    notes: list[str]
    shared: dict[str, Any]
    results: dict[str, Any]
    budget: dict[str, Any]
    graph: str
    tensors: list[Row]
    names: list[dict[str, Any]] = field(default_factory=list)
    constants: list[list[int]] = field(default_factory=list)

    @property
    def blobs(self) -> set[str]:
        """The digests of the blobs that it needs."""
        return {self.graph, *(row["blob"] for row in self.tensors if "blob" in row)}


class States:
    """The states in a folder.

    Args:
        folder: Made when the first state is written.
        limit: Bytes that all of it may take.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder, self.limit = folder, limit
        self.blobs = Blobs(folder / "blobs")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let nobody remove blobs until the manifest that refers to them is there.

        Raises:
            OSError: The folder cannot be written to.
        """
        with self._lock(exclusive=False):
            yield

    def save(self, state: State) -> Path:
        """Write a state, whose blobs are there already.

        Raises:
            OSError: It cannot be written.
        """
        text = _to_json(state).encode()
        run = self.folder / "runs" / key_of(state.parts)
        run.mkdir(parents=True, exist_ok=True)
        path = run / f"{len(state.events):06d}-{secrets.token_hex(6)}.json"
        with pending(path) as file:
            file.write(hashlib.sha256(text).hexdigest().encode() + b"\n")
            file.write(text)
            file.publish(path)
        return path

    def read(self, path: Path) -> State:
        """Read a state.

        Raises:
            ModelError: It is gone, torn, changed, or of another layout.
        """
        try:
            digest, _, text = path.read_bytes().partition(b"\n")
        except OSError as error:
            raise ModelError(
                f"it cannot be read: {error.strerror}", where=str(path)
            ) from error
        if hashlib.sha256(text).hexdigest().encode() != digest:
            raise ModelError("it is not what was written", where=str(path))
        try:
            state = _from_json(text.decode())
            "".join(state.blobs)  # digests are text
        except (ValueError, TypeError, KeyError, OnnxPassesError) as error:
            raise ModelError("it is of another layout", where=str(path)) from error
        return state

    def of(self, parts: dict[str, str]) -> list[Path]:
        """List the states of a run, those that have come furthest first, then the newest."""
        found = [p for p in self._manifests() if p.parent.name == key_of(parts)]
        return sorted(found, key=lambda p: (p.name.partition("-")[0], _time(p)), reverse=True)

    def others(self) -> list[Path]:
        """List the newest state of each run, the newest first."""
        newest: dict[str, Path] = {}
        for path in sorted(self._manifests(), key=_time):
            newest[path.parent.name] = path
        return sorted(newest.values(), key=_time, reverse=True)

    def forget(self, paths: Sequence[Path], *, grace: float = GRACE) -> None:
        """Remove states, and the blobs that none of the others needs.

        Where another process is writing, that is left to whoever cleans up next.
        """
        with suppress(OSError), self._lock(exclusive=True):
            self._forget(paths, grace)

    def _forget(self, paths: Sequence[Path], grace: float) -> None:
        own: set[str] = set()
        for path in paths:
            with suppress(OnnxPassesError):
                own |= self.read(path).blobs
            _remove(path)
        used = self._used()
        for digest in own - used:
            with suppress(OSError):
                self.blobs.path(digest).unlink()
        self.blobs.sweep(used, grace=grace)

    def prune(self, keep: Sequence[Path] = (), *, grace: float = GRACE) -> None:
        """Remove the least recently used states until the rest fits the limit.

        Args:
            keep: States that stay in any case.
            grace: Seconds for which blobs stay that nothing refers to.
        """
        with suppress(OSError), self._lock(exclusive=True):
            self._prune(keep, grace)

    def _prune(self, keep: Sequence[Path], grace: float) -> None:
        oldest = time.time() - grace
        for torn in (self.folder / "runs").glob("*/.*.tmp"):
            if _time(torn) < oldest:
                _remove(torn)
        self.blobs.sweep(self._used(), grace=grace)
        while self.size() > self.limit:
            rest = sorted((p for p in self._manifests() if p not in keep), key=_time)
            if not rest:
                return
            self._forget(rest[:1], grace)

    def size(self) -> int:
        """Return the bytes that all states take."""
        total = sum(self.blobs.sizes().values())
        for path in self._manifests():
            with suppress(OSError):
                total += path.stat().st_size
        return total

    @contextmanager
    def _lock(self, *, exclusive: bool) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "ab") as file:
            if fcntl is not None:
                # Who cleans up does not wait for who writes.
                how = fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH
                fcntl.flock(file, how)
            yield

    def _used(self) -> set[str]:
        used: set[str] = set()
        for path in self._manifests():
            with suppress(OnnxPassesError):
                used |= self.read(path).blobs
        return used

    def _manifests(self) -> list[Path]:
        return list((self.folder / "runs").glob("*/*-*.json"))


def key_of(parts: dict[str, str]) -> str:
    """Return the key of a run, under which its states lie."""
    text = json.dumps([LAYOUT, sorted(parts.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def touch(path: Path) -> None:
    """Note that a state was used now."""
    with suppress(OSError):
        os.utime(path)


def _to_json(state: State) -> str:
    data = {key: getattr(state, key) for key in State.__dataclass_fields__}
    data["events"] = [asdict(event) for event in state.events]
    data["applied"] = [asdict(application) for application in state.applied]
    data["passes"] = to_json(RunReport("", None, "", True, passes=state.passes))
    return json.dumps({"layout": LAYOUT, **data}, allow_nan=False)


def _from_json(text: str) -> State:
    data = json.loads(text)
    if data.pop("layout") != LAYOUT:
        raise ValueError("another layout")
    data["passes"] = from_json(data["passes"]).passes
    data["events"] = [
        Event(**{**e, "valid": tuple(e["valid"]), "stored": tuple(e["stored"])})
        for e in data["events"]
    ]
    data["applied"] = [
        Application(
            a["number"],
            a["rule"],
            a["key"],
            tuple(a["nodes"]),
            tuple((old, new) for old, new in a["replaced"]),
            tuple(a["new_nodes"]),
        )
        for a in data["applied"]
    ]
    return State(**data)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    with suppress(OSError):
        path.parent.rmdir()


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
