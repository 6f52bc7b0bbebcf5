"""Models about which two engines say different things before anything is done to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.float64 import evaluate
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.recording import inlined

DISPUTED = "another engine gives for the original what ONNX Runtime gives for the result only"


def is_disputed(
    output: str, old: Outputs, new: Outputs, third: Outputs, contract: Equality | Tolerance
) -> bool:
    """Whether another opinion on the original is what the result is, and the engine's is not.

    No result can be right by both then. One that is right by neither is not in dispute.

    Args:
        output: What differs.
        old: What the engine gives for the original.
        new: What it gives for the result.
        third: What the other opinion on the original is.
        contract: What the transformation promises.
    """
    if not all(output in side for side in (old, new, third)):
        return False

    def agree(one: Outputs, other: Outputs) -> bool:
        return not Promise(contract).broken({output: one[output]}, {output: other[output]})

    return agree(third, new) and not agree(third, old)


def other_opinion(model: ir.Model, feeds: Feeds) -> Sequence[Data]:
    """Return the outputs of a model by onnx's reference evaluator.

    Where that fails, by :func:`evaluate`; none where that fails, too.

    Args:
        model: The model.
        feeds: Inputs by name.
    """
    copy = inlined(model)  # the evaluator knows no defaults of functions' attributes
    try:
        with ReferenceEngine().prepare(copy) as session:
            return list(session.run(feeds).values())
    except EngineError:
        pass
    try:
        found = evaluate(model, [feeds]).outputs[0]
    except EngineError:
        return []
    dtypes = [value.dtype for value in model.graph.outputs]
    return [_narrowed(data, dtype) for data, dtype in zip(found.values(), dtypes, strict=True)]


def _narrowed(data: Data, dtype: ir.DataType | None) -> Data:
    if not isinstance(data, np.ndarray) or dtype is None or data.dtype != np.float64:
        return data
    with np.errstate(over="ignore"):
        return data.astype(dtype.numpy())
