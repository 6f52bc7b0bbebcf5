"""Which executor runs the shards."""

from __future__ import annotations

from pathlib import Path

from onnx_passes.data.executors.executor import Executor, InProcess
from onnx_passes.errors import UsageError


def choose_executor(
    jobs: int | None,
    scheduler: str | None,
    *,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
) -> Executor:
    """Return what runs the shards; this process, if nothing else is asked for.

    Args:
        jobs: Number of worker processes.
        scheduler: ``local:N``, or the address of a Dask scheduler.
        ca: File of the authority, for TLS.
        cert: File of this client's certificate.
        key: File of its key.

    Raises:
        UsageError: Both are asked for, or an address cannot be read.
    """
    if jobs is not None and scheduler is not None:
        raise UsageError("jobs and a scheduler are two kinds of workers", help="give one")
    if scheduler is not None:
        from onnx_passes.data.executors.dask import make_dask

        return make_dask(scheduler, ca, cert, key)
    if jobs is not None:
        from onnx_passes.data.executors.pool import Pool

        return Pool(jobs)
    return InProcess()
