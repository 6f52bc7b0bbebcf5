"""A Dask cluster: one on this machine, or one whose scheduler is reached by address."""

from __future__ import annotations

import json
import logging
import queue
import re
import time
from contextlib import suppress
from pathlib import Path

from onnx_passes.data.evaluation_job import DataJob
from onnx_passes.data.executors.dask_worker import evaluate_shard, make_plugin, version
from onnx_passes.data.executors.executor import WAIT, WorkersGoneError, died
from onnx_passes.data.optional_libraries import import_optional
from onnx_passes.errors import EngineUnavailableError, UsageError
from onnx_passes.plain import Foreign, PlainDict

CONNECT_SECONDS = 30
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://\S+:\d+")


def make_dask(
    address: str, ca: Path | None = None, cert: Path | None = None, key: Path | None = None
) -> Dask:
    """Return an executor on a cluster.

    Args:
        address: ``local:N`` for N workers on this machine, or the address of a scheduler.
        ca: File of the authority, for TLS.
        cert: File of this client's certificate.
        key: File of its key.

    Raises:
        UsageError: The address cannot be read, or ``distributed`` is not installed.
    """
    import_optional("distributed")
    local = re.fullmatch(r"local:(\d+)", address)
    if local is not None and int(local[1]) > 0:
        return Dask(None, int(local[1]), {})
    if not _ADDRESS.fullmatch(address):
        raise UsageError(
            f"--scheduler {address!r} is not an address",
            help="write local:8, tcp://host:8786 or tls://host:8786",
        )
    tls = {"tls_ca_file": ca, "tls_client_cert": cert, "tls_client_key": key}
    given = {name: str(path) for name, path in tls.items() if path is not None}
    if address.startswith("tls://") and not given:
        raise UsageError(
            f"--scheduler {address} needs certificates",
            help="give --tls-ca, --tls-cert, --tls-key",
        )
    return Dask(address, 0, given)


class Dask:
    """Evaluates shards on the workers of a Dask cluster.

    Each worker gets the job once, by a plugin, and makes its sessions when it first needs
    them. A worker that the plugin missed gets the job with its shard. Models that a worker
    does not find at their path are sent to it.

    Args:
        address: Of the scheduler; None for a cluster on this machine.
        workers: Number of workers of that.
        tls: Files for TLS, as ``distributed.Security`` names them.
    """

    def __init__(self, address: str | None, workers: int, tls: dict[str, str]) -> None:
        self._address, self._workers, self._tls = address, workers, tls
        self._cluster: Foreign = None
        self._client: Foreign = None
        self._done: queue.Queue[Foreign] = queue.Queue()
        self._running: dict[Foreign, int] = {}
        self._whole: set[int] = set()
        self._tries: dict[int, int] = {}

    @property
    def name(self) -> str:
        """What a report calls it."""
        if self._address is None:
            return f"Dask, {self._workers} local workers"
        return f"Dask at {self._address}"

    @property
    def slots(self) -> int:
        """How many shards should be under way: two for each thread of a worker."""
        if self._client is None:
            return 2 * max(1, self._workers)
        try:
            threads = self._client.nthreads() if self._address is not None else {}
        except OSError as error:
            raise self._gone() from error
        return 2 * int(max(1, self._workers, sum(threads.values())))

    def start(self, job: DataJob) -> None:
        """Start or reach the cluster; see ``Executor.start``."""
        distributed = import_optional("distributed")
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._job, self._text = job, json.dumps(job.to_json())
        if self._client is None:
            self._connect(distributed)
        self._client.register_plugin(make_plugin(self._text, job.digest), name="onnx-passes")

    def _connect(self, distributed: Foreign) -> None:
        if self._address is None:
            self._cluster = self._start_cluster(distributed)
        target = self._cluster if self._cluster is not None else self._address
        security = (
            distributed.Security(require_encryption=True, **self._tls) if self._tls else None
        )
        try:
            self._client = distributed.Client(
                target, timeout=CONNECT_SECONDS, security=security, set_as_default=False
            )
            if self._address is not None:
                self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, RuntimeError) as error:
            if self._cluster is not None:
                self._cluster.close()
            raise EngineUnavailableError(
                f"the scheduler {self._address} and its workers cannot be reached: {error}",
                help="start them: dask scheduler, and dask worker ADDRESS --nthreads 1",
            ) from error
        self._check_versions()

    def _start_cluster(self, distributed: Foreign) -> Foreign:
        try:
            # Its scheduler listens on this machine only, and serves no dashboard.
            return distributed.LocalCluster(
                n_workers=self._workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                worker_dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        except (OSError, TimeoutError, RuntimeError) as error:
            raise EngineUnavailableError(
                f"a cluster of {self._workers} workers cannot be started here: {error}",
                help="see whether there is memory for them, or use --jobs",
            ) from error

    def _check_versions(self) -> None:
        from onnx_passes import __version__

        try:
            found = self._ask_versions()
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
        if other := {v for v in found.values() if v != __version__}:
            theirs = ", ".join(sorted(other))
            raise EngineUnavailableError(
                f"workers have onnx-passes {theirs}, and this is {__version__}",
                help="install the same version on each worker",
            )

    def _ask_versions(self, attempts: int = 3) -> dict[str, str]:
        try:
            found: dict[str, str] = self._client.run(version)
        except OSError:  # a worker has just died; a new one takes its place
            if attempts == 1:
                raise
            time.sleep(WAIT)
            return self._ask_versions(attempts - 1)
        return found

    def submit(self, shard: int) -> None:
        """Have a shard evaluated."""
        self._tries[shard] = self._tries.get(shard, 0) + 1
        parcel = self._parcel() if shard in self._whole else None
        # Each attempt is a task of its own: Dask would return the old result.
        key = f"onnx-passes-{self._job.digest}-{shard}-{self._tries[shard]}"
        try:
            future = self._client.submit(
                evaluate_shard, self._job.digest, shard, parcel, key=key, pure=False
            )
        except OSError as error:
            raise self._gone() from error
        self._running[future] = shard
        future.add_done_callback(self._done.put)

    def collect(self) -> PlainDict:
        """Wait for an outcome."""
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
            if outcome.get("need") and shard not in self._whole:
                self._whole.add(shard)
                self.submit(shard)
                continue
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
            return died(shard, stop - first, reason) | {"retry": not killed}
        if found.get("need") and shard in self._whole:
            reason = "its worker does not find the models"
            return {"shard": shard, "samples": stop - first, "error": reason, "retry": True}
        return found

    def _is_gone(self) -> bool:
        with suppress(Exception):
            return not self._client.scheduler_info(n_workers=0).get("id")
        return True

    def _gone(self) -> WorkersGoneError:
        return WorkersGoneError(
            f"the scheduler {self._address or 'of the local cluster'} is gone",
            help="with --journal the same command continues after the finished shards",
        )

    def _parcel(self) -> PlainDict:
        """Return the job with the files of its models, for a worker that lacks them."""
        found: dict[str, dict[str, bytes]] = {}
        for model in self._job.models:
            folder = Path(model.path).parent
            found[model.digest] = {name: (folder / name).read_bytes() for name in model.files}
        return {"job": self._text, "models": found}

    def rest(self) -> None:
        """Give up shards; the cluster stays."""
        with suppress(Exception):
            self._client.cancel(list(self._running))
        self._running.clear()
        self._whole.clear()
        self._tries.clear()

    def close(self) -> None:
        """Disconnect; a local cluster ends."""
        for part in (self._client, self._cluster):
            if part is not None:
                with suppress(Exception):
                    part.close(timeout=5)
        self._client = self._cluster = None
