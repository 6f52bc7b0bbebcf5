"""What passes and runs ask about a node, answered by the description of its operator.

The answers are ranges of results, costs, admitted inputs, breakpoints, steps and randomness.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.walk import named_type
from onnx_passes.ops.bodies import has_body
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, QONNX_ALIASES, is_quantiser
from onnx_passes.ops.call import Call, Operands, Tensor
from onnx_passes.ops.domains import intervals
from onnx_passes.ops.domains.intervals import hull as hull_of
from onnx_passes.ops.elementwise import Exp
from onnx_passes.ops.input_hints import Use, ValueHint
from onnx_passes.ops.operator_class import Operator, operator_of
from onnx_passes.ops.quantization import QuantizeLinear
from onnx_passes.ops.semantics import MALFORMED, Unsupported

_MOST_ELEMENTS = 1 << 24
"""Elements that may represent all of a node's operands."""

_POINTS, _SPANS = intervals.IntervalSemantics(numbers=True), intervals.IntervalSemantics()


def range_of(operands: Operands) -> intervals.Interval:
    """Return the interval of a node's outputs; what the type holds if no more is known."""
    node = operands.node
    dtype, operator = node.outputs[0].dtype, operator_of(node, operands.opset)
    if operator is None or dtype is None:
        return intervals.of_type(dtype)
    try:
        low, high = _found(operator, operands, dtype)
    except (Unsupported, *MALFORMED):
        return intervals.of_type(dtype)
    return intervals.of_type(dtype) if math.isnan(low) or math.isnan(high) else (low, high)


def _found(operator: Operator, operands: Operands, dtype: ir.DataType) -> intervals.Interval:
    own = operator.bounds(operands)
    if own is not None:
        return own
    inputs = operands.node.inputs
    moved = [i for i, v in enumerate(inputs) if i in operator.moves and v is not None]
    if moved and not operator.elementwise:
        if operands.node.attributes.get_string("reduction", "none") != "none":
            return intervals.UNBOUNDED
        found = hull_of(*(operands.hull(i) for i in moved))
        fill = operator.fill_of(operands.node)
        return found if fill is None else hull_of(found, (fill, fill))
    shapes = operator.representatives(operands)
    if sum(map(math.prod, shapes)) > _MOST_ELEMENTS:
        raise Unsupported(f"the range of rows of {operator.op_type}")
    tensors = [
        operands.tensor(i, shape, exact=i in operator.exact) for i, shape in enumerate(shapes)
    ]
    if len(inputs) == 2 and inputs[0] is inputs[1] and operator.elementwise:
        tensors[1] = tensors[0]  # a product of equals is a square
    low, high = _hulls(operator, operands, tensors)
    ends = intervals.fitted(low, high, dtype, computed=False)
    return float(ends["low"]), float(ends["high"])


def _hulls(
    operator: Operator, operands: Operands, tensors: Sequence[Tensor | None]
) -> intervals.Interval:
    rising = operator.monotone_in(operands.node)
    # Where it never falls, its ends are at the ends of the operand.
    if not operator.elementwise or not rising:
        return _evaluated(operator, operands, tensors, _SPANS)
    sides = []
    for side in (0, 1):
        ends = []
        for index, tensor in enumerate(tensors):
            if tensor is None or index not in rising:
                ends.append(tensor)
                continue
            end = tensor.data["high" if (rising[index] > 0) == bool(side) else "low"]
            ends.append(Tensor(intervals.pair(end, end), tensor.dtype))
        all_ends = all(index in rising for index, t in enumerate(ends) if t is not None)
        sides.append(_evaluated(operator, operands, ends, _POINTS if all_ends else _SPANS))
    return hull_of(*sides)


def _evaluated(
    operator: Operator,
    operands: Operands,
    tensors: Sequence[Tensor | None],
    semantics: intervals.IntervalSemantics,
) -> intervals.Interval:
    found = operator.evaluate(Call(operands.node, tensors, semantics, operands.opset))
    result = found[0] if isinstance(found, tuple) else found
    if result is None or not result.data.size:
        return intervals.UNBOUNDED
    return float(result.data["low"].min()), float(result.data["high"].max())


def flops_of(operands: Operands) -> int | None:
    """Return the operations of one run of a node, its subgraphs not among them.

    None if a size is not known, or the operator is not described: see ``has_rule``.
    """
    operator = operator_of(operands.node)
    if operator is None:
        return None
    if operator.free or operator.moves:
        return 0
    try:
        return operator.cost(operands)
    except (Unsupported, *MALFORMED):
        return None


def has_rule(operands: Operands) -> bool:
    """Whether the operations of a node are known, once its sizes are."""
    operator = operator_of(operands.node)
    if operator is None:
        return False
    costs = type(operator).cost is not Operator.cost
    return costs or operator.free or bool(operator.moves)


