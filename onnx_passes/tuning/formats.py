"""Formats that a part of a model may have: a pass, and its options."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.registry import lookup

FLOAT32 = "float32"
"""The format of a part that stays as it is."""


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        name: What a user calls it.
        pass_name: The pass that gives a part the format.
        options: Of the pass.
        weight_bits: Bits of a weight.
        data_bits: Bits of a computed value.
    """

    name: str
    pass_name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    weight_bits: int = 32
    data_bits: int = 32

    @property
    def rank(self) -> int:
        """Where its pass stands among others: types of values change last."""
        return 1 if self.pass_name.startswith("convert-") else 0


def _weights(name: str, bits: int, **options: Any) -> Format:
    return Format(name, "quantize-weights", {"least": 1} | options, bits, 32)


_NBITS = {"form": "matmulnbits", "block": 32}
BUILTIN = {
    item.name: item
    for item in (
        Format(FLOAT32, ""),
        Format("float16", "convert-float16", {}, 16, 16),
        Format("bfloat16", "convert-bfloat16", {"missing": "round"}, 16, 16),
        Format("int8-static", "quantize-static", {}, 8, 8),
        Format("int8-dynamic", "quantize-dynamic", {"least": 1}, 8, 8),
        _weights("int8-weights", 8),
        _weights("int4-weights", 4, weights="int4", block=32),
        _weights("int8-nbits", 8, weights="uint8", **_NBITS),
        _weights("int4-nbits", 4, weights="uint4", **_NBITS),
    )
}
"""Formats that have a name."""


def convert(
    model: ir.Model,
    chosen: Mapping[str, Sequence[str]],
    formats: Mapping[str, Format],
    ranges: Mapping[str, tuple[float, float]],
) -> ir.Model:
    """Return a model some of whose nodes have another format.

    Args:
        model: It is not changed. Its nodes have names, and its values types.
        chosen: Names of nodes by format; what is not among them stays as it is.
        formats: The formats by name.
        ranges: Recorded least and greatest element of values by name.

    Raises:
        PassError: A pass refuses the model.
    """
    copy = copy_model(model)
    used = [formats[name] for name, nodes in chosen.items() if nodes and name != FLOAT32]
    for item in sorted(used, key=lambda one: (one.rank, one.name)):
        names = [glob.escape(name) for name in chosen[item.name]]
        (cls,) = lookup(item.pass_name)
        pass_ = cls(**item.options, nodes=names)
        pass_.context = PassContext(ranges=ranges)
        pass_.call(copy)
    return copy
