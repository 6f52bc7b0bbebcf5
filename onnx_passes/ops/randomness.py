"""Which operators draw random numbers."""

from __future__ import annotations

import onnx_ir as ir

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
