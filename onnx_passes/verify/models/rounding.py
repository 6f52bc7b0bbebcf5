"""Results in half precision that differ by roundings which only the engine decides about."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.contracts import Equality
from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.base import Data, Feeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.compare import compare
from onnx_passes.verify.recording import exposed, inlined


def equal_as_written(
    original: ir.Model, result: ir.Model, feeds: Feeds, *, negative_zero: bool
) -> set[str]:
    """Return the outputs of a result that are the same where every value is rounded.

    ONNX Runtime's CPU computes most operators of half precision in single precision, and
    rounds only where a chain of them ends. A node that does nothing may end it.

    Args:
        original: Before.
        result: After, with as many outputs.
        feeds: Inputs of the original.
        negative_zero: Whether -0 and 0 are different.
    """
    try:
        old, new = (_rounded_run(inlined(model), feeds) for model in (original, result))
    except OnnxPassesError:
        return set()
    names = [str(value.name) for value in result.graph.outputs]
    before, after = (dict(zip(names, side, strict=False)) for side in (old, new))
    checks = compare(before, after, Equality(), negative_zero=negative_zero)
    return {check.output for check in checks if check.passed}


def _rounded_run(model: ir.Model, feeds: Feeds) -> Sequence[Data]:
    count = len(model.graph.outputs)
    shown = exposed(model)
    wanted = {str(value.name) for value in shown.graph.inputs}
    with OnnxRuntimeEngine(prepacking=False).prepare(shown) as session:
        outputs = session.run({name: data for name, data in feeds.items() if name in wanted})
    return list(outputs.values())[:count]