def admitted(use: Use) -> ValueHint | None:
    """Return what a value must be at one use for the node to mean something."""
    operator = operator_of(use.node)
    return None if operator is None else operator.admits(use)


def steers(node: ir.Node, index: int) -> bool:
    """Whether an operand decides sizes or places: a shape, an axis, an index."""
    operator = operator_of(node)
    return operator is not None and index in operator.steers


_ARRAYS = 3
"""How many arrays hold the values around breakpoints, at most, where one is too small."""

_MOST_BITS = 64
"""Bits of the widest quantiser whose ends are sought."""


def breakpoints_of(nodes: Iterable[ir.Node]) -> dict[str, list[float]]:
    """Return the finite breakpoints of what nodes read, by the names of the values.

    Constants among the operands of a node are breakpoints of the others.
    """
    rng, found = np.random.default_rng(0), defaultdict[str, list[float]](list)
    for node in nodes:
        operator = operator_of(node)
        for array in (_thresholds(node), _ends(node)):
            if array is not None:
                found[_name(node)] += array[np.isfinite(array)].tolist()
        if operator is None or any(_is_text(value) for value in node.inputs):
            continue
        for index, value in enumerate(node.inputs):
            if value is not None and value.name:
                numbers = operator.breakpoints(Use(node, index, rng))
                found[value.name] += [n for n in numbers if np.isfinite(n)]
    return {name: numbers for name, numbers in found.items() if name and numbers}


def overflows_of(nodes: Iterable[ir.Node]) -> dict[str, list[float]]:
    """Return where exponentials and powers of values overflow, by the names of the values."""
    found = {}
    for node in nodes:
        half = node.outputs[0].dtype is ir.DataType.FLOAT16
        most = float(np.finfo(np.float16 if half else np.float32).max)
        if (node.domain, node.op_type) == ("", Exp.op_type):
            found[_name(node)] = [math.log(most)]
        elif (power := _power(node)) > 1:
            found[_name(node)] = [-(most ** (1 / power)), most ** (1 / power)]
    return found


SQUARES = frozenset(
    (
        "GlobalLpPool",
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "LpNormalization",
        "LpPool",
        "MeanVarianceNormalization",
        "ReduceL2",
        "ReduceSumSquare",
        "RMSNormalization",
        "SimplifiedLayerNormalization",
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
    )
)
"""Operators whose kernels square: what they make of large numbers is not defined."""


def _power(node: ir.Node) -> float:
    """Return the power that a node raises its operand to; 1 if it does not."""
    if (node.domain, node.op_type) == ("", "Mul"):
        return 2.0 if node.inputs[0] is node.inputs[1] else 1.0
    exponent = _constant(node, 1) if (node.domain, node.op_type) == ("", "Pow") else None
    return float(exponent.item()) if exponent is not None and exponent.size == 1 else 1.0


def expects_nan(node: ir.Node) -> bool:
    """Whether a node is there for values that are NaN, which are missing."""
    if node.domain != ML:
        return node.op_type == "IsNaN" and not node.domain
    replaced = node.attributes.get_float("replaced_value_float", 0.0)
    tracked = node.attributes.get_ints("nodes_missing_value_tracks_true", ())
    return math.isnan(replaced) or any(tracked)


def ties_of(nodes: Iterable[ir.Node]) -> dict[str, Array]:
    """Return values half way between two levels that nodes round to, by their names.

    Other scales than powers of two are left out: half way is not a float, and right formulas
    differ there. Each is float64 [16], for a value that is quantised by one constant scale.
    """
    found: dict[str, Array] = {}
    for node in nodes:
        scale = _scale(node)
        if scale is not None and scale.size == 1 and math.frexp(scale.item())[0] == 0.5:
            found[_name(node)] = (np.arange(-8, 8) + 0.5) * scale.item()
    return found


def _ends(node: ir.Node) -> Array | None:
    """Return numbers at, or next to, which a quantised value saturates; None for others."""
    scale = _scale(node)
    if scale is None:
        return None
    bits = _constant(node, 3) if node.domain else None
    if not node.domain and node.outputs[0].dtype is not None:
        bits = np.asarray(node.outputs[0].dtype.bitwidth)
    if bits is None or bits.size != 1 or not 0 < bits.item() <= _MOST_BITS:
        return None
    half: float = 2.0 ** (bits.item() - 1)
    return np.outer([-half, half, 2 * half], np.unique(scale)).reshape(-1)


ML = "ai.onnx.ml"

_SPLITS = frozenset(("nodes_values", "nodes_values_as_tensor", "nodes_splits", "threshold"))
"""Attributes of ai.onnx.ml that hold numbers which features are compared with."""


