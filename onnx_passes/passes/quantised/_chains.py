"""Chains of operators that end in a quantiser, and the thresholds that compute the same.

Each operator of a chain is monotone in one operand, but one activation may fall to a minimum
and then rise. Thresholds are found by bisection on the chain itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.quantised import _quantisers as quantisers
from onnx_passes.passes.streamline._rule_constants import scalar

COMPARES = frozenset({"GreaterOrEqual", "Greater"})
"""Comparisons whose result for NaN is that left of all thresholds."""
CONVERSES = frozenset({"LessOrEqual", "Less"})
"""The other comparisons that are steps."""
_GRIDS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_BY_SIGN = frozenset({"Mul", "Div"})
_NEGATIVE = ("alpha", "beta", "gamma")
_RISING = frozenset({"Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu"})
"""Operators that rise if their attributes are not negative."""
CORRECTLY_ROUNDED = frozenset(
    {
        *("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Floor", "Identity"),
        *(
            "LeakyRelu",
            "PRelu",
            "Max",
            "Min",
            "Mul",
            "Neg",
            "Relu",
            "Round",
            "Sign",
            "Sqrt",
            "Sub",
        ),
        *("Where", *COMPARES, *_GRIDS),
    }
)
"""Operators whose kernels are IEEE operations, or a few of them in a row."""


def data_operand(node: ir.Node) -> int:
    """Return the place of the operand that is not a constant."""
    if node.op_type == "Div":
        return 0
    unknown = [
        i for i, v in enumerate(node.inputs) if v is not None and constant_of(v) is None
    ]
    return unknown[0] if unknown else 0


def is_monotone(node: ir.Node, operand: int, opset: int) -> bool:
    """Whether a node rises or falls in an operand, the others being constants."""
    if node.domain != "":
        return quantisers.quantiser_of(node) is not None
    if node.op_type in _BY_SIGN:
        factor = constant_of(node.inputs[1 - operand])
        return operand == 0 or (node.op_type == "Mul" and factor is not None)
    if node.op_type == "BatchNormalization":
        return len(node.outputs) == 1 and not node.attributes.get_int("training_mode", 0)
    if node.op_type == "PRelu":
        slopes = constant_of(node.inputs[1])
        return operand == 0 and slopes is not None and bool((slopes.numpy() >= 0).all())
    if node.op_type == "Identity" or node.op_type in COMPARES:
        return True
    operator = operator_of(node, opset)
    if operator is None or not operator.elementwise:
        return False
    rises = operand in operator.algebra.monotone or node.op_type in _RISING
    parts = (node.attributes.get_float(name, 0.0) or 0.0 for name in _NEGATIVE)
    return rises and all(part >= 0 for part in parts)


def is_correctly_rounded(node: ir.Node) -> bool:
    """Whether the kernel of a node is an IEEE operation, or a few of them in a row.

    A quotient of two values of one source is not monotone to the last bit.
    """
    if node.op_type == "Div" and constant_of(node.inputs[1]) is None:
        return False
    return node.domain != "" or node.op_type in CORRECTLY_ROUNDED


def has_channels(node: ir.Node) -> bool:
    """Whether a node has constants along one axis, whose place it looks at."""
    if node.domain == "" and node.op_type in _GRIDS:
        tensor = constant_of(node.inputs[1])
        return tensor is not None and tensor.size > 1
    return (node.domain, node.op_type) == ("", "BatchNormalization")


def varying(node: ir.Node, rank: int) -> list[tuple[int, int]]:
    """Return the axes, up to a rank, along which a node's constants differ, with sizes."""
    if has_channels(node):
        tensor = constant_of(node.inputs[1])
        axis = 1
        if node.op_type in _GRIDS:
            axis = (node.attributes.get_int("axis", 1) or 0) % rank
        return [] if tensor is None else [(axis, int(tensor.shape.numpy()[0]))]
    found = []
    for value in node.inputs:
        tensor = constant_of(value)
        if tensor is None or node.op_type in _GRIDS:
            continue
        shape = tensor.shape.numpy()
        if node.op_type == "MultiThreshold":
            shape = shape[:-1]
        found += [(rank - len(shape) + i, int(n)) for i, n in enumerate(shape) if n != 1]
    return found


