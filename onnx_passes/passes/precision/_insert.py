"""Edits that put quantisers and integers into a model, and move scales between neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import PassError
from onnx_passes.model.digest import tensor_digest
from onnx_passes.passes.base import Pass
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._grid import Grid, quantise
from onnx_passes.passes.precision._half_precision import WIDE, drop_constant, insert_behind
from onnx_passes.passes.precision._layers import Layer, layers_of
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import Plain, PlainDict

_SMALL_TYPES = frozenset((ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32))


ORIGINALS = "weights before they were rounded"
"""Key, in what passes of a run share, of weights by the name of the integers for them."""


class Inserter:
    """Puts nodes into the graphs of a model, and constants into the main graph.

    It notes in ``state``, which passes of a run share, the weights that are rounded.
    """

    def __init__(self, model: ir.Model, state: PlainDict | None = None) -> None:
        self.model, self.namer, self._scratch = model, Namer(model), Scratch(model)
        shared = {} if state is None else state
        self.originals: dict[str, ir.TensorProtocol] = shared.setdefault(ORIGINALS, {})
        self._pairs: dict[ir.Value, ir.Value] = {}
        self._made: dict[bytes, ir.Value] = {}

    def constant(self, array: object, name: str, dtype: ir.DataType | None = None) -> ir.Value:
        """Return an initializer of the main graph, one for all constants that are equal.

        So a weight that several layers read is stored once when it is rounded. ``name`` is the
        start of its name.
        """
        tensor = ir.tensor(np.asarray(array), dtype=dtype)
        twin = self._made.get(content := tensor_digest(tensor))
        if twin is not None and twin.is_initializer():
            return twin
        value = ir.val(self.namer.value(name), const_value=self._scratch.keep(tensor))
        self.model.graph.register_initializer(value)
        self._made[content] = value
        return value

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        kinds: Sequence[ir.DataType],
        name: str,
        *,
        behind: ir.Node | None = None,
        domain: str = "",
        shape: ir.Shape | None = None,
        **attributes: Plain,
    ) -> list[ir.Value]:
        """Add a node, and return what it computes.

        Results have types ``kinds`` and names made of ``name``; the first has ``shape``. The
        node is inserted ``behind`` one, by default that of its first input.
        """
        made = ir.node(op_type, inputs, attributes, domain=domain, num_outputs=len(kinds))
        made.name = self.namer.node(f"{name}_{op_type}")
        for output, kind in zip(made.outputs, kinds, strict=True):
            output.name = self.namer.value(f"{name}_{op_type}")
            output.type = ir.TensorType(kind)
        made.outputs[0].shape = None if shape is None else shape.copy()
        if behind is not None:
            assert behind.graph is not None, "it stands somewhere"
            behind.graph.insert_after(behind, made)
        else:
            assert inputs[0] is not None, "a node without a place reads a first input"
            insert_behind(self.model, made, inputs[0])
        return list(made.outputs)

    def pair(self, value: ir.Value, grid: Grid) -> ir.Value:
        """Return a value rounded to a grid, by one pair of quantisers for all readers."""
        if value not in self._pairs:
            name = str(value.name)
            scale = self.constant(grid.scale, f"{name}_scale")
            dtype = ir.DataType.from_numpy(grid.zero.dtype)
            zero = self.constant(grid.zero, f"{name}_zero_point", dtype)
            shape = value.shape
            (levels,) = self.node(
                "QuantizeLinear", [value, scale, zero], [dtype], name, shape=shape
            )
            (self._pairs[value],) = self.node(
                "DequantizeLinear", [levels, scale, zero], [WIDE], name, shape=shape
            )
        return self._pairs[value]

    def stored(
        self, value: ir.Value, grid: Grid, dtype: ir.DataType, before: ir.Node
    ) -> ir.Value:
        """Return a constant as integers with a DequantizeLinear behind.

        ``value`` is float32; ``before`` will read the result.
        """
        levels = quantise(self.array(value), grid, dtype)
        new = self.dequantised(levels, grid, dtype, str(value.name), before)
        self.note_original(new, value)
        return new

    def note_original(self, new: ir.Value, old: ir.Value) -> None:
        """Note which weight the integers behind a DequantizeLinear represent.

        ``new`` is the output of the DequantizeLinear, ``old`` the weight.
        """
        node, tensor = new.producer(), constant_of(old)
        levels = node.inputs[0] if node is not None else None
        assert levels is not None, "a DequantizeLinear reads integers"
        assert tensor is not None, "a weight is constant"
        self.originals[str(levels.name)] = tensor

    def dequantised(
        self, levels: Array, grid: Grid, dtype: ir.DataType, name: str, before: ir.Node
    ) -> ir.Value:
        """Return integers as floats, for one reader.

        ``levels`` have the shape of the constant. The node is put in front of the reader
        ``before``, or of the main graph if that is in a body.
        """
        inputs = [
            self.constant(levels, f"{name}_{dtype.name.lower()}", dtype),
            self.constant(grid.scale, f"{name}_scale"),
        ]
        if dtype is not ir.DataType.INT32:
            inputs.append(self.constant(grid.zero, f"{name}_zero_point", dtype))
        attributes: PlainDict = {}
        if grid.axis is not None:
            attributes["axis"] = grid.axis
        if grid.block:
            attributes["block_size"] = grid.block
        made = ir.node("DequantizeLinear", inputs, attributes)
        made.name = self.namer.node(f"{name}_DequantizeLinear")
        (output,) = made.outputs
        output.name = self.namer.value(f"{name}_DequantizeLinear")
        output.type, output.shape = ir.TensorType(WIDE), ir.Shape(levels.shape)
        if before.graph is self.model.graph:
            self.model.graph.insert_before(before, made)
        else:
            # In front of all: ONNX Runtime joins it with a reader in a body, and fails then,
            # because it looks for the integers in the body.
            insert_behind(self.model, made, inputs[0])
        return output

    def array(self, value: ir.Value) -> Array:
        """Return what a constant holds."""
        tensor = constant_of(value)
        assert tensor is not None, "layers have constant weights"
        return tensor.numpy()

    def read(self, node: ir.Node, index: int, value: ir.Value) -> None:
        """Let a node read another value, and drop a constant that nobody reads then."""
        old = node.inputs[index]
        node.replace_input_with(index, value)
        if old is not None:
            drop_constant(old)

    def add_behind(self, value: ir.Value, array: Array, kind: ir.DataType) -> None:
        """Add a constant to a value; all its readers read the sum under its name.

        ``array`` broadcasts with the value.
        """
        name, users = str(value.name), list(value.uses())
        shift = self.constant(array, f"{name}_shift")
        value.name = self.namer.value(f"{name}_unshifted")
        (new,) = self.node("Add", [value, shift], [kind], name, shape=value.shape)
        new.name = name
        for user, index in users:
            user.replace_input_with(index, new)
        if value.is_graph_output():
            outputs = (value.graph or self.model.graph).outputs
            outputs[list(outputs).index(value)] = new

    def take_over(self, old: ir.Value, new: ir.Value) -> None:
        """Replace what a node computes by a value, and remove that node.

        The new one has its name, type and shape from then on.
        """
        name, node = old.name, old.producer()
        assert node is not None, "a node computes it"
        old.name = self.namer.value(f"{name}_replaced")
        new.name, new.type, new.shape = name, old.type, old.shape
        new.doc_string = old.doc_string
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        read = [value for value in node.inputs if value is not None]
        assert node.graph is not None, "it stands somewhere"
        node.graph.remove(node, safe=True)
        for value in read:
            drop_constant(value)


def demand_opset(model: ir.Model, pass_: Pass) -> None:
    """Refuse by PassError a model whose opset is too old for what a pass inserts."""
    opset, wanted = model.graph.opset_imports.get("", 1), pass_.needed_opset(pass_.options)
    if opset < wanted:
        raise PassError(
            f"{pass_.name} needs opset {wanted}, and the model has {opset}",
            help=f"run convert-opset{{version={wanted}}} before it",
        )


def opset_for(dtype: ir.DataType, *, block: bool = False) -> int:
    """Return the first opset whose quantisers have a type.

    With ``block``, scales are those of blocks.
    """
    if dtype.bitwidth == 2:
        return 25
    return 21 if block or dtype not in _SMALL_TYPES else 13


_MOST = 2.0**40
"""Constants up to this are scaled, so that nothing overflows."""
_LARGEST_FACTOR = 2.0**12
_HOMOGENEOUS = ("Relu", "LeakyRelu", "Identity")
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
_PASSED = frozenset((*_HOMOGENEOUS, *_POOLS, "Add"))
_NORMALISATIONS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")


def limit_factors(factors: Array, *, powers: bool) -> Array:
    """Return factors within limits, as float32; 1 for those that are not numbers.

    ``powers`` asks for the nearest powers of two.
    """
    safe = np.where(np.isfinite(factors) & (factors > 0), factors, 1.0)
    exponents = np.rint(np.log2(safe)) if powers else np.log2(safe)
    bound = np.log2(_LARGEST_FACTOR)
    return np.exp2(np.clip(exponents, -bound, bound)).astype(np.float32)


def is_moderate(array: Array) -> bool:
    """Whether all elements are finite and far from overflow."""
    return bool(np.abs(array).max(initial=0.0) < _MOST)


def channel_axis(layer: Layer) -> int:
    """Return the axis of what a layer reads that it sums over."""
    return 1 if layer.node.op_type == "Conv" else -1


def can_scale_input(layer: Layer, inserter: Inserter) -> bool:
    """Whether channels of what a layer reads can be scaled by its weight.

    ``inserter`` reads constants as they are after earlier changes.
    """
    if layer.weight is None or layer.depth is None:
        return False
    if layer.node.attributes.get_int("group", 1) != 1:
        return False
    value = layer.node.inputs[layer.weight]
    known = constant_of(value) is not None
    return known and value is not None and is_moderate(inserter.array(value))


def scale_input(layer: Layer, factors: Array, inserter: Inserter) -> None:
    """Multiply a weight along the axis that is summed over.

    Factors are one for each channel, float32 of shape [channels]; see :func:`can_scale_input`.
    """
    assert layer.weight is not None, "its weight was looked at"
    assert layer.depth is not None, "its weight was looked at"
    _replace(layer.node, layer.weight, factors, layer.depth, inserter)


@dataclass(frozen=True)
class Place:
    """A constant that is scaled by channel.

    Input ``index`` of ``node`` has channels along ``axis``. A chain begins at the weight of a
    layer.
    """

    node: ir.Node
    index: int
    axis: int
    is_weight: bool = False


class Absorber:
    """Scales a computed value by changing constants of the nodes that compute it."""

    def __init__(self, inserter: Inserter) -> None:
        self._inserter = inserter
        self._renamed = set[ir.Value]()

    def scale(self, value: ir.Value, places: Sequence[Place], factors: Array) -> None:
        """Multiply a value by channel; all values that change get other names.

        Factors are float32 of shape [channels].
        """
        for place in places:
            _replace(place.node, place.index, factors, place.axis, self._inserter)
        self._rename(value)

    def _rename(self, value: ir.Value) -> None:
        """Rename a value and those it is computed from, back to where the chain begins."""
        current: ir.Value | None = value
        while current is not None:
            if current not in self._renamed:
                current.name = self._inserter.namer.value(f"{current.name}_scaled")
                self._renamed.add(current)
            node = current.producer()
            if node is None or node.op_type not in _PASSED:
                return
            computed = [v for v in node.inputs if v is not None and constant_of(v) is None]
            current = computed[0] if computed else None

    def places_of(self, value: ir.Value, count: int, axis: int) -> list[Place] | None:
        """Return which constants scale a value by channel; None if none do.

        ``axis`` is 1, or -1 for the last.
        """
        node = value.producer()
        if (
            node is None
            or node.domain not in ("", "com.microsoft")
            or len(_used_outputs(node)) > 1
        ):
            return None
        inputs, kind = list(node.inputs), node.op_type
        if kind in _NORMALISATIONS:
            last = node.attributes.get_int("axis", -1) == -1
            places = [i for i in range(1, len(inputs)) if inputs[i] is not None]
            return self._all(node, places, count) if axis == -1 and last else None
        if kind in _HOMOGENEOUS or (kind in _POOLS and axis == 1):
            return self._behind(node, 0, count, axis)
        if kind in ("Mul", "Add"):
            place = next((i for i in (0, 1) if self._is_vector(inputs[i], count, axis)), None)
            own = None if place is None else self._all(node, [place], count)
            if own is None or place is None or kind == "Mul":
                return own
            behind = self._behind(node, 1 - place, count, axis)
            return None if behind is None else [*own, *behind]
        return self._of_layer(node, count, axis)

    def _of_layer(self, node: ir.Node, count: int, axis: int) -> list[Place] | None:
        found, _ = layers_of([node])
        if not found or found[0].weight is None or found[0].channels is None:
            return None
        layer = found[0]
        assert layer.weight is not None, "it was looked at"
        assert layer.channels is not None, "it was looked at"
        weight = self._floats_of(node.inputs[layer.weight])
        if weight is None or weight.shape[layer.channels] != count:
            return None
        if channel_axis(layer) != axis:
            return None
        places = [Place(node, layer.weight, layer.channels, is_weight=True)]
        if layer.bias is not None:
            own = self._all(node, [layer.bias], count)
            return None if own is None else [*places, *own]
        return places

    def _behind(self, node: ir.Node, index: int, count: int, axis: int) -> list[Place] | None:
        """Go on with an input that has no other reader."""
        value = node.inputs[index]
        alone = value is not None and len(value.uses()) == 1 and not value.is_graph_output()
        return self.places_of(value, count, axis) if alone and value is not None else None

    def _all(self, node: ir.Node, places: list[int], count: int) -> list[Place] | None:
        """Return constants that have nothing but the channels."""
        for index in places:
            array = self._floats_of(node.inputs[index])
            if array is None or array.size != count:
                return None
        return [Place(node, index, -1) for index in places]

    def _is_vector(self, value: ir.Value | None, count: int, axis: int) -> bool:
        array = self._floats_of(value)
        return axis == -1 and array is not None and array.shape[-1:] == (count,)

    def _floats_of(self, value: ir.Value | None) -> Array | None:
        tensor = constant_of(value) if value is not None else None
        if tensor is None or tensor.dtype is not ir.DataType.FLOAT:
            return None
        array = tensor.numpy()
        return array if is_moderate(array) else None


def _used_outputs(node: ir.Node) -> list[ir.Value]:
    return [v for v in node.outputs if v.uses() or v.is_graph_output()]


def _replace(node: ir.Node, index: int, factors: Array, axis: int, inserter: Inserter) -> None:
    value = node.inputs[index]
    assert value is not None, "its array was looked at"
    array = inserter.array(value)
    if array.ndim > 1 and array.size == len(factors):
        scaled = array * factors.reshape(array.shape)
    else:
        full: list[int] = [1] * array.ndim
        full[axis] = -1
        scaled = array * factors.reshape(full)
    new = inserter.constant(scaled.astype(np.float32), f"{value.name}_scaled")
    inserter.read(node, index, new)
