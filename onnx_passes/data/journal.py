"""The journal of a run: each finished shard is a line, so that a killed run can continue."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Self

from onnx_passes.data.evaluation_job import FORMAT, DataJob
from onnx_passes.errors import OnnxPassesError, UsageError
from onnx_passes.plain import PlainDict


class JournalError(OnnxPassesError):
    """The journal cannot be written."""

    code: ClassVar[str] = "journal"


_WHAT = {
    "plan": "the data set, or how it is fed",
    "models": "a model",
    "engines": "an engine",
    "measures": "what is measured",
}


class Journal:
    """Outcomes of shards in a file that is only appended to.

    The first line names the job; each further line is an outcome, on the disk before it
    counts. A line that a kill cut short is ignored, and evaluated again.

    Args:
        path: The file; it is made if it is not there.
        job: The job that it belongs to.

    Raises:
        UsageError: It belongs to another job, another process writes it, or it is not one.
        JournalError: It cannot be written.
    """

    def __init__(self, path: Path, job: DataJob) -> None:
        self._path = path
        self._places: dict[int, int] = {}
        try:
            self._file: BinaryIO = open(path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._fault(error) from error
        try:
            self._lock()
            end = self._read(job)
            # A line that was cut short would spoil the next one.
            self._file.truncate(end)
            if not end:
                self._append({"journal": FORMAT, "key": job.key})
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"the journal {self._path} is in use by another run",
                help="wait for it, or give another --journal",
            ) from error

    def _read(self, job: DataJob) -> int:
        """Find the outcomes; return where the last whole line ends."""
        self._file.seek(0)
        end = 0
        with open(self._path, "rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                except ValueError:
                    break
                if end == 0:
                    self._check(entry, job)
                elif "error" not in entry:
                    # What failed is tried again: the fault may be mended.
                    self._places[entry["shard"]] = end
                end += len(line)
        if end == 0 and self._path.stat().st_size:
            with open(self._path, "rb") as file:
                if not file.read(64).lstrip().startswith(b'{"journal"'):
                    raise self._foreign()
        return end

    def _foreign(self) -> UsageError:
        return UsageError(
            f"{self._path} is not a journal of a data set run", help="give another --journal"
        )

    def _check(self, entry: object, job: DataJob) -> None:
        if not isinstance(entry, dict) or entry.get("journal") != FORMAT:
            raise self._foreign()
        other = [name for name, value in job.key.items() if entry["key"].get(name) != value]
        if other:
            raise UsageError(
                f"the journal {self._path} is of another run: "
                f"{' and '.join(_WHAT[name] for name in other)} changed since",
                help="remove it to start anew, or give another --journal",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    def __contains__(self, shard: int) -> bool:
        return shard in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._places))

    def get(self, shard: int) -> PlainDict:
        """Return the outcome of a shard that is in the journal."""
        with open(self._path, "rb") as file:
            file.seek(self._places[shard])
            outcome: PlainDict = json.loads(file.readline())
            return outcome

    def add(self, outcome: PlainDict) -> None:
        """Write an outcome, and wait until it is on the disk.

        Raises:
            JournalError: The disk is full, or gone.
        """
        end = self._append(outcome)
        if "error" not in outcome:
            self._places[outcome["shard"]] = end

    def _append(self, entry: PlainDict) -> int:
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            end = self._file.seek(0, os.SEEK_END)
            written = self._file.write(line)
            if written == len(line):
                os.fsync(self._file.fileno())
                return end
            self._file.truncate(end)
        except OSError as error:
            raise self._fault(error) from error
        raise self._fault(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _fault(self, error: OSError) -> JournalError:
        return JournalError(
            f"the journal {self._path} cannot be written: {error.strerror or error}",
            help="make room, then run the same command again: finished shards are kept",
        )
