"""Which values are integers, and between which bounds.

Bounds follow from movement of elements, sums of products, and sums over square windows.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod
from types import EllipsisType
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.bodies import operator_bodies
from onnx_passes.ops.bodies.attach import BodyCall
from onnx_passes.passes.common.shapes import ints_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.quantised._quantisers import table_of
from onnx_passes.passes.streamline._rule_constants import numbers

ARITHMETIC = ("Mul", "Div", "Add")

RANKING = ("ArgMax", "ArgMin", "TopK")
"""Operators that choose among elements, and return where they are."""

CHOOSING = {
    **dict.fromkeys(("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin"), ARITHMETIC),
    **dict.fromkeys(RANKING, ARITHMETIC),
    "Relu": ("Mul", "Div"),
}
"""Operators that choose among elements, and what they let through."""

MOVING = frozenset(
    {
        *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
        *("Identity", "Reshape", "Slice", "SpaceToDepth", "Squeeze", "Tile", "Transpose"),
        "Unsqueeze",
    }
)
"""Operators whose results are elements of their first operand."""


def only_moves(node: ir.Node) -> bool:
    """Whether all elements of the results are of the first operand."""
    if node.op_type == "Resize":
        mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
        nearest = node.attributes.get_string("mode", "nearest") == "nearest"
        return nearest and mode != "tf_crop_and_resize"
    if node.op_type == "Pad":
        return node.attributes.get_string("mode", "constant") != "constant"
    return node.op_type in MOVING


def feeds_product(value: ir.Value) -> bool:
    """Whether products alone read a value, or elements of it that are moved."""
    readers = list(value.consumers())
    return (
        bool(readers)
        and not value.is_graph_output()
        and all(
            node.domain == ""
            and (
                node.op_type in PRODUCTS
                or (only_moves(node) and feeds_product(node.outputs[0]))
            )
            for node in readers
        )
    )


def needs_zero(value: ir.Value) -> bool:
    """Whether zeros are put around a value, or around elements of it that are moved."""
    return any(
        (node.op_type == "Pad" and padding_of(node) == 0)
        or (node.op_type in PRODUCTS and may_skip(node))
        or (only_moves(node) and needs_zero(node.outputs[0]))
        for node in value.consumers()
        if node.domain == ""
    )


def let_through(node: ir.Node) -> Collection[str]:
    """Return what may be moved across an operator of one operand, in either direction."""
    if node.domain != "" or only_moves(node) or node.op_type in ("Concat", "Split"):
        return ARITHMETIC
    if node.op_type == "Pad":
        padding = padding_of(node)
        if padding is not None and np.isinf(padding):
            return ARITHMETIC
        return ("Mul", "Div") if padding == 0 else ()
    return CHOOSING.get(node.op_type, ())


def padding_of(node: ir.Node) -> float | None:
    """Return the number that a Pad puts around; None if it is computed, or NaN."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None:
        return 0.0
    array = numbers(value)
    one = array is not None and array.size == 1 and not np.isnan(array).any()
    return float(array.reshape(-1)[0]) if array is not None and one else None


SPREADS = "ConvTranspose"
"""The operator that spreads each element of its data."""

CONVOLUTIONS = ("Conv", SPREADS)
PRODUCTS = frozenset({"MatMul", *CONVOLUTIONS})
"""Operators whose results are sums of products."""

_EXACT = 2.0**24
"""Up to here float32 holds every integer."""


@dataclass(frozen=True)
class IntegerRange:
    """Bounds of a value whose elements are integers.

    The distance of each element to ``low`` is a multiple of ``step``. Sums on the way to an
    element are from ``least`` to ``most`` in any order.
    """

    low: float
    high: float
    step: int = 1
    least: float = 0.0
    most: float = 0.0

    @property
    def name(self) -> str:
        """The smallest datatype of QONNX that holds it, and every sum on the way."""
        low, high = min(self.low, self.least), max(self.high, self.most)
        if (low, high) == (-1, 1):
            return "BIPOLAR" if self.step == 2 else "TERNARY"
        if low >= 0:
            bits = max(int(high).bit_length(), 1)
            return "BINARY" if bits == 1 else f"UINT{bits}"
        bits = max(int(-low - 1).bit_length(), int(high).bit_length()) + 1
        return f"INT{bits}"

    @property
    def exact(self) -> bool:
        """Whether float32 computes it without rounding, in any order of additions."""
        return max(map(abs, (self.low, self.high, self.least, self.most))) <= _EXACT