def keeps_shape(node: ir.Node, value: ir.Value) -> bool:
    """Whether the constants of a node do not make its operand bigger.

    The shape of ``value``, its operand, is known.
    """
    if has_channels(node) or node.op_type in _GRIDS:
        return True
    shape = value.shape
    assert shape is not None, "the caller looks"
    for other in node.inputs:
        tensor = constant_of(other)
        if tensor is None:
            continue
        dims = tensor.shape.numpy()
        if node.op_type == "MultiThreshold":
            dims = dims[:-1]
        if len(dims) > len(shape):
            return False
        pairs = zip(reversed(dims), reversed(list(shape)), strict=False)
        if any(n not in (1, d) for n, d in pairs):
            return False
    return True


_SILU = -1.2784645427610738
_GELU = -0.7517915246935645
_GELU_TANH = -0.7524614220710162
_MISH = -1.192431298737
_ROOT = 2.0**0.5
"""Where the minima are; around them the functions are flat, so that no digit matters."""


@dataclass(frozen=True)
class Valley:
    """An activation of one value, as an operator or as its formula.

    The last node computes the result, which falls while ``source`` is below ``minimum``.
    """

    nodes: tuple[ir.Node, ...]
    source: ir.Value
    minimum: float


def valley_of(node: ir.Node) -> Valley | None:
    """Return the activation that a node ends: SiLU, Gelu, HardSwish, Mish, Abs, a square."""
    x = node.inputs[0] if node.inputs else None
    if x is None or any(a.is_ref() for a in node.attributes.values()):
        return None
    minimum = _of_operator(node)
    if minimum is not None:
        return Valley((node,), x, minimum)
    if (node.domain, node.op_type) != ("", "Mul"):
        return None
    if node.inputs[0] is node.inputs[1]:
        return Valley((node,), x, 0.0)
    for place in (0, 1):
        found = _of_product(node, node.inputs[place], node.inputs[1 - place])
        if found is not None:
            return found
    return None


def _of_operator(node: ir.Node) -> float | None:
    match node.domain, node.op_type:
        case "", "Gelu":
            tanh = node.attributes.get_string("approximate", "none") == "tanh"
            return _GELU_TANH if tanh else _GELU
        case "", "HardSwish":
            return -1.5
        case "", "Abs":
            return 0.0
        case "", "Mish":
            return _MISH
        case "", "Pow":
            return 0.0 if scalar(node.inputs[1]) == 2 else None
        case "", "Swish":
            slope = node.attributes.get_float("alpha", 1.0) or 0.0
            return _SILU / slope if slope > 0 else None
        case _, "Silu" if node.domain == CUSTOM:
            return _SILU
    return None


def _of_product(node: ir.Node, p: ir.Value | None, gate: ir.Value | None) -> Valley | None:
    """Recognise ``p * gate(u)``, where both come from one value by positive factors."""
    found = _gate(gate)
    if p is None or found is None:
        return None
    nodes, inner, minimum = found
    beside, source = [], p
    while True:
        scaled = _find_scaling(inner, source)
        if scaled is not None:
            break
        step = _factor(source.producer())
        if step is None:
            return None
        beside.append(source.producer())
        source = step[0]
    within, slope = scaled
    parts = [n for n in (*reversed(beside), *within, *nodes) if n is not None]
    return Valley((*dict.fromkeys(parts), node), source, minimum / slope)


def _find_scaling(value: ir.Value, source: ir.Value) -> tuple[list[ir.Node], float] | None:
    """Return the nodes and the factor that make a value of another one."""
    nodes: list[ir.Node] = []
    slope = 1.0
    while value is not source:
        node = value.producer()
        step = _factor(node)
        if step is None or node is None:
            return None
        value, slope = step[0], slope * step[1]
        nodes.insert(0, node)
    return nodes, slope


