"""Which operators draw random numbers."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnx_passes.ops.bodies import has_body

RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Standard operators that draw random numbers, whatever their attributes."""

RANDOM_CONTRIB = frozenset(
    {"BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "Sampling", "DropoutGrad"}
)
"""Those of ONNX Runtime's domain ``com.microsoft``."""


def may_draw(node: ir.Node) -> bool:
    """Whether a node by itself may draw random numbers; Dropout does so when it trains."""
    if node.domain == "com.microsoft":
        return node.op_type in RANDOM_CONTRIB
    return node.domain == "" and (node.op_type in RANDOM or node.op_type == "Dropout")


def draws_without_seed(node: ir.Node) -> bool:
    """Whether a standard node may draw random numbers, and has no seed but could have one."""
    if node.domain or "seed" in node.attributes:
        return False
    if node.op_type == "Dropout":  # it draws where its third input says that it trains
        return len(node.inputs) > 2 and node.inputs[2] is not None
    return node.op_type in RANDOM


_REPEATING = frozenset(
    {"", "ai.onnx.ml", "ai.onnx.preview", "com.microsoft", "com.microsoft.nchwc"}
)


def may_vary(node: ir.Node, functions: Collection[ir.OperatorIdentifier] = ()) -> bool:
    """Whether a node by itself may compute something else in each run, seeds given or not.

    Standard operators repeat themselves once they have seeds, and so do operators that have a
    body here; an operator of an unknown domain may keep state.

    Args:
        node: The node.
        functions: The functions of the model, whose bodies are looked at.
    """
    if node.op_identifier() in functions:
        return False
    if node.domain == "com.microsoft":
        return node.op_type in RANDOM_CONTRIB
    return node.domain not in _REPEATING and not has_body(node.domain, node.op_type)
