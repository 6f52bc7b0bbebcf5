"""Move nodes from float32 to a type of 16 bits, with few Casts.

The schema of an operator says which inputs and outputs change type together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.node_queries import steers
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.common.graph_edits import rename_value
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer

T = TypeVar("T")

WIDE = ir.DataType.FLOAT
NONE = "which compute no float32"
"""The reason that is not reported."""


@dataclass(frozen=True)
class Signature:
    """The places of a node that change type together, as numbers of inputs and outputs."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def signature_of(node: ir.Node, opset: int, half: ir.DataType) -> Signature | str:
    """Return which places of a float32 node may have a lower type, by its definition.

    Types of its values are known. A text says why there are no places.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return "whose operator onnx does not define"
    made = {
        _formal(schema.outputs, i).type_str
        for i, v in enumerate(node.outputs)
        if v.dtype is WIDE
    }
    if not made:
        return NONE
    read = {
        i: _formal(schema.inputs, i).type_str
        for i, v in enumerate(node.inputs)
        if v is not None and v.dtype is WIDE
    }
    if not made <= set(read.values()):
        return "whose type does not follow from float32 inputs"
    wanted = f"tensor({half.name.lower()})"
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    if any(wanted not in allowed.get(kind, ()) for kind in made):
        return f"whose operator has no {half.name.lower()}"
    outputs = tuple(
        i
        for i, v in enumerate(node.outputs)
        if _formal(schema.outputs, i).type_str in made and v.dtype in (WIDE, None)
    )
    # ONNX Runtime's kernels of CUDA have one type for the data and what scales it.
    kinds = made | {
        kind
        for kind in set(read.values())
        if wanted in allowed.get(kind, ())
        and all(_fits(node.inputs[i], half) for i, k in read.items() if k == kind)
    }
    return Signature(tuple(i for i, kind in read.items() if kind in kinds), outputs)


def _fits(value: ir.Value | None, half: ir.DataType) -> bool:
    tensor = constant_of(value)
    if tensor is None:
        return False
    array = tensor.numpy()
    return misfit(array, half) is None and rounded_integers(array, half) is None


def _formal(places: Sequence[T], index: int) -> T:
    # The last place of a variadic operator represents all that follow.
    return places[min(index, len(places) - 1)]


_LIMITS = {
    ir.DataType.FLOAT16: (65504.0, 2.0**-20),
    ir.DataType.BFLOAT16: ((2 - 2.0**-7) * 2.0**127, 2.0**-129),
}
"""Largest finite number of each type, and the smallest that still has 4 bits."""
EXACT = {ir.DataType.FLOAT16: 2048, ir.DataType.BFLOAT16: 256}
"""Largest integer of each type up to which it has all integers."""
ROUNDED = "whose integers {} would round"
SIZES = "which sizes or places are computed by"
FAINT = "which an epsilon keeps from 0, or that read such values"


def misfit(array: Array, half: ir.DataType) -> str | None:
    """Return why float32 values do not fit a type of 16 bits; None if they do."""
    known = np.isfinite(array)
    finite = array if known.all() else array[known]
    largest = max(float(finite.max(initial=0)), -float(finite.min(initial=0)))
    most, least = _LIMITS[half]
    if largest > most:
        return f"whose values overflow in {half.name.lower()}"
    if 0 < largest < least:
        return f"whose values vanish in {half.name.lower()}"
    return None


def misfit_of(
    node: ir.Node, signature: Signature, half: ir.DataType, seen: Mapping[str, str]
) -> str | None:
    """Return why a node cannot be lowered: a constant or recorded value of it does not fit.

    ``seen`` says what is wrong with recorded values, by name.
    """
    for value in (
        *(node.inputs[i] for i in signature.inputs),
        *(node.outputs[i] for i in signature.outputs),
    ):
        assert value is not None, "a signature has no empty place"
        tensor = constant_of(value)
        reason = seen.get(str(value.name))
        if tensor is not None:
            array = tensor.numpy()
            reason = misfit(array, half) or rounded_integers(array, half)
        if reason is not None:
            return reason
    return None


def faint_values(nodes: Iterable[ir.Node], half: ir.DataType) -> Iterator[ir.Value]:
    """Yield values that an epsilon keeps from 0, and that may be too small for a type.

    A constant that vanishes is added, or is the least of a result. Of its roots, powers and
    reciprocals, those that vanish or overflow are among them.
    """
    most, least = _LIMITS[half]
    sizes: dict[ir.Value, float] = {}
    for node in nodes:
        read = [value for value in node.inputs if value is not None]
        if node.domain or not read or node.outputs[0].dtype is not WIDE:
            continue
        tensors = [constant_of(value) for value in read]
        constants = [float(t.numpy().item()) for t in tensors if t is not None and t.size == 1]
        size = sizes.get(read[0], 0.0)
        match node.op_type:
            case "Add" | "Max" | "Clip":
                size = min((c for c in constants if 0 < c < least), default=0.0)
            case "Sqrt":
                size = size**0.5
            case "Reciprocal" if size:
                size = 1 / size
            case "Pow" if size and constants:
                with np.errstate(all="ignore"):
                    size = float(np.power(size, constants[-1]))
            case _ if not (node.op_type in ("Abs", "Neg") or moves_only(node)):
                size = 0.0
        if size:
            sizes[node.outputs[0]] = size
            if not least <= size <= most:
                yield node.outputs[0]


def sizing_nodes(nodes: Iterable[ir.Node]) -> set[ir.Node]:
    """Return nodes that compute floats for sizes or places, from such numbers and constants.

    224 / 300, rounded to 11 bits, makes a picture of 300 rows one of 223.
    """
    order = list(nodes)
    counted: set[ir.Value] = set()
    for node in order:
        read = [v for v in node.inputs if v is not None and constant_of(v) is None]
        if read and all(v in counted or _is_integer(v) for v in read):
            counted.update(v for v in node.outputs if v.dtype is WIDE)
    found: set[ir.Node] = set()
    pending = [
        v for n in order for i, v in enumerate(n.inputs) if v is not None and steers(n, i)
    ]
    while pending:
        value = pending.pop()
        maker = value.producer() if value in counted or _is_integer(value) else None
        if maker is not None and maker not in found:
            found.add(maker)
            pending += [v for v in maker.inputs if v is not None]
    return found


def _is_integer(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer()


def moves_only(node: ir.Node) -> bool:
    """Whether a node only moves elements of its first input."""
    operator = operator_of(node)
    return operator is not None and tuple(operator.moves[:2]) == (0,)


def rounded_integers(array: Array, half: ir.DataType) -> str | None:
    """Return that values are integers that a type of 16 bits lacks; None otherwise."""
    if np.abs(array).max(initial=0) <= EXACT[half] or (array != np.rint(array)).any():
        return None
    same = array.astype(half.numpy()).astype(np.float32) == array
    return None if same.all() else ROUNDED.format(half.name.lower())


class Lowering:
    """Edits of one model.

    The model is changed in place.
    """

    def __init__(self, model: ir.Model, half: ir.DataType) -> None:
        self.model, self.half, self.namer = model, half, Namer(model)
        self._scratch = Scratch(model)
        self._low: dict[ir.Value, ir.Value] = {}
        self._near: dict[ir.Value, ir.Value] = {}

    def lower(self, nodes: Mapping[ir.Node, Signature]) -> None:
        """Give nodes the lower type, with Casts where others meet them.

        The nodes, of the main graph and of bodies, come with their places of float32.
        """
        made = {n.outputs[i] for n, places in nodes.items() for i in places.outputs}
        read: set[ir.Value] = set()
        for node, places in nodes.items():
            for index in places.inputs:
                value = node.inputs[index]
                assert value is not None, "a signature has no empty place"
                if value not in made:
                    read.add(value)
                    node.replace_input_with(index, self.lowered(value))
        for value in made:
            self.widen(value, nodes)
        for value in read:
            drop_constant(value)

    def round_around(self, nodes: Mapping[ir.Node, Signature]) -> None:
        """Leave nodes in float32, and round what they read and compute to the lower type."""
        read: set[ir.Value] = set()
        for node, places in nodes.items():
            for index in places.inputs:
                value = node.inputs[index]
                assert value is not None, "a signature has no empty place"
                read.add(value)
                node.replace_input_with(index, self._source_of_cast(value))
        for node, places in nodes.items():
            for index in places.outputs:
                value = node.outputs[index]
                if not value.is_graph_output() and all(
                    user in nodes for user in value.consumers()
                ):
                    continue  # its readers round it
                self._round_output(value)
        for value in read:
            drop_constant(value)

    def lowered(self, value: ir.Value) -> ir.Value:
        """Return a value in the lower type: a constant, or a Cast that readers share."""
        if value not in self._low:
            tensor = constant_of(value)
            if tensor is not None:
                array = tensor.numpy().astype(self.half.numpy())
                self._low[value] = self.constant(array, f"{value.name}_{_short(self.half)}")
            else:
                self._low[value] = self._cast(value, self.half)
        return self._low[value]

    def _source_of_cast(self, value: ir.Value) -> ir.Value:
        tensor, producer = constant_of(value), value.producer()
        source = producer.inputs[0] if producer is not None and producer.inputs else None
        if source is not None and source.dtype is self.half and value.dtype is WIDE:
            return value  # a Cast of such numbers
        if value not in self._near:
            if tensor is not None:
                array = tensor.numpy().astype(self.half.numpy()).astype(np.float32)
                self._near[value] = self.constant(array, f"{value.name}_source_of_cast")
            else:
                self._near[value] = self._cast(self.lowered(value), WIDE)
        return self._near[value]

    def _round_output(self, value: ir.Value) -> None:
        """Let readers that are not rounded themselves, and the user, read a rounded value."""
        near = self._source_of_cast(value)
        low = near.producer()
        assert low is not None, "a rounded value is computed by a Cast"
        first = low.inputs[0].producer() if low.inputs[0] is not None else None
        for user, index in [use for use in value.uses() if use.node not in (low, first)]:
            user.replace_input_with(index, near)
        if value.is_graph_output():
            return_instead(self.model, value, near, self.namer)

    def widen(self, value: ir.Value, nodes: Mapping[ir.Node, Signature]) -> None:
        """Let a value have the lower type, and those who need float32 read a Cast of it.

        ``nodes`` are those that are lowered.
        """
        others = [
            (user, index)
            for user, index in value.uses()
            if user not in nodes or index not in nodes[user].inputs
        ]
        if value.is_graph_output():
            new = self._cast(value, WIDE)
            return_instead(self.model, value, new, self.namer, "cast")
            if value.shape is not None and value.shape.is_dynamic():
                value.shape = None  # ONNX Runtime reuses buffers where the names of sizes lie
        elif others:
            new = self._cast(value, WIDE)
        value.type = ir.TensorType(self.half)
        for user, index in others:
            user.replace_input_with(index, new)

    def constant(self, array: Array, name: str) -> ir.Value:
        """Add an initializer."""
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape))
        value = ir.val(self.namer.value(name), const_value=self._scratch.keep(tensor))
        self.model.graph.register_initializer(value)
        return value

    def _cast(self, value: ir.Value, kind: ir.DataType) -> ir.Value:
        node = self._cast_node(value, kind)
        return self._place(node, kind, value)

    def _cast_node(self, value: ir.Value, kind: ir.DataType) -> ir.Node:
        return ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(kind))])

    def _place(self, node: ir.Node, kind: ir.DataType, value: ir.Value) -> ir.Value:
        """Name a new node, type what it computes, and put it right behind what it reads."""
        new = node.outputs[0]
        new.name = self.namer.value(f"{value.name}_{_short(kind)}")
        node.name = self.namer.node(new.name)
        new.type, new.shape = ir.TensorType(kind), _shape(value)
        insert_behind(self.model, node, value)
        return new


def insert_behind(model: ir.Model, node: ir.Node, value: ir.Value) -> None:
    """Put a node right behind the one that computes a value, or in front of its graph.

    A value of the main graph that a body reads gets it in the main graph.
    """
    producer = value.producer()
    home = value.graph if producer is None else producer.graph
    graph = model.graph if home is None else home
    if producer is not None:
        graph.insert_after(producer, node)
    elif (first := next(iter(graph), None)) is not None:
        graph.insert_before(first, node)
    else:
        graph.append(node)


def return_instead(
    model: ir.Model, value: ir.Value, new: ir.Value, namer: Namer, ending: str = "exact"
) -> None:
    """Let a graph return another value than one of its outputs, under the name of that.

    ``value`` is an output of the main graph or a body, and an inner value with ``ending`` in
    its name afterwards. ``new`` has the type, and gets name and shape.
    """
    graph, name = value.graph or model.graph, str(value.name)
    rename_value(value, namer.value(f"{name}_{ending}"))
    rename_value(new, name)
    new.doc_string, new.shape = value.doc_string, _shape(value)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = new


def drop_constant(value: ir.Value) -> None:
    """Remove a constant that nobody reads any more."""
    if value.uses() or value.is_graph_output() or value.is_graph_input():
        return
    producer, graph = value.producer(), value.graph
    if value.is_initializer() and graph is not None:
        del graph.initializers[str(value.name)]
    elif producer is not None and constant_of(value) is not None and producer.graph:
        producer.graph.remove(producer, safe=True)


def _short(kind: ir.DataType) -> str:
    return {WIDE: "wide"}.get(kind, kind.name.lower())


def _shape(value: ir.Value) -> ir.Shape | None:
    return value.shape.copy() if value.shape is not None else None