def of_product(node: ir.Node, ranges: list[IntegerRange | None]) -> IntegerRange | None:
    """Bound sums of products, and what is summed up on the way in any order."""
    data, other = ranges[0], ranges[1]
    if data is None or other is None or any(r is None for r in ranges[2:]):
        return None
    weights = constant_of(node.inputs[1])
    if weights is None:
        return _of_computed(node, data, other) if node.op_type == "MatMul" else None
    sums = sums_of(node, weights.numpy().astype(np.float64))
    if sums is None:
        return None
    low, high = data.low, data.high
    if may_skip(node):
        low, high = min(low, 0.0), max(high, 0.0)
    found, partial = [], []
    for factors in sums:
        least = np.minimum(factors * low, factors * high)
        most = np.maximum(factors * low, factors * high)
        found.append((least.sum(-1).min(), most.sum(-1).max()))
        partial.append((np.minimum(least, 0).sum(-1).min(), np.maximum(most, 0).sum(-1).max()))
    bias = ranges[2] if len(ranges) > 2 else None
    start = (0.0, 0.0) if bias is None else (bias.low, bias.high)
    return IntegerRange(
        float(min(low for low, _ in found)) + start[0],
        float(max(high for _, high in found)) + start[1],
        least=float(min(low for low, _ in partial)) + min(start[0], 0),
        most=float(max(high for _, high in partial)) + max(start[1], 0),
    )


def may_skip(node: ir.Node) -> bool:
    """Whether some products are missing in sums at the borders."""
    if node.op_type == SPREADS:
        return True
    return any(node.attributes.get_ints("pads") or ()) or (
        node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    )


def sums_of(node: ir.Node, weights: Array) -> list[Array] | None:
    """Return the factors of each sum, ``[..., products]``, by kinds of sums.

    ``weights`` are float64 in the layout of the operator.
    """
    if weights.ndim < 2:
        return None
    if node.op_type == "MatMul":
        return [np.swapaxes(weights, -1, -2)]
    if node.op_type == "Conv":
        return [weights.reshape(len(weights), -1)]
    groups = node.attributes.get_int("group", 1) or 1
    inputs, outputs, *kernel = weights.shape
    taps = weights.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    # Elements of the result see every `stride`-th tap only, which ones depends on their place.
    strides = node.attributes.get_ints("strides") or [1] * len(kernel)
    if any(size != 1 for size in node.attributes.get_ints("dilations") or ()):
        strides = [1] * len(kernel)
    places = product(*map(range, strides))
    return [taps[_every(place, strides)].reshape(groups * outputs, -1) for place in places]


def _every(place: Sequence[int], strides: Sequence[int]) -> tuple[EllipsisType | slice, ...]:
    """Return an index of every `stride`-th tap from a place on."""
    steps = (slice(at, None, by) for at, by in zip(place, strides, strict=True))
    return (..., *steps)


def _of_computed(
    node: ir.Node, data: IntegerRange, other: IntegerRange
) -> IntegerRange | None:
    """Bound a product of two computed matrices by how many products are summed up."""
    sizes = (size_of(node.inputs[0], -1), size_of(node.inputs[1], -2))
    depth = next((size for size in sizes if size is not None), None)
    if depth is None:
        return None
    ends = [a * b for a in (data.low, data.high) for b in (other.low, other.high)]
    low, high = depth * min(ends), depth * max(ends)
    return IntegerRange(low, high, least=min(low, 0.0), most=max(high, 0.0))


def size_of(value: ir.Value | None, axis: int) -> int | None:
    """Return the size of an axis, from the front or the end; None if it is not known."""
    shape = None if value is None else value.shape
    if shape is None or len(shape) < -axis:
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None


MEANS = ("AveragePool", "GlobalAveragePool", "ReduceMean")
"""Operators that make means of windows, or of whole images."""

