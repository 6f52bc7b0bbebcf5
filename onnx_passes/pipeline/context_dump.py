"""Every value of a model, for the seed system's ``onnxruntime.full_context_dump``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError, ModelError
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.verify.recording import exposed


def dump_context(model: ir.Model, baseline: Baseline, folder: Path) -> list[str]:
    """Write the values of the first sample to ``context.npz``, and say what was left out.

    Args:
        model: The result of the pipeline.
        baseline: Gives the engine and the sample.
        folder: Made if it is missing.

    Returns:
        Sentences for the report.

    Raises:
        ModelError: The file cannot be written.
    """
    if not baseline.samples or not baseline.benches:
        return ["full_context_dump: there are no samples to run the result on"]
    feeds = baseline.samples[0]
    try:
        with baseline.benches[0].engine.prepare(exposed(model)) as session:
            values = {**feeds, **session.run(feeds)}
    except EngineError as error:
        return [f"full_context_dump: the values cannot be had: {error.message}"]
    arrays = {
        name: value
        for name, value in values.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
    }
    path = folder / "context.npz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            # Positional names would clash with numpy's own parameter `file`.
            np.savez(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise ModelError(
            f"the context cannot be written: {error}",
            where=f"  --> {path}",
            help="see dump_dir",
        ) from error
    left = sorted(values.keys() - arrays.keys())
    notes = [f"full_context_dump: {len(arrays)} values in {path}"]
    return [*notes, f"full_context_dump left out {', '.join(left)}"] if left else notes
