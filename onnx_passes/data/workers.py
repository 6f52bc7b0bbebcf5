"""What runs shards: this process, some child processes, or a Dask cluster.

Shards go in by number, and outcomes come out in any order.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar

from onnx_passes.data.evaluation_job import DataJob, Evaluator, evaluator_of
from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineUnavailableError,
    UsageError,
)
from onnx_passes.optional import import_optional
from onnx_passes.plain import Foreign, PlainDict
from onnx_passes.runtime.isolated import Child, ChildSpec, call
from onnx_passes.runtime.processes import forward_output

T = TypeVar("T")
WAIT = 0.5
"""Seconds between two looks at whether workers are still there."""


class WorkersGoneError(EngineError):
    """The workers cannot be reached any more; what they finished is in the journal."""

    code: ClassVar[str] = "workers-gone"


class InProcess:
    """Evaluates shards in this process, one after the other.

    Attributes:
        name: What a report calls it.
        slots: How many shards should be under way, so that no worker waits.
    """

    name = "in process"
    slots = 1

    def __init__(self) -> None:
        self._todo: list[int] = []
        self._evaluator: Evaluator | None = None

    def start(self, job: DataJob) -> None:
        """Get ready for a job.

        Raises ``OnnxPassesError`` if workers cannot be started or reached, or a model cannot
        be run.
        """
        self._evaluator = Evaluator(job)
        self._evaluator.open_sessions()

    def submit(self, shard: int) -> None:
        """Have a shard evaluated; the same one may be submitted again after its outcome."""
        self._todo.append(shard)

    def collect(self) -> PlainDict:
        """Wait for an outcome; see ``Evaluator.shard``.

        A worker that died is an outcome too, with "error", "retry" and "died". Raises
        ``WorkersGoneError`` if there are no workers any more.
        """
        assert self._evaluator is not None
        return self._evaluator.shard(self._todo.pop(0))

    def close(self) -> None:
        """End what :meth:`start` started; shards under way are given up."""
        if self._evaluator is not None:
            self._evaluator.close()


def worker_death_outcome(shard: int, samples: int, reason: str) -> PlainDict:
    """Return the outcome of a shard whose worker ended. ``reason`` is a sentence."""
    return {"shard": shard, "samples": samples, "error": reason, "retry": True, "died": True}


_job: tuple[str, str] = ("", "")
"""The job of this process, and its digest."""
_HOME = ChildSpec("a worker")


class Pool:
    """Evaluates shards in child processes, each one shard at a time.

    So it is known which shard was under way in a process that dies.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise UsageError(f"--jobs must be at least 1, not {workers}")
        self.slots, self.name = 2 * workers, f"{workers} processes"
        self._threads = ThreadPoolExecutor(workers)
        self._own = threading.local()
        self._children: list[Child] = []
        self._closed = False
        self._done: queue.Queue[Future[PlainDict]] = queue.Queue()

    def start(self, job: DataJob) -> None:
        self._job, self._text = job, job.to_text()

    def submit(self, shard: int) -> None:
        self._threads.submit(self._evaluate, shard).add_done_callback(self._done.put)

    def _evaluate(self, shard: int) -> PlainDict:
        """Have the child of this thread evaluate a shard."""
        child: Child | None = getattr(self._own, "child", None)
        first, stop = self._job.plan.range(shard)
        ask = partial(call, while_=f"it evaluated shard {shard}", seconds=None)
        try:
            if child is None or not child.alive:
                child = self._own.child = Child(_HOME)
                self._children.append(child)
                if self._closed:
                    child.end()
                ask(child, _begin, self._text, self._job.digest)
            found: PlainDict = ask(child, _evaluate, shard)
        except EngineCrashedError:
            reason = "the worker process ended; it may have run out of memory"
            return worker_death_outcome(shard, stop - first, reason)
        return found

    def collect(self) -> PlainDict:
        return self._done.get().result()

    def close(self) -> None:
        """End the workers, whatever they do."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.end()
        self._threads.shutdown()


def _begin(text: str, digest: str) -> None:
    global _job
    _job = text, digest


def _evaluate(shard: int) -> PlainDict:
    with forward_output():
        return evaluator_of(*_job).shard(shard)


def version() -> str:
    """Return the version of this package on a worker."""
    from onnx_passes import __version__

    return __version__


def missing_models(text: str) -> list[str]:
    """Return the models of a job, as JSON, that a worker does not find with their content."""
    return [model.path for model in DataJob.from_text(text).models if not model.is_there()]


_jobs: dict[str, str] = {}
"""The jobs that this worker was sent, as JSON, by digest."""


def make_plugin(text: str, digest: str) -> Foreign:
    """Return a plugin that sends a job, as JSON, to each worker, also to one that joins."""

    class Sender(import_optional("distributed.diagnostics.plugin").WorkerPlugin):  # type: ignore[misc]
        """Hands the job to a worker."""

        def setup(self, worker: object) -> None:
            from onnx_passes.data.workers import _jobs

            del worker
            _jobs[digest] = text

    return Sender()


def evaluate_shard(digest: str, shard: int) -> PlainDict:
    """Evaluate a shard in a worker; KeyError if it was not sent the job."""
    return evaluator_of(_jobs[digest], digest).shard(shard)


CONNECT_SECONDS = 30
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://\S+:\d+")


def make_dask(address: str) -> Dask:
    """Return an executor on a cluster whose scheduler is at an address.

    Raises ``UsageError`` if it is not one, or Dask is not installed.
    """
    import_optional("distributed")
    if not _ADDRESS.fullmatch(address):
        raise UsageError(
            f"--scheduler {address!r} is not an address",
            help="write tcp://host:8786 or tls://host:8786; --jobs 8 is for this machine",
        )
    return Dask(address)


class Dask:
    """Evaluates shards on the workers of a Dask cluster.

    Each worker gets the job once, by a plugin. It makes its sessions when it first needs them,
    from the same paths as here. A shard of a worker that the plugin missed is tried again.
    ``address`` is that of the scheduler. Certificates are those of Dask's configuration.
    """

    def __init__(self, address: str) -> None:
        self._address, self.name = address, f"Dask at {address}"
        self._client: Foreign = None
        self._done: queue.Queue[Foreign] = queue.Queue()
        self._running: dict[Foreign, int] = {}
        self._tries: dict[int, int] = {}

    @property
    def slots(self) -> int:
        """How many shards should be under way: two for each thread of a worker."""
        try:
            threads = self._client.nthreads() if self._client is not None else {}
        except OSError as error:
            raise self._gone() from error
        return 2 * int(max(1, sum(threads.values())))

    def start(self, job: DataJob) -> None:
        distributed = import_optional("distributed")
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._job = job
        self._connect(distributed)
        text = job.to_text()
        if missing := {path for found in self._ask(missing_models, text) for path in found}:
            raise EngineUnavailableError(
                f"workers do not find {', '.join(sorted(missing))}",
                help="put models, as the data, in a folder that each worker reads",
            )
        self._client.register_plugin(make_plugin(text, job.digest), name="onnx-passes")

    def _connect(self, distributed: Foreign) -> None:
        try:
            self._client = distributed.Client(
                self._address, timeout=CONNECT_SECONDS, set_as_default=False
            )
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise EngineUnavailableError(
                f"the scheduler {self._address} and its workers cannot be reached: {error}",
                help="start them: dask scheduler, and dask worker ADDRESS --nthreads 1",
            ) from error
        self._check_versions()

    def _check_versions(self) -> None:
        from onnx_passes import __version__

        try:
            found = self._ask(version)
        except OSError as error:
            raise EngineUnavailableError(
                f"workers end as soon as they are asked: {error}",
                help="see what they log, and whether there is memory for them",
            ) from error
        except Exception as error:  # whatever a worker without this package raises
            raise EngineUnavailableError(
                f"workers cannot import onnx-passes: {error}",
                help="install the same version of onnx-passes on each worker",
            ) from error
        if other := {v for v in found if v != __version__}:
            theirs = ", ".join(sorted(other))
            raise EngineUnavailableError(
                f"workers have onnx-passes {theirs}, and this is {__version__}",
                help="install the same version on each worker",
            )

    def _ask(self, function: Callable[..., T], *given: str, attempts: int = 3) -> list[T]:
        """Call a function on each worker."""
        try:
            return list(self._client.run(function, *given).values())
        except OSError:  # a worker has just died; a new one takes its place
            if attempts == 1:
                raise
            time.sleep(WAIT)
            return self._ask(function, *given, attempts=attempts - 1)

    def submit(self, shard: int) -> None:
        self._tries[shard] = self._tries.get(shard, 0) + 1
        # Each attempt is a task of its own: Dask would return the old result.
        key = f"onnx-passes-{self._job.digest}-{shard}-{self._tries[shard]}"
        try:
            future = self._client.submit(
                evaluate_shard, self._job.digest, shard, key=key, pure=False
            )
        except OSError as error:
            raise self._gone() from error
        self._running[future] = shard
        future.add_done_callback(self._done.put)

    def collect(self) -> PlainDict:
        while True:
            try:
                future = self._done.get(timeout=WAIT)
            except queue.Empty:
                if self._client.status != "running" or self._is_gone():
                    raise self._gone() from None
                continue
            shard = self._running.pop(future, None)
            if shard is None:
                continue
            if future.status == "cancelled":
                raise self._gone()
            outcome = self._outcome(future, shard)
            future.release()
            return outcome

    def _outcome(self, future: Foreign, shard: int) -> PlainDict:
        first, stop = self._job.plan.range(shard)
        try:
            found: PlainDict = future.result(timeout=CONNECT_SECONDS)
        except Exception as error:  # what Dask makes of a dead worker, or of a fault in ours
            killed = type(error).__name__ == "KilledWorker"
            reason = (
                "the workers that ran it died; they may have run out of memory"
                if killed
                else f"{type(error).__name__}: {error}"
            )
            # Dask has tried other workers already.
            return worker_death_outcome(shard, stop - first, reason) | {"retry": not killed}
        return found

    def _is_gone(self) -> bool:
        with suppress(Exception):
            return not self._client.scheduler_info(n_workers=0).get("id")
        return True

    def _gone(self) -> WorkersGoneError:
        return WorkersGoneError(
            f"the scheduler {self._address} is gone",
            help="with --journal the same command continues after the finished shards",
        )

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            with suppress(Exception):
                self._client.close(timeout=5)
        self._client = None


Executor: TypeAlias = "InProcess | Pool | Dask"
"""Runs shards of a job."""


def choose_executor(jobs: int | None, scheduler: str | None) -> Executor:
    """Return what runs the shards: by default this process; ``UsageError`` for two."""
    if jobs is not None and scheduler is not None:
        raise UsageError("jobs and a scheduler are two kinds of workers", help="give one")
    if scheduler is not None:
        return make_dask(scheduler)
    if jobs is not None:
        return Pool(jobs)
    return InProcess()