_EXACT_FROM_MEAN = 2.0**22
"""Up to here a sum is the integer next to its mean times the number of elements."""


def plain_call(node: ir.Node) -> BodyCall | None:
    """Read a node's attributes; None if one of them is a parameter of a function."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    attributes = {a.name: a.value for a in node.attributes.values()}
    return BodyCall(node.domain, node.op_type, 1, attributes, 0)


def square_window(mean: ir.Node) -> tuple[int, int] | None:
    """Return the sides of the window and of the step of a mean over images ``[N, C, H, W]``.

    ``mean`` is one of ``MEANS``. None if sides differ or are not known, or if there is
    padding.
    """
    x = mean.inputs[0]
    if x is None or x.shape is None or len(x.shape) != 4:
        return None
    if mean.op_type != "AveragePool":
        side = size_of(x, -1)
        whole = mean.op_type == "GlobalAveragePool" or _is_over_images(mean)
        return (side, side) if whole and side and side == size_of(x, -2) else None
    window = plain_window(mean)
    if window is None or {*window.get("dilations", (1,))} != {1}:
        return None
    kernel, strides = window["kernel_shape"], window.get("strides", (1, 1))
    square = len(kernel) == len(strides) == 2 and len({*kernel}) == len({*strides}) == 1
    return (kernel[0], strides[0]) if square else None


def plain_window(mean: ir.Node) -> dict[str, Sequence[int]] | None:
    """Return the attributes of an AveragePool without padding; None for any other."""
    attributes = mean.attributes
    if mean.op_type != "AveragePool" or (
        any(attributes.get_ints("pads") or ())
        or attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or attributes.get_int("ceil_mode")
    ):
        return None
    given = {n: attributes.get_ints(n) for n in ("kernel_shape", "strides", "dilations")}
    return {name: sizes for name, sizes in given.items() if sizes}


def _is_over_images(mean: ir.Node) -> bool:
    """Whether a ReduceMean is over rows and columns, and keeps their axes."""
    kept = mean.attributes.get_int("keepdims", 1)
    return bool(kept) and reduced_axes(mean) == [2, 3]


def reduced_axes(node: ir.Node) -> list[int] | None:
    """Return the axes of a reduction, from the front; None if they are not known."""
    x = node.inputs[0]
    if x is None or x.shape is None or node.attributes.get_int("noop_with_empty_axes"):
        return None
    rank = len(x.shape)
    if node.op_type == "GlobalAveragePool":
        return list(range(2, rank))
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        given = ints_of(node.inputs[1])
    else:
        given = list(node.attributes.get_ints("axes") or range(rank))
    return None if given is None else sorted(axis % rank for axis in given or range(rank))


def reduced_elements(node: ir.Node) -> int | None:
    """Return how many elements a reduction puts together; None if that is not known."""
    axes = reduced_axes(node)
    sizes = [size_of(node.inputs[0], axis) for axis in axes or ()]
    known = [size for size in sizes if size is not None]
    return prod(known) if axes is not None and len(known) == len(sizes) else None


def range_of_sums(node: ir.Node, data: IntegerRange | None) -> IntegerRange | None:
    """Bound what QuantAvgPool2d makes: sums of windows without their lowest bits."""
    call = plain_call(node)
    if data is None or call is None:
        return None
    sums = sums_of_elements(data, call.integer("kernel", 1) ** 2)
    if sums is None:
        return None
    step = 2.0 ** operator_bodies.dropped_bits(call)
    return IntegerRange(float(np.floor(sums.low / step)), float(np.floor(sums.high / step)))


def sums_of_elements(data: IntegerRange, count: int) -> IntegerRange | None:
    """Bound sums of integers; None if float32 may not find them from their mean."""
    low, high = data.low * count, data.high * count
    if max(abs(low), abs(high)) > _EXACT_FROM_MEAN:
        return None
    return IntegerRange(low, high, least=min(low, 0.0), most=max(high, 0.0))


NOTED, KEY = "quant_parameter_tensor_names", "finn_datatype"
"""Where onnx-ir keeps the quantization_annotation of a value, and QONNX's datatype in it."""

_KEPT = frozenset({"GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin", "Split"})
"""Operators whose elements are some of their first operand's, beside those that only move."""

