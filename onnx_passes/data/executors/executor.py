"""What an executor is: shards go in by number, outcomes come out in any order."""

from __future__ import annotations

import time
from typing import ClassVar, Protocol

from onnx_passes.data.evaluation_job import DataJob
from onnx_passes.data.shard_evaluation import Evaluator, Sessions
from onnx_passes.errors import EngineError
from onnx_passes.plain import PlainDict

WAIT = 0.5
"""Seconds between two looks at whether workers are still there."""


class WorkersGoneError(EngineError):
    """The workers cannot be reached any more; what they finished is in the journal."""

    code: ClassVar[str] = "workers-gone"


class Executor(Protocol):
    """Runs shards of a job."""

    @property
    def name(self) -> str:
        """What a report calls it."""
        ...

    @property
    def slots(self) -> int:
        """How many shards should be under way, so that no worker waits."""
        ...

    def start(self, job: DataJob) -> None:
        """Get ready for a job; workers that are kept from one before are used.

        Raises:
            OnnxPassesError: Workers cannot be started or reached, or a model cannot be run.
        """
        ...

    def submit(self, shard: int) -> None:
        """Have a shard evaluated; the same one may be submitted again after its outcome."""
        ...

    def collect(self) -> PlainDict:
        """Wait for an outcome; see ``Evaluator.shard``.

        A worker that died is an outcome too, with "error", "retry" and "died".

        Raises:
            WorkersGoneError: There are no workers any more.
        """
        ...

    def rest(self) -> None:
        """Give up shards under way, and keep the workers for another job."""
        ...

    def close(self) -> None:
        """End what :meth:`start` started; shards under way are given up."""
        ...


class InProcess:
    """Evaluates shards in this process, one after the other."""

    name = "in process"
    slots = 1

    def __init__(self) -> None:
        self._todo: list[int] = []
        self._sessions = Sessions()
        self._evaluator: Evaluator | None = None

    def start(self, job: DataJob) -> None:
        """Get ready; see ``Executor.start``."""
        self._sessions.keep(job)
        self._evaluator = Evaluator(job, self._sessions)
        self._evaluator.warm()

    def submit(self, shard: int) -> None:
        """Take a shard; see ``Executor.submit``."""
        self._todo.append(shard)

    def collect(self) -> PlainDict:
        """Evaluate the next shard."""
        assert self._evaluator is not None
        return self._evaluator.shard(self._todo.pop(0))

    def rest(self) -> None:
        """Give up shards; the sessions stay ready."""
        self._todo.clear()

    def close(self) -> None:
        """Free the sessions."""
        self._sessions.close()


class KeptExecutor:
    """An executor whose workers stay from one job to the next.

    Args:
        executor: What runs the shards.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.start, self.submit = executor.start, executor.submit
        self.collect, self.rest = executor.collect, executor.rest

    @property
    def name(self) -> str:
        """What a report calls it."""
        return self._executor.name

    @property
    def slots(self) -> int:
        """How many shards should be under way."""
        return self._executor.slots

    def close(self) -> None:
        """Give up shards under way."""
        self._executor.rest()

    def end(self) -> None:
        """End the workers."""
        self._executor.close()


def died(shard: int, samples: int, reason: str) -> PlainDict:
    """Return the outcome of a shard whose worker ended.

    Args:
        shard: Number of the shard.
        samples: How many samples it has.
        reason: Why the worker ended, a sentence.
    """
    return {
        "shard": shard,
        "samples": samples,
        "error": reason,
        "retry": True,
        "died": True,
        "seconds": 0.0,
        "at": time.time(),
    }
