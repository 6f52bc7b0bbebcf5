"""What runs shards: this process, or a pool of processes.

Shards go in by number, and outcomes come out in any order.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing.connection import wait as wait_for
from typing import TypeAlias

from onnx_passes.data.evaluation_job import DataJob
from onnx_passes.data.shard_evaluation import Evaluator
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict


class InProcess:
    """Evaluates shards in this process, one after the other."""

    name = "in process"
    slots = 1

    def __init__(self) -> None:
        self._todo: list[int] = []
        self._evaluator: Evaluator | None = None

    def start(self, job: DataJob) -> None:
        self._evaluator = Evaluator(job)
        self._evaluator.open_sessions()

    def submit(self, shard: int) -> None:
        self._todo.append(shard)

    def collect(self) -> PlainDict:
        assert self._evaluator is not None
        return self._evaluator.shard(self._todo.pop(0))

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()


def worker_death_outcome(shard: int, samples: int, reason: str) -> PlainDict:
    """Return the outcome of a shard whose worker ended. ``reason`` is a sentence."""
    return {
        "shard": shard,
        "samples": samples,
        "error": reason,
        "retry": True,
        "seconds": 0.0,
        "at": time.time(),
    }


class Pool:
    """Evaluates shards in worker processes.

    When a worker dies, the pool is made anew. The shards that were under way then run one at
    a time, so that the one to blame is found.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise UsageError(f"--jobs must be at least 1, not {workers}")
        self._workers, self.slots = workers, 2 * workers
        self.name = f"{workers} processes"
        self._pool: ProcessPoolExecutor | None = None
        self._running: dict[Future[PlainDict], int] = {}
        self._suspects: deque[int] = deque()

    def start(self, job: DataJob) -> None:
        self._job = job
        self._text = job.to_text()
        self._make()

    def _make(self) -> None:
        # Not fork: the threads of an engine do not survive it.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            self._workers, context, initializer=_begin, initargs=(self._text,)
        )

    def submit(self, shard: int) -> None:
        if self._suspects:
            self._suspects.append(shard)
        else:
            self._run(shard)

    def _run(self, shard: int) -> None:
        assert self._pool is not None
        try:
            future = self._pool.submit(_evaluate, shard)
            self._running[future] = shard
        except BrokenProcessPool:
            self._suspects.append(shard)
            self._restart()

    def collect(self) -> PlainDict:
        while True:
            if not self._running:
                self._run(self._suspects.popleft())
            alone = len(self._running) == 1
            finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
            future = next(iter(finished))
            shard = self._running.pop(future)
            try:
                return future.result()
            except BrokenProcessPool:
                if alone:
                    self._restart()
                    first, stop = self._job.plan.range(shard)
                    reason = "the worker process ended; it may have run out of memory"
                    return worker_death_outcome(shard, stop - first, reason)
                self._suspects.append(shard)
                self._restart()

    def _restart(self) -> None:
        self._suspects.extend(self._running.values())
        self._running.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._make()

    def close(self) -> None:
        """End the workers, whatever they do."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


_jobs: list[str] = []
"""The job of this worker, as JSON."""


def _begin(text: str) -> None:
    # Ctrl-C reaches the whole group of processes; the client ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _jobs.append(text)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


@cache
def _evaluator() -> Evaluator:
    evaluator = Evaluator(DataJob.from_text(_jobs[0]))
    # Looking through all modules and models for garbage takes longer than a small shard.
    gc.freeze()
    return evaluator


def _evaluate(shard: int) -> PlainDict:
    return _evaluator().shard(shard)


Executor: TypeAlias = InProcess | Pool
"""Runs the shards of a job, which go in by number and come out in any order."""


def choose_executor(jobs: int | None) -> Executor:
    """Return what runs the shards: worker processes, by default this process."""
    return InProcess() if jobs is None else Pool(jobs)
