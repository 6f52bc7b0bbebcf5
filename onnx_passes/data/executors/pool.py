"""A pool of processes on this machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from pathlib import Path

from onnx_passes.data.evaluation_job import DataJob
from onnx_passes.data.executors.executor import died
from onnx_passes.data.shard_evaluation import evaluator_of, forget_others
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict

_job: tuple[str, str] = ("", "")
"""The job of this process, and its digest."""


class Pool:
    """Evaluates shards in worker processes.

    When a worker dies, the pool is made anew. The shards that were under way then run one at
    a time, so that the one to blame is found.

    Args:
        workers: Number of processes.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise UsageError(f"--jobs must be at least 1, not {workers}")
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._running: dict[Future[PlainDict], int] = {}
        self._suspects: deque[int] = deque()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"{self._workers} processes"

    @property
    def slots(self) -> int:
        """How many shards should be under way."""
        return 2 * self._workers

    def start(self, job: DataJob) -> None:
        """Start the workers; see ``Executor.start``."""
        self._job = job
        self._text = json.dumps(job.to_json())
        if self._pool is None:
            self._make()
        # A worker that is kept from another job reads this one when it first gets a shard.
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="onnx-passes-jobs-")
        self._place = Path(self._folder.name) / job.digest
        self._place.write_text(self._text, encoding="utf-8")

    def _make(self) -> None:
        # Not fork: the threads of an engine do not survive it.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            self._workers, context, initializer=_begin, initargs=(self._text, self._job.digest)
        )

    def submit(self, shard: int) -> None:
        """Have a shard evaluated."""
        if self._suspects:
            self._suspects.append(shard)
        else:
            self._run(shard)

    def _run(self, shard: int) -> None:
        assert self._pool is not None
        try:
            future = self._pool.submit(_evaluate, str(self._place), shard)
            self._running[future] = shard
        except BrokenProcessPool:
            self._suspects.append(shard)
            self._restart()

    def collect(self) -> PlainDict:
        """Wait for an outcome."""
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
                    return died(shard, stop - first, reason)
                self._suspects.append(shard)
                self._restart()

    def _restart(self) -> None:
        self._suspects.extend(self._running.values())
        self._running.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._make()

    def rest(self) -> None:
        """Give up shards; the workers stay."""
        for future in self._running:
            future.cancel()
        self._running.clear()
        self._suspects.clear()

    def close(self) -> None:
        """End the workers, whatever they do."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _begin(text: str, digest: str) -> None:
    global _job
    # Ctrl-C reaches the whole group of processes; the client ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _job = text, digest


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _evaluate(place: str, shard: int) -> PlainDict:
    global _job
    digest = Path(place).name
    if digest != _job[1]:
        _job = Path(place).read_text("utf-8"), digest
        forget_others(_job[0])
    return evaluator_of(*_job).shard(shard)