_Lookup: TypeAlias = Callable[[ir.Value | None], IntegerRange | None]


def integer_ranges(graph: ir.Graph, *, declared: bool = False) -> dict[ir.Value, IntegerRange]:
    """Bound the values of a graph that are integers whatever the inputs are.

    The graph is in topological order. With ``declared``, inputs are what the datatypes noted
    at them say. A value that float32 may round is left out.
    """
    found: dict[ir.Value, IntegerRange] = {}
    for value in graph.inputs if declared else ():
        noted = None if value.is_initializer() else range_of_datatype(datatype_of(value))
        if noted is not None:
            found[value] = noted

    def of(value: ir.Value | None) -> IntegerRange | None:
        if value is None:
            return None
        if value not in found:
            made = _of_constant(value)
            if made is not None:
                found[value] = made
        return found.get(value)

    for node in graph:
        made = _of_node(node, of)
        if made is not None and made.exact and node.outputs:
            for output in node.outputs if node.op_type == "Split" else node.outputs[:1]:
                found[output] = made
    return found


_FEW = 8
"""Terms up to here take at most three digits of two from a result."""


def cancels(x: ir.Value, term: Array, beside: ir.Value | None = None) -> bool:
    """Whether a result has fewer digits if a term is added to integers later.

    A quantiser of 8 signed bits is a number from 0 to 255, plus -128. Next to the number the
    term is exact. Behind a factor, or a sum of products, each of them is rounded to digits of
    its own size, and what is left of them may be small. Sums of integers are exact, until an
    engine multiplies a factor behind a Conv into its weights. Integers ``beside`` stay exact.
    """
    large = np.abs(term).max(initial=0) > _FEW and integer_range(x) is not None
    return bool(large) and (beside is None or integer_range(beside) is None)


def integer_range(value: ir.Value | None) -> IntegerRange | None:
    """Bound a value that is made of integers near by; float32 may round it."""
    found: dict[ir.Value, IntegerRange | None] = {}

    def of(value: ir.Value | None) -> IntegerRange | None:
        if value is None:
            return None
        if value not in found and len(found) < _NEAR:
            node, found[value] = value.producer(), None
            made = None if node is None else _of_node(node, of)
            found[value] = made or _of_constant(value)
        return found.get(value)

    return of(value)


_NEAR = 64
"""Values that are looked at to find out whether one is an integer."""


def datatype_of(value: ir.Value) -> str | None:
    """Return the datatype of QONNX that is noted at a value."""
    noted = (value.meta.get(NOTED) or {}).get(KEY)
    return None if noted is None else str(noted)


def range_of_datatype(name: str | None) -> IntegerRange | None:
    """Return the numbers of a datatype of QONNX; None if they are not integers."""
    if name in _NAMED:
        return _NAMED[name]
    match = re.fullmatch(r"(U?)INT(\d+)", name or "")
    if match is None:
        return None
    bits = int(match[2])
    return (
        IntegerRange(0, 2.0**bits - 1)
        if match[1]
        else IntegerRange(-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)
    )


_NAMED = {
    "BINARY": IntegerRange(0, 1),
    "BIPOLAR": IntegerRange(-1, 1, 2),
    "TERNARY": IntegerRange(-1, 1),
}


def _of_constant(value: ir.Value) -> IntegerRange | None:
    tensor = constant_of(value)
    if tensor is None or tensor.size == 0 or tensor.dtype != ir.DataType.FLOAT:
        return None
    array = tensor.numpy()
    if not np.isfinite(array).all() or not np.array_equal(array, np.rint(array)):
        return None
    low, high = float(array.min()), float(array.max())
    return IntegerRange(low, high, 2 if (np.abs(array) == 1).all() else 1)


