"""What runs in the workers of a Dask cluster."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

from onnx_passes.data import files
from onnx_passes.data.evaluation_job import DataJob, ModelFile
from onnx_passes.data.optional_libraries import import_optional
from onnx_passes.data.shard_evaluation import evaluator_of
from onnx_passes.plain import Foreign, PlainDict

_jobs: dict[str, tuple[str, str | None]] = {}
"""The jobs that this worker was sent, by digest, and where their models are."""

_folders: list[tempfile.TemporaryDirectory[str]] = []


def version() -> str:
    """Return the version of this package on a worker."""
    from onnx_passes import __version__

    return __version__


def make_plugin(text: str, digest: str) -> Foreign:
    """Return a plugin that hands a job to each worker.

    Args:
        text: The job as JSON.
        digest: Its digest, by which workers know it.
    """

    class Warm(import_optional("distributed.diagnostics.plugin").WorkerPlugin):  # type: ignore[misc]
        """Hands the job to each worker, those that join later included."""

        def setup(self, worker: object) -> None:
            from onnx_passes.data.executors.dask_worker import keep

            del worker
            keep(digest, text)

    return Warm()


def keep(digest: str, text: str) -> None:
    """Remember a job in this worker.

    Args:
        digest: The digest of the job.
        text: The job as JSON.
    """
    _jobs.setdefault(digest, (text, None))


def evaluate_shard(digest: str, shard: int, parcel: PlainDict | None) -> PlainDict:
    """Evaluate a shard in a worker.

    Args:
        digest: Of the job.
        shard: Number of the shard.
        parcel: The job with the files of its models; None if the worker should have both.

    Returns:
        See ``Evaluator.shard``; or "need", if the worker lacks the job or a model.
    """
    if parcel is not None and _jobs.get(digest, ("", None))[1] is None:
        _jobs[digest] = parcel["job"], _unpack(parcel["models"])
    if digest not in _jobs:
        return {"shard": shard, "need": True}
    text, folder = _jobs[digest]
    if folder is None and not _has_models(text):
        return {"shard": shard, "need": True}
    return evaluator_of(text, digest, folder).shard(shard)


_checked: dict[str, bool] = {}


def _has_models(text: str) -> bool:
    """Whether the models of a job are at their paths, with the content that it says."""
    if text not in _checked:
        _checked.clear()
        job = DataJob.from_json(json.loads(text))
        _checked[text] = all(_is_there(model) for model in job.models)
    return _checked[text]


def _is_there(model: ModelFile) -> bool:
    folder = Path(model.path).parent
    try:
        content = [files.digest(str(folder / name)) for name in model.files]
    except OSError:
        return False
    return bool(hashlib.sha256(json.dumps(content).encode()).hexdigest() == model.digest)


def _unpack(models: dict[str, dict[str, bytes]]) -> str:
    folder = tempfile.TemporaryDirectory(prefix="onnx-passes-models-")
    _folders.append(folder)
    for digest, content in models.items():
        for name, data in content.items():
            path = Path(folder.name) / digest / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return folder.name
