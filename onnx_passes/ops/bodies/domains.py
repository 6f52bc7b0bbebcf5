"""The domains of operators that have bodies here."""

from __future__ import annotations

from onnx_passes.ops import DOMAIN

QONNX = "qonnx.custom_op.general"
"""The domain of QONNX's operators."""

QONNX_ALIASES = (QONNX, "onnx.brevitas")
"""QONNX's domain under all of its names."""

CHANNELS_LAST = "qonnx.custom_op.channels_last"
"""The domain of Conv, MaxPool and BatchNormalization over channels-last data."""

CUSTOM = DOMAIN
"""The domain of this package's own operators."""

QUANTISERS = frozenset({"IntQuant", "Quant", "BipolarQuant", "FloatQuant", "Trunc"})
"""Operators that round a value to a grid and return it in the original units."""


def is_quantiser(domain: str, op_type: str) -> bool:
    """Whether an operator says at which precision a value is kept.

    Args:
        domain: Domain of the operator.
        op_type: Its name.
    """
    return op_type in QUANTISERS and domain in (*QONNX_ALIASES, CUSTOM)