def _factor(node: ir.Node | None) -> tuple[ir.Value, float] | None:
    """Return the operand and the factor of a product with, or quotient by, a number over 0."""
    if node is None or node.domain != "" or node.op_type not in ("Mul", "Div"):
        return None
    for place in (0,) if node.op_type == "Div" else (0, 1):
        value, factor = node.inputs[place], scalar(node.inputs[1 - place])
        if value is not None and factor is not None and factor > 0:
            return value, factor if node.op_type == "Mul" else 1 / factor
    return None


def _gate(value: ir.Value | None) -> tuple[list[ir.Node], ir.Value, float] | None:
    """Return nodes of a function that rises from 0 to 1, its operand, and the minimum."""
    node = None if value is None else value.producer()
    if node is None or node.domain != "":
        return None
    if node.op_type == "Add":  # 1 + Erf(z)
        for place in (0, 1):
            erf = _only(node.inputs[place], "Erf")
            if erf is not None and scalar(node.inputs[1 - place]) == 1:
                return _with(erf, [erf, node], _GELU / _ROOT)
    if node.op_type == "Tanh":  # of Softplus
        softplus = _only(node.inputs[0], "Softplus")
        return None if softplus is None else _with(softplus, [softplus, node], _MISH)
    minimum = _GATES[node.op_type](node) if node.op_type in _GATES else None
    return None if minimum is None else _with(node, [node], minimum)


def _with(
    first: ir.Node, nodes: list[ir.Node], minimum: float
) -> tuple[list[ir.Node], ir.Value, float] | None:
    inner = first.inputs[0]
    return None if inner is None else (nodes, inner, minimum)


