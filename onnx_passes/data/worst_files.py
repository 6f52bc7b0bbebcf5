"""The worst samples, written as inputs that other commands take."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from onnx_passes.data.dataset import DataSet
from onnx_passes.data.evaluation_result import DataResult
from onnx_passes.errors import OnnxPassesError, ReferenceDataError
from onnx_passes.verify.saved import write_samples

MOST = 16
LIST = "samples.json"


def save_worst(
    result: DataResult, folder: Path, models: Sequence[str | Path] | None = None
) -> str:
    """Write the worst samples of a run: each as a file of inputs, and a list of them.

    Args:
        result: The run.
        models: Where the models are, for the command; by default where they were.
        folder: Gets ``0.npz``, ``1.npz``, ... and ``samples.json``.

    Returns:
        What was written, in one sentence.

    Raises:
        ReferenceDataError: The folder cannot be written to.
    """
    data = DataSet(result.job.plan)
    paths = [str(path) for path in models or [m.path for m in result.job.models]]
    entries: list[dict[str, object]] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for row in result.worst_rows()[:MOST]:
            path = folder / f"{len(entries)}.npz"
            try:
                feeds = data.feeds(row)
            except OnnxPassesError:
                continue  # its file is gone since
            write_samples(path, [{n: np.asarray(v) for n, v in feeds.items()}])
            again = ["onnx-passes", "compare", *paths, "--inputs", str(path)]
            entries.append(
                {
                    "file": path.name,
                    "sample": result.data["samples"][str(row)],
                    "number": row,
                    "command": shlex.join(again),
                }
            )
        (folder / LIST).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ReferenceDataError(
            f"the worst samples cannot be written: {error.strerror or error}",
            where=str(folder),
            help="choose a folder that you may write to",
        ) from error
    return f"the {len(entries)} worst samples are in {folder}, listed in {LIST}"