def _of_node(node: ir.Node, of: _Lookup) -> IntegerRange | None:
    if (node.domain, node.op_type) == (operator_bodies.CUSTOM, "MultiThreshold"):
        return _of_thresholds(node)
    if node.domain in operator_bodies.QONNX_ALIASES and node.op_type == "MultiThreshold":
        return _of_rows(node)
    if node.domain in operator_bodies.QONNX_ALIASES and node.op_type == "XnorPopcountMatMul":
        depth = size_of(node.inputs[1], -2)
        return None if depth is None else IntegerRange(0.0, float(depth))
    if node.domain in operator_bodies.QONNX_ALIASES and node.op_type == "QuantAvgPool2d":
        return range_of_sums(node, of(node.inputs[0]))
    if (
        node.domain == operator_bodies.CUSTOM and node.op_type in ("Im2Col", "LayoutConverter")
    ) or (node.domain in operator_bodies.QONNX_ALIASES and node.op_type == "Im2Col"):
        return _at_zero(of(node.inputs[0]))
    if node.domain not in ("", operator_bodies.CHANNELS_LAST):
        return None
    if node.op_type in _KEPT or only_moves(node):
        return _at_zero(of(node.inputs[0]))
    ranges = [of(value) for value in node.inputs]
    if node.op_type == "Concat":
        known = [r for r in ranges if r is not None]
        if len(known) < len(ranges):
            return None
        return IntegerRange(min(r.low for r in known), max(r.high for r in known))
    if node.op_type == "Pad":
        return _pad(of(node.inputs[0]), padding_of(node))
    if node.op_type in PRODUCTS:
        return of_product(node, ranges)
    if node.op_type == "ReduceSum":
        count = reduced_elements(node)
        return sums_of_elements(ranges[0], count) if ranges[0] and count else None
    if len(ranges) < 1 or any(r is None for r in ranges):
        return None
    return _of_arithmetic(node.op_type, [r for r in ranges if r is not None])


def _at_zero(found: IntegerRange | None) -> IntegerRange | None:
    return None if found is None else replace(found, least=0.0, most=0.0)


def _pad(found: IntegerRange | None, number: float | None) -> IntegerRange | None:
    if found is None or number is None or not number.is_integer():
        return None
    return IntegerRange(min(found.low, number), max(found.high, number))


def _of_arithmetic(kind: str, ranges: list[IntegerRange]) -> IntegerRange | None:
    first, second = ranges[0], ranges[-1]
    match kind:
        case "Add":
            step = _common_step(first, second)
            return IntegerRange(first.low + second.low, first.high + second.high, step)
        case "Sub":
            step = _common_step(first, second)
            return IntegerRange(first.low - second.high, first.high - second.low, step)
        case "Mul":
            ends = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
            return IntegerRange(min(ends), max(ends))
        case "Relu":
            return IntegerRange(max(first.low, 0.0), max(first.high, 0.0))
        case "Neg":
            return IntegerRange(-first.high, -first.low, first.step)
    return None


def _common_step(first: IntegerRange, second: IntegerRange) -> int:
    """Return the step of a sum; a single number has any step."""
    steps = [r.step for r in (first, second) if r.low != r.high]
    return gcd(*steps) if steps else 1


def _of_thresholds(node: ir.Node) -> IntegerRange | None:
    weights = node.inputs[2]
    found = None
    if node.inputs[1] is not None and weights is not None:
        found = table_of(node.inputs[1], weights)
    if found is None or not np.array_equal(found[1], np.rint(found[1])):
        return None
    # Thresholds are reached from the lowest on, so that only sums from there occur.
    order = np.argsort(found[0], axis=-1, kind="stable")
    steps = np.take_along_axis(found[1], order, -1).astype(np.float64)
    sums = np.cumsum(steps, -1)
    step = int(np.gcd.reduce(np.abs(steps).astype(np.int64), axis=None)) or 1
    return IntegerRange(float(sums.min(initial=0)), float(sums.max(initial=0)), step)


def _of_rows(node: ir.Node) -> IntegerRange | None:
    """Bound QONNX's thresholds: a number of them, times a scale, plus a bias."""
    steps = size_of(node.inputs[1], -1)
    parts = (("out_scale", 1.0), ("out_bias", 0.0))
    scale, bias = (node.attributes.get_float(*part) or 0.0 for part in parts)
    if steps is None or not (scale.is_integer() and bias.is_integer()):
        return None
    ends = bias, bias + steps * scale
    return IntegerRange(min(ends), max(ends), max(int(abs(scale)), 1))
