"""Count multiplications by the datatypes of their factors, and the bits that are kept."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.passes.analysis._sizes import label_of, sized
from onnx_passes.passes.common.shapes import sizes_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.quantised._quantisers import Quantiser, pair_of, quantiser_of
from onnx_passes.passes.streamline import _integer_ranges

_BITS = re.compile(r"(?:U?INT|FLOAT|SCALEDINT<|FIXED<)(\d+)(?:,\d+)?>?")
_SMALL = re.compile(r"FLOAT<(\d+),(\d+)(?:,\d+)?>")
_NAMED = {"BINARY": 1, "BIPOLAR": 1, "TERNARY": 2}
_KEPT = frozenset({"GlobalMaxPool", "MaxPool", "Relu"})
"""Operators that keep the levels of a quantiser, beside those that only move."""

_GRIDS = frozenset({"Clip", "QuantizeLinear"})
"""What stands between a constant and the DequantizeLinear that ends its quantiser."""

_WIDTH = 32
"""Bits of a number whose datatype is not known."""


@dataclass(frozen=True)
class DatatypeCost:
    """What the products of a model cost in hardware.

    ``macs`` are by the datatypes of data and weights; the others count elements by datatype.
    ``unknown`` products miss a size.
    """

    macs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    activations: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def bops(self) -> int:
        """Bit operations: for each multiplication the product of the widths of its factors."""
        return sum(n * bits_of(a) * bits_of(b) for (a, b), n in self.macs.items())

    @property
    def weight_bits(self) -> int:
        """Bits of all weights."""
        return sum(count * bits_of(name) for name, count in self.weights.items())

    @property
    def activation_bits(self) -> int:
        """Bits of what products read and write."""
        return sum(count * bits_of(name) for name, count in self.activations.items())


@passes.register()
class IntegerCost(passes.Analysis):
    """Count multiplications by the datatypes of their factors, and the bits that are kept.

    Finds: for each MatMul, Gemm, Conv and ConvTranspose of the main graph the multiplications
    of one run, by the datatypes of data and weights; bit operations (for each multiplication
    the product of both widths); the bits of weights and of what these operators read and
    write. Datatypes are those that the model notes (``finn_datatype``), those that
    integers have by their bounds, and those that a quantiser makes: ``SCALEDINT<4>`` are
    multiples of a scale. A number whose datatype is not known has 32 bits.

    Attributes:
        dims: Sizes of dynamic dimensions, by name.
    """

    dims: dict[str, int] = Field(default_factory=dict)

    def analyse(self, model: ir.Model) -> DatatypeCost:
        """Return the counts, and note them for the report."""
        found = datatype_cost(model, self.dims, name=self.name)
        for (data, weights), count in sorted(found.macs.items(), key=lambda item: -item[1]):
            self.context.notes.append(f"{count:,} MACs of {data} and {weights}")
        at_least = "at least " if found.unknown else ""
        self.context.notes.append(
            f"{at_least}{found.bops:,} bit operations, {found.weight_bits:,} bits of weights, "
            f"{found.activation_bits:,} bits of activations"
        )
        if found.unknown:
            self.context.notes.append(
                f"sizes are missing of: {', '.join(found.unknown)}; "
                "the option dims gives them, as in dims: {batch: 1}"
            )
        return found


def datatype_cost(
    model: ir.Model, dims: Mapping[str, int], *, name: str = "integer-cost"
) -> DatatypeCost:
    """Count the products of a model by datatypes."""
    graph = sized(model, dims, name).graph
    ranges = _integer_ranges.integer_ranges(graph, declared=True)

    def datatype(value: ir.Value) -> str:
        noted = _integer_ranges.datatype_of(value)
        if noted is not None:
            return noted
        return ranges[value].name if value in ranges else _quantised(value) or "FLOAT32"

    macs: Counter[tuple[str, str]] = Counter()
    weights: Counter[str] = Counter()
    activations: Counter[str] = Counter()
    seen: set[ir.Value] = set()
    unknown: list[str] = []
    for node in graph:
        depth = _depth(node)
        if depth is None:
            continue
        size = sizes_of(node.outputs[0])
        data, factor = node.inputs[0], node.inputs[1]
        if size is None or depth < 0 or data is None or factor is None:
            unknown.append(label_of(node))
            continue
        elements = sizes_of(data) if node.op_type == _integer_ranges.SPREADS else size
        if elements is None:
            unknown.append(label_of(node))
            continue
        macs[datatype(data), datatype(factor)] += int(np.prod(elements)) * depth
        for value in (data, factor, node.outputs[0]):
            if value in seen:
                continue
            seen.add(value)
            tensor, shape = constant_of(value), sizes_of(value)
            if tensor is not None:
                weights[datatype(value)] += tensor.size
            elif shape is not None:
                kept = weights if _is_weight(value) else activations
                kept[datatype(value)] += int(np.prod(shape))
    return DatatypeCost(dict(macs), dict(weights), dict(activations), tuple(unknown))


def _quantised(value: ir.Value) -> str | None:
    """Return the datatype that a quantiser in front of a value makes."""
    node = value.producer()
    while node is not None and (_integer_ranges.only_moves(node) or node.op_type in _KEPT):
        source = node.inputs[0]
        node = None if source is None else source.producer()
    found = _quantiser(node)
    if found is None or not (float(found.low).is_integer() and float(found.high).is_integer()):
        return None
    name = _integer_ranges.IntegerRange(found.low, found.high, 2 if found.bipolar else 1).name
    whole = (found.scale == 1).all() and not found.zero.any()
    return name if whole else f"SCALEDINT<{bits_of(name)}>"


def _quantiser(node: ir.Node | None) -> Quantiser | None:
    pair = pair_of(node)
    return quantiser_of(node) if pair is None else pair.quantiser


def _is_weight(value: ir.Value | None) -> bool:
    """Whether a value is a constant that is moved and quantised, callers may override it."""
    while value is not None and not value.is_initializer() and constant_of(value) is None:
        node = value.producer()
        if node is None or not (
            _integer_ranges.only_moves(node) or _quantiser(node) or node.op_type in _GRIDS
        ):
            return False
        value = node.inputs[0]
    return value is not None


def _depth(node: ir.Node) -> int | None:
    """Return how many products an element of the result (ConvTranspose: the data) is in.

    None for a node that is not a product, -1 if it is not known.
    """
    depth = _DEPTHS.get(node.op_type) if node.domain == "" else None
    if depth is None:
        return None
    shape = sizes_of(node.inputs[1])
    tensor = constant_of(node.inputs[1])
    if shape is None and tensor is not None:
        shape = [int(size) for size in tensor.shape.numpy()]
    if shape is None or not shape:
        return -1
    return depth(node, shape)


_DEPTHS: dict[str, Callable[[ir.Node, list[int]], int]] = {
    "MatMul": lambda node, shape: shape[-2] if len(shape) > 1 else shape[0],
    "Gemm": lambda node, shape: shape[bool(node.attributes.get_int("transB", False))],
    **dict.fromkeys(_integer_ranges.CONVOLUTIONS, lambda node, shape: int(np.prod(shape[1:]))),
}
"""How many products make an element of the result, by the shape of the weights.

Of ConvTranspose it is how many products an element of the data is in.
"""


def bits_of(datatype: str) -> int:
    """Return the width of a datatype of QONNX."""
    if datatype in _NAMED:
        return _NAMED[datatype]
    small, found = _SMALL.fullmatch(datatype), _BITS.fullmatch(datatype)
    if small is not None:
        return 1 + int(small[1]) + int(small[2])
    return int(found[1]) if found else _WIDTH