def _only(value: ir.Value | None, kind: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and (node.domain, node.op_type) == ("", kind) else None


def _of_hard_sigmoid(node: ir.Node) -> float | None:
    slope = node.attributes.get_float("alpha", 0.2) or 0.0
    term = node.attributes.get_float("beta", 0.5)
    return -(term or 0.0) / (2 * slope) if slope > 0 and term is not None else None


_GATES: dict[str, Callable[[ir.Node], float | None]] = {
    "Sigmoid": lambda node: _SILU,
    "HardSigmoid": _of_hard_sigmoid,
}


_ENDS = frozenset({"Round", "Ceil", "Floor", "Sign"})
IR_VERSION = 10


@dataclass(frozen=True)
class Chain:
    """Operators in a row, each monotone in one operand, the others being constants.

    One place may be otherwise: an activation that falls before it rises, or thresholds whose
    weights have both signs. ``source`` has float32 and a known rank, ``channels`` for each of
    its axes the size if a constant differs along it, else 1. The quantiser is the last node.
    ``bend`` is read at the place that is not monotone; it turns at ``turns``, ``[turns,
    *channels]``, infinite for none.
    """

    source: ir.Value
    nodes: tuple[ir.Node, ...]
    opset: int
    channels: tuple[int, ...]
    bend: ir.Value | None = None
    turns: Array | None = None

    @property
    def result(self) -> ir.Value:
        """What the quantiser computes."""
        return self.nodes[-1].outputs[0]

    @property
    def quantiser(self) -> quantisers.Quantiser | None:
        """The quantiser at the end; None for a rounding, a choice or thresholds."""
        pair = quantisers.pair_of(self.nodes[-1])
        return quantisers.quantiser_of(self.nodes[-1]) if pair is None else pair.quantiser

    def function(self) -> onnx.ModelProto:
        """Return a model that computes the chain for any number of values per channel.

        Its input has an axis more than ``source``, in front; where an operator looks at places
        of axes, the first axis of ``source`` is that axis. Outputs are the result and what
        else is float32.
        """
        proto = onnx.ModelProto(ir_version=IR_VERSION)
        domains = {node.domain for node in self.nodes} - {""}
        proto.opset_import.add(domain="", version=self.opset)
        for domain in sorted(domains):
            proto.opset_import.add(domain=domain, version=1)
        graph = proto.graph
        graph.name = "chain"
        name = str(self.source.name)
        rank = len(self.channels) + (not self.looks_at_axes)
        dims = [None] * rank
        graph.input.append(onnx.helper.make_tensor_value_info(name, 1, dims))
        made = [out for node in self.nodes for out in node.outputs]
        named = [out for out in made if out.dtype == ir.DataType.FLOAT or out is self.bend]
        for out in dict.fromkeys([self.result, *named]):
            graph.output.append(onnx.ValueInfoProto(name=str(out.name)))
        known: set[str] = set()
        for node in self.nodes:
            made = ir.serde.serialize_node(node)
            made.overload = ""
            graph.node.extend([*quantisers.bounding(node, made), made])
            for value in node.inputs:
                tensor = constant_of(value)
                if value is not None and tensor is not None and value.name not in known:
                    known.add(str(value.name))
                    array = onnx.numpy_helper.from_array(tensor.numpy(), value.name)
                    graph.initializer.append(array)
        attach_bodies(proto)
        return proto

    @property
    def is_exact(self) -> bool:
        """Whether each operator rounds correctly, so that it is monotone to the last bit."""
        return all(is_correctly_rounded(node) for node in self.nodes)

    @property
    def looks_at_axes(self) -> bool:
        """Whether an operator has an axis of channels."""
        return any(has_channels(node) for node in self.nodes)


class Steps:
    """What a chain makes of single values."""

    def __init__(self, chain: Chain) -> None:
        """Load the chain into ONNX Runtime."""
        self.chain = chain
        self._session = open_session(chain.function())
        self._input = self._session.get_inputs()[0].name
        self._outputs = [output.name for output in self._session.get_outputs()]

    def of(self, values: Array) -> Array:
        """Return results for values of shape ``[count, *channels]``."""
        return self._run(self._outputs[0], values)

    def at_bend(self, values: Array) -> Array:
        """Return what is read where the chain turns, for values of that shape."""
        bend = self.chain.bend
        read = bend is not None and bend is not self.chain.source
        return self._run(str(bend.name), values) if bend is not None and read else values

    def are_numbers(self, values: Array) -> Array:
        """Whether no operator makes NaN of values: some quantisers make a number of NaN."""
        found = [np.isnan(self._run(output, values)) for output in self._outputs]
        made: Array = ~np.any(found, axis=0)
        return made

    def _run(self, output: str, values: Array) -> Array:
        shape = values.shape
        if self.chain.looks_at_axes:
            values = values.reshape(shape[0], *shape[2:])
        (found,) = self._session.run([output], {self._input: values})
        return np.asarray(found).reshape(shape)


@dataclass(frozen=True)
class _Segment:
    """Nodes that make one value of another.

    ``turns`` is where their result turns, ``[turns, ...]`` as it is broadcast with ``source``.
    """

    nodes: tuple[ir.Node, ...]
    source: ir.Value
    turns: Array | None = None


def chain_to(node: ir.Node, opset: int) -> Chain | None:
    """Return the longest chain that ends in a quantiser; None if there is no chain."""
    last = _end(node)
    if last is None or not _keeps_shape(last):
        return None
    segments = [last]
    while (before := _segment(segments[0].source.producer(), opset)) is not None:
        if not _keeps_shape(before):
            break
        if before.turns is not None and any(s.turns is not None for s in segments):
            break
        segments.insert(0, before)
    while segments:
        found = _chain(segments, opset)
        if found is not None:
            return found
        segments.pop(0)
    return None


def _keeps_shape(segment: _Segment) -> bool:
    """Whether the constants of a segment do not make what it reads bigger."""
    source = segment.source
    return source.shape is not None and all(keeps_shape(n, source) for n in segment.nodes)


def _chain(segments: list[_Segment], opset: int) -> Chain | None:
    source = segments[0].source
    if source.shape is None or source.dtype != ir.DataType.FLOAT:
        return None
    if constant_of(source) is not None:
        return None
    rank = len(source.shape)
    channels = [1] * rank
    nodes = [node for segment in segments for node in segment.nodes]
    for node in nodes:
        for axis, size in varying(node, rank):
            channels[axis] = size
    bend = next((s for s in segments if s.turns is not None), None)
    if bend is not None and bend.turns is not None:
        found = Chain(
            source, tuple(nodes), opset, tuple(channels), bend.source, _align(bend, rank)
        )
    else:
        found = Chain(source, tuple(nodes), opset, tuple(channels))
    if found.looks_at_axes and (rank < 2 or channels[0] != 1):
        return None
    return found


def _align(bend: _Segment, rank: int) -> Array:
    """Return turns with an axis for each axis of the source."""
    turns = bend.turns
    assert turns is not None, "the caller looks"
    count, *sizes = turns.shape
    return turns.reshape(count, *[1] * (rank - len(sizes)), *sizes)


def _end(node: ir.Node) -> _Segment | None:
    pair = quantisers.pair_of(node)
    if pair is not None and pair.source is not None:
        return _Segment(pair.nodes, pair.source)
    source = node.inputs[data_operand(node)] if node.inputs else None
    if source is None or not _is_end(node):
        return None
    if node.op_type != "MultiThreshold":
        return _Segment((node,), source)
    thresholds, weights = node.inputs[1:3]
    if thresholds is None or weights is None:
        return None
    turns = quantisers.turns_of(thresholds, weights)
    if turns is None:
        return None
    return _Segment((node,), source, turns if len(turns) else None)


def _is_end(node: ir.Node) -> bool:
    if node.domain == "":
        return node.op_type in _ENDS or _is_choice(node) or _is_comparison(node)
    if node.op_type == "MultiThreshold" and node.domain == CUSTOM:
        return all(constant_of(value) is not None for value in node.inputs[1:])
    return quantisers.quantiser_of(node) is not None


def _is_comparison(node: ir.Node) -> bool:
    """Whether a node compares something with a constant."""
    kinds = COMPARES | CONVERSES
    return node.op_type in kinds and any(constant_of(v) is not None for v in node.inputs)


def _is_choice(node: ir.Node) -> bool:
    """Whether a node makes one number or another by a comparison with a constant."""
    value = node.inputs[0] if node.op_type == "Where" else None
    before = None if value is None else value.producer()
    if before is None or before.domain != "" or before.op_type not in COMPARES:
        return False
    return all(constant_of(other) is not None for other in node.inputs[1:])


def _segment(node: ir.Node | None, opset: int) -> _Segment | None:
    """Return what makes the first output of a node of one value, by constants."""
    if node is None or len(node.outputs) != 1:
        return None
    pair = quantisers.pair_of(node)
    if pair is not None and pair.source is not None:
        return _Segment(pair.nodes, pair.source)
    valley = valley_of(node)
    if valley is not None and valley.source.dtype == ir.DataType.FLOAT:
        return _Segment(valley.nodes, valley.source, np.array([valley.minimum], np.float32))
    return _softsign(node) or _step(node, opset)


def _softsign(node: ir.Node) -> _Segment | None:
    """Return ``x / (1 + Abs(x))``, which rises, with any number over 0 for 1."""
    if (node.domain, node.op_type) != ("", "Div"):
        return None
    x, total = node.inputs[0], _only(node.inputs[1], "Add")
    if x is None or total is None:
        return None
    for place in (0, 1):
        size, term = _only(total.inputs[place], "Abs"), scalar(total.inputs[1 - place])
        if size is not None and size.inputs[0] is x and term is not None and term > 0:
            return _Segment((size, total, node), x)
    return None


def _step(node: ir.Node, opset: int) -> _Segment | None:
    """Return a node if it is monotone in one operand, the others being constants."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    operand = data_operand(node)
    value = node.inputs[operand] if operand < len(node.inputs) else None
    if value is None or constant_of(value) is not None or value.dtype != ir.DataType.FLOAT:
        return None
    others = [v for i, v in enumerate(node.inputs) if i != operand and v is not None]
    if any(constant_of(other) is None for other in others):
        return None
    return _Segment((node,), value) if is_monotone(node, operand, opset) else None


Level: TypeAlias = Callable[[Array], Array]
"""Makes integers of a chain's results, as float64."""

_LARGEST = np.finfo(np.float32).max
_OCTAVE = 1 << 23
"""Places between a float and its double."""

_OCTAVES = 64
"""How often a number is halved before a chain is given up that has no level there."""

_CHECKED = (1, 2, 3)
"""Distances in floats from a threshold at which the chain is looked at again."""

_CHECKED_APPROXIMATELY = (64, 65, 256)
"""The same for functions whose kernels do not round correctly, and waver by some floats."""

_CHECKED_ON_SLOPES = (1024, 1025, 4096)
"""The same for functions with a minimum, around which their results hardly change."""


@dataclass(frozen=True)
class Table:
    """A step function for each channel.

    Steps of height ``weights`` are at ``thresholds``, both float32 ``[*channels, steps]``; a
    height of 0 fills the row. ``start`` is the level left of all, float32 ``[*channels]``.
    """

    thresholds: Array
    weights: Array
    start: Array


def find_table(steps: Steps, level: Level, most: int) -> Table | None:
    """Find the thresholds of a chain by bisection over the floats.

    Every operator of a chain is weakly monotone as computed, so that each level is reached at
    one float32 and kept from there on. It is found exactly, in 32 runs of the chain. Where the
    chain turns, which is found in the same way, it is searched piece by piece. ``level`` makes
    integers of the chain's results, as float64. None if a piece has more than ``most`` steps,
    or the chain is not monotone after all.
    """
    ends = _ends(steps, level)
    if ends is None:
        return None
    starts = _starts(steps, ends)
    after = [*starts[1:], ends.high + 1]
    parts: list[tuple[Array, Array]] = []
    begin = current = None
    for start, end in zip(starts, after, strict=True):
        low = np.minimum(start, ends.high)
        piece = _Piece(low, np.maximum(end - 1, low))
        first, last = level(steps.of(_float(np.stack([piece.low, piece.high]))))
        if not _are_integers(first) or not _are_integers(last):
            return None
        is_there = end > start
        if begin is None or current is None:
            begin = current = first
        jump = np.where(is_there, first - current, 0.0)
        if jump.any():
            parts.append((np.where(jump != 0, _float(piece.low), np.inf)[None], jump[None]))
        current = np.where(is_there, last, current)
        found = _steps_within(steps, level, piece, np.where(is_there, last - first, 0.0), most)
        if found is None:
            return None
        parts.append(found)
    if begin is None:
        return None
    thresholds, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not len(thresholds):  # a quantiser that always gives the same
        thresholds = np.full((1, *begin.shape), np.inf)
        weights = np.zeros_like(thresholds)
    return Table(
        np.moveaxis(thresholds, 0, -1).astype(np.float32),
        np.moveaxis(weights, 0, -1).astype(np.float32),
        begin.astype(np.float32),
    )


@dataclass(frozen=True)
class _Piece:
    """Floats between which a chain is monotone, by their places; int64 ``[*channels]``."""

    low: Array
    high: Array


def _ends(steps: Steps, level: Level) -> _Piece | None:
    """Return the floats of least and greatest place at which a chain has a level.

    A factor may make an infinity of a large number, and an activation NaN of that. NaN is part
    of a chain only where smaller numbers make it as well, as those below 0 of Log.
    """
    return _defined(steps, level, numbers=True) or _defined(steps, level, numbers=False)


def _defined(steps: Steps, level: Level, *, numbers: bool) -> _Piece | None:
    sizes = np.full((2, *steps.chain.channels), _TOP, np.int64)
    signs = np.array([-1, 1]).reshape(2, *[1] * len(steps.chain.channels))
    for _ in range(_OCTAVES):
        with np.errstate(all="ignore"):
            values = _float(signs * sizes)
            lacks = ~np.isfinite(level(steps.of(values)))
            if numbers:
                lacks |= ~steps.are_numbers(values)
        if not lacks.any():
            return _Piece(-sizes[0], sizes[1])
        sizes = np.where(lacks, sizes - _OCTAVE, sizes)
    return None


def _starts(steps: Steps, ends: _Piece) -> Array:
    """Return the places at which pieces start, int64 ``[pieces, *channels]``."""
    chain = steps.chain
    first = ends.low[None]
    if chain.turns is None:
        return first
    turns = np.broadcast_to(chain.turns, (len(chain.turns), *chain.channels))

    def is_beyond(places: Array) -> Array:
        found: Array = steps.at_bend(_float(places)) >= turns
        return found

    below = np.broadcast_to(first, turns.shape).copy()
    above = np.broadcast_to(ends.high + 1, turns.shape).copy()
    at_first = is_beyond(below)
    while (above - below > 1).any():
        middle = (below + above) // 2
        hit = is_beyond(middle) != at_first
        above, below = np.where(hit, middle, above), np.where(hit, below, middle)
    return np.sort(np.concatenate([first, above]), axis=0)


def _steps_within(
    steps: Steps, level: Level, piece: _Piece, change: Array, most: int
) -> tuple[Array, Array] | None:
    """Return thresholds and weights of a piece, ``[steps, *channels]``."""
    count = int(np.abs(change).max())
    if count > most:
        return None
    sign = np.where(change >= 0, 1.0, -1.0)
    index = np.arange(1, count + 1, dtype=np.float64).reshape(-1, *[1] * change.ndim)
    there = index <= np.abs(change)
    if not count:
        return np.empty(there.shape, np.float32), np.empty(there.shape)
    wanted = level(steps.of(_float(piece.low[None]))) + sign * index

    def reached(values: Array) -> Array:
        found: Array = sign * (level(steps.of(values)) - wanted) >= 0
        return found

    below = np.broadcast_to(piece.low, wanted.shape)
    above = np.broadcast_to(piece.high, wanted.shape)
    while (above - below > 1).any():
        middle = (below + above) // 2
        hit = reached(_float(middle))
        above, below = np.where(hit, middle, above), np.where(hit, below, middle)
    chain = steps.chain
    tried = [_CHECKED if chain.is_exact else _CHECKED_APPROXIMATELY]
    if chain.turns is not None and not chain.is_exact:
        tried.append(_CHECKED_ON_SLOPES)
    if not any(_holds(reached, above, piece, there, distances) for distances in tried):
        return None
    thresholds = np.where(there, _float(above), np.float32(np.inf))
    return thresholds, np.where(there, sign, 0.0)


def _are_integers(levels: Array) -> bool:
    return bool(np.isfinite(levels).all() and np.array_equal(levels, np.rint(levels)))


def _holds(
    reached: Callable[[Array], Array],
    found: Array,
    piece: _Piece,
    there: Array,
    distances: tuple[int, ...],
) -> bool:
    """Look at the floats beside each threshold: a kernel need not be monotone."""
    for offset in (*(-distance for distance in distances), 0, *distances):
        near = np.clip(found + offset, piece.low, piece.high)
        expected = near >= found
        if not (reached(_float(near)) == expected)[there].all():
            return False
    return True


def _place_of(value: float) -> int:
    """Return the place of a float32 among all: neighbours differ by 1, both zeros are 0."""
    bits = int(np.float32(value).view(np.int32))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFF)


_TOP = _place_of(float(_LARGEST))


def _float(places: Array) -> Array:
    sizes = np.abs(places).astype(np.int32).view(np.float32)
    return np.where(places < 0, -sizes, sizes)