def _thresholds(node: ir.Node) -> Array | None:
    """Return the constants that a value is compared with; None for other nodes."""
    if node.domain == ML:
        given = [node.attributes[name].value for name in _SPLITS & node.attributes.keys()]
        arrays = [np.ravel(a.numpy() if hasattr(a, "numpy") else a) for a in given]
        return np.unique(np.concatenate(arrays)) if arrays else None
    if node.op_type != "MultiThreshold" or node.domain not in (CUSTOM, *QONNX_ALIASES):
        return None
    held = _constant(node, 1)
    return None if held is None else np.unique(held)


def _scale(node: ir.Node) -> Array | None:
    """Return the constant scale of a quantiser, in float64; None for other nodes."""
    rounds = (node.domain, node.op_type) == ("", QuantizeLinear.op_type)
    return _constant(node, 1) if rounds or is_quantiser(node.domain, node.op_type) else None


def _constant(node: ir.Node, index: int) -> Array | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or _is_text(value):
        return None
    return np.asarray(tensor.numpy(), np.float64)


def _name(node: ir.Node) -> str:
    value = node.inputs[0]
    return "" if value is None else value.name or ""


def _is_text(value: ir.Value | None) -> bool:
    if value is None:
        return False
    tensor = ir.convenience.get_const_tensor(value)
    return ir.DataType.STRING in (value.dtype, None if tensor is None else tensor.dtype)


def around(breakpoints: Iterable[float], like: Array) -> list[Array]:
    """Return values beside breakpoints and 0, and these, the outermost first.

    They lie on both sides, and between two that are near each other.

    They have the shape and dtype of ``like``. If that is small, a few arrays hold the
    outermost.
    """
    each = np.unique([*breakpoints, 0.0])
    apart = _apart(each)
    if like.dtype.kind in "iu":
        info = np.iinfo(like.dtype)
        # A double holds no end of 64 bits exactly.
        each, apart = each[(each > info.min) & (each < info.max)], np.ones(())
    with np.errstate(over="ignore", invalid="ignore"):
        sides = np.concatenate([each + apart, each - apart])
        # What lies between two neighbours is on no side that is far from both.
        near = np.diff(each) < 2 * apart[:-1] if apart.ndim else slice(0)
        between = (each[:-1] + each[1:])[near] / 2
        sides, each = (n[np.argsort(-np.abs(n), kind="stable")] for n in (sides, each))
        # A number has but three rows: what it ties with is one of them.
        found = np.concatenate([sides[:2], each, between, sides[2:]]).astype(like.dtype)
    found = found[np.isfinite(found.astype(np.float64))]
    count = min(_ARRAYS, math.ceil(found.size / like.size) or 1) if like.size else 1
    return [np.resize(np.roll(found, -k * like.size), like.shape) for k in range(count)]


def beyond(breakpoints: Iterable[float], like: Array) -> tuple[Array, Array]:
    """Return values that all lie over every breakpoint and 0, and such that all lie under.

    Of a maximum, say, one element on the other side hides what became of all others.
    """
    each = (*breakpoints, 0.0)
    steps = np.linspace(1.0, 2.0, like.size).reshape(like.shape)
    ends = max(each), min(each)
    most = float(np.finfo(like.dtype).max) if like.dtype.kind == "f" else np.inf
    with np.errstate(over="ignore"):
        over, under = (
            np.clip(end + side * _apart(end) * steps, -most, most)
            for end, side in zip(ends, (1, -1), strict=True)
        )
    return over.astype(like.dtype), under.astype(like.dtype)


def _apart(numbers: npt.ArrayLike) -> Array:
    """Return how far from a breakpoint, or from each of an array, values are drawn."""
    return np.abs(np.asarray(numbers, np.float64)) / 8 + 0.125


_OF_QONNX = ("BipolarQuant", "FloatQuant", "IntQuant", "MultiThreshold", "Quant", "Trunc")
ROUNDING_TO_STEPS = frozenset(("DynamicQuantizeLinear", "QuantizeLinear", "Round", *_OF_QONNX))
"""Operators whose results jump where an operand moves by one unit in the last place.

Those of QONNX, and of our own domain, are described by their names alone.
"""

RESIZING = frozenset(("Resize", "Upsample"))
"""Operators whose floats beside the first operand decide sizes."""

CHOOSING = frozenset(("ArgMax", "ArgMin", "Hardmax", "TopK"))
"""Operators that choose among equal values by their places."""

SIGNS = {"Add": 1.0, "Sub": -1.0}
"""The sign of the second operand of a sum, by operator."""

SUMS_OF_NOTHING = frozenset(
    ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSum", "ReduceSumSquare")
)
"""Reductions whose value over no element is given by the standard."""

