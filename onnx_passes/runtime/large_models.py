"""ONNX Runtime without copies of weights, for models whose weights take much memory.

Its kernels copy the weights of products into layouts of their own. The copy of a weight that
is mapped from a file is memory that cannot be given back.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.model.walk import weight_bytes
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.ort import MANY_CONSTANTS, OnnxRuntimeEngine
from onnx_passes.runtime.weight_files import LARGE as LARGE
from onnx_passes.runtime.weight_files import files_folder


def is_large(model: ir.Model) -> bool:
    """Whether copies of all weights of a model would take much memory."""
    return weight_bytes(model) > LARGE


def engine_for(model: ir.Model) -> OnnxRuntimeEngine:
    """Return ONNX Runtime on the CPU, without copies of the weights of a large model.

    Args:
        model: The model whose values are to be computed.
    """
    return OnnxRuntimeEngine(prepacking=not is_large(model))


def left_out_of(engine: Engine, model: ir.Model) -> list[str]:
    """Return a sentence on each kind of optimization that an engine does not apply.

    Args:
        engine: The engine.
        model: The model that it runs.
    """
    if not isinstance(engine, OnnxRuntimeEngine) or engine.optimization == "none":
        return []
    found: list[str] = []
    folder = None if engine.prepacking else files_folder(model)
    if folder is not None and folder.is_large:
        found.append(
            f"{engine.name} makes no other weights of more than 100 MiB: it folds no large "
            "constant and no normalization into convolutions, and makes no MatMulNBits; "
            "'prepacking: true' lets it"
        )
    held = [node for node in model.graph if node.op_type == "Constant"]
    if len(held) + len(model.graph.initializers) > MANY_CONSTANTS:
        found.append(
            f"{engine.name} looks for no equal constants, of which there are more than "
            f"{MANY_CONSTANTS}; that changes no value"
        )
    return found