RISKY_IF_EMPTY = frozenset(
    (
        *("Div", "Mod", "Loop", "Scan", "LSTM", "GRU", "RNN", "Resize", "Upsample", "TopK"),
        *("Conv", "ConvTranspose", "DeformConv", "MaxPool", "AveragePool", "LpPool"),
        *("ArgMax", "ArgMin", "GlobalAveragePool", "GlobalMaxPool"),
        *("Attention", "LogSoftmax", "Softmax"),
        "MeanVarianceNormalization",
    )
)
"""Operators whose kernels may end the process, or mean nothing, if an operand is empty."""

TAKES_NO_ROWS = frozenset(
    (
        *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool"),
        *("GlobalMaxPool", "LogSoftmax", "Softmax", "ArgMax", "ArgMin", "TopK"),
    )
)
"""Those among them that give no rows where only the first dimension is empty."""

DECIDING = frozenset(
    (
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("ArgMax", "ArgMin", "Ceil", "Floor", "Mod", "Sign", "TopK"),
    )
)
"""Operators whose results jump where operands are equal, or next to an integer."""

_WITHOUT_FLOATS = frozenset(
    (
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN"),
        *("ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Range", "Shape", "Size"),
    )
)
"""Operators that make sizes, indices and decisions of floats."""

MAKES_SIZES = frozenset(("NonZero", "Range", "Shape", "Size"))
"""Operators whose results follow the sizes of what they read."""

CASTS = frozenset(("Cast", "CastLike"))
"""Operators that give their operand another type."""

GIVES_SIZES = frozenset(("Shape", "Size"))
"""Operators that read no element of their operand."""

PICKS_ROWS = "Gather"
"""The operator that picks rows of a table by their numbers."""

SUPPRESSES = "NonMaxSuppression"
"""The operator that leaves a number of boxes at most."""

ADDS_UP_SIZES = frozenset(("CumSum", "ReduceSum"))
"""Operators whose results follow sizes where they add up masks."""

MEETS_SIZES = frozenset(
    (
        *("Add", "Clip", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Max", "Min", "Mod", "Sub"),
    )
)
"""Operators that hold a size against another integer, or move it by one."""

EXTREMES = frozenset(("ReduceMax", "ReduceMin"))
"""Operators that hold all elements of a tensor against each other."""

PICKING = frozenset(
    (
        *("Cast", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze"),
        *("Transpose", "Unsqueeze"),
    )
)
"""Operators whose results are elements of what they read first."""

PASSED_ON = PICKING | {"Ceil", "Floor"}
"""Operators behind which a size is what it was, or nearly so."""

ADDING_UP = frozenset(("ScatterElements", "ScatterND"))
"""Operators that may add up what goes to one place."""

ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: a // b if a.dtype.kind in "iu" else a / b,
    "Max": np.maximum,
    "Min": np.minimum,
}
"""What integers that follow sizes are computed by."""

UNDONE: dict[str, Callable[[float, float], float]] = {
    "Add": lambda wanted, by: wanted - by,
    "Sub": lambda wanted, by: wanted + by,
    "Mul": lambda wanted, by: wanted / by if by else math.inf,
    "Div": lambda wanted, by: wanted * by,
}
"""The size at which arithmetic with a number gives the number that is wanted."""

INDEXING = {"Gather": 1, "GatherElements": 1, "OneHot": 0, "ScatterElements": 1}
"""Which operand of an operator holds indices that may count from the end."""


LEADING_NOWHERE = {"OneHot": 0}
"""Which operand of an operator may hold indices out of range."""

DROPPING_EQUALS = frozenset({"NonMaxSuppression", "Unique"})
"""Operators that leave out what is there twice."""


def choices_of(node: ir.Node) -> Sequence[ir.Value | None]:
    """Return the operands that a node chooses from, element by element."""
    return node.inputs[1:] if (node.domain, node.op_type) == ("", "Where") else ()


def makes_steps(node: ir.Node) -> bool:
    """Whether results jump where an operand moves by rounding."""
    if node.op_type in CASTS:
        to = named_type(node.attributes.get("to")) or node.outputs[0].dtype
        return to is None or not to.is_floating_point()
    return node.op_type in ROUNDING_TO_STEPS | DECIDING


def gives_no_floats(node: ir.Node) -> bool:
    """Whether a node makes sizes, indices or decisions of floats, or casts them to others."""
    cast = node.op_type in CASTS and makes_steps(node)
    return cast or node.op_type in _WITHOUT_FLOATS


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
    body here; an operator of an unknown domain may keep state. The bodies of ``functions`` are
    looked at.
    """
    if node.op_identifier() in functions:
        return False
    if node.domain == "com.microsoft":
        return node.op_type in RANDOM_CONTRIB
    return node.domain not in _REPEATING and not has_body(node.domain, node.op_type)
