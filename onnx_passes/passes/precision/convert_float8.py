"""Round what products read to float8, and compute them in float32."""

from collections.abc import Iterable
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.precision._grid import Grid
from onnx_passes.passes.precision._half_precision import WIDE
from onnx_passes.passes.precision._insert import Inserter, demand_opset
from onnx_passes.passes.precision._layers import (
    Layer,
    find_stored_layers,
    layers_of,
    left_weights,
)
from onnx_passes.passes.precision._node_selection import NOTHING, OnData
from onnx_passes.plain import PlainMapping


@passes.verify.metric
@passes.register()
class ConvertFloat8(OnData):
    """Round what products read to float8, and compute them in float32.

    Before: ``y = MatMul(x, w)`` in float32
    After:  ``h = Cast <to = FLOAT> (Cast <to = FLOAT8E4M3FN> (x))``,
            ``y = MatMul(h, Cast <to = FLOAT> (w8))``; with ``scaled`` QuantizeLinear and
            DequantizeLinear instead

    Operators have no float8: engines join quantisers with the product, and a Cast to float8
    and back shows on any engine what that does. Sums stay in float32. All readers of a value
    share one pair. Nodes in bodies are among them. Calls of functions are replaced by their
    bodies.

    Sound because both sides of a pair have the same type and shape; the numbers are rounded to
    float8, which the metrics of the pipeline judge. Without scales, layers whose constants or
    recorded values are over the largest number of the type stay in float32.

    Leaves alone: all but Conv, Gemm and MatMul; a Gemm with alpha, beta or transA; weights
    that are integers; with ``scaled``, layers in bodies that do not run on the data.

    Attributes:
        format: Four bits of exponent and three of fraction (e4m3fn), or five and two (e5m2).
        scaled: Whether each value, and each output channel of a weight, has a scale that makes
            its largest element the largest number of the type. Needs data.
    """

    repeats_itself = False

    needs = ("shape-inference",)

    format: Literal["e4m3fn", "e5m2"] = "e4m3fn"
    scaled: bool = False

    @classmethod
    def needed_opset(cls, options: PlainMapping) -> int:
        return 19

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Insert the pairs."""
        self._kind = ir.DataType[f"FLOAT8{self.format.upper()}"]
        self._most = float(self._kind.max)
        opened = self.open_functions(model)
        nodes = self.select(model, bodies=True)
        found, _ = layers_of(nodes)
        self.note_kept(left_weights(nodes, [layer.node for layer in found]))
        stored = {layer.node for layer in find_stored_layers([layer.node for layer in found])}
        found = [layer for layer in found if layer.node not in stored]
        if not found:
            self.context.notes.append(NOTHING.format("Conv, Gemm or MatMul in float32"))
            return ir.passes.PassResult(model, modified=opened)
        demand_opset(model, self)
        sizes, inserter = self._sizes(model, found), Inserter(model, self.state_dict)
        if self.scaled:
            found = self._running(model, found, sizes)
        else:
            found = self._fitting(found, sizes, inserter)
        rounded: dict[ir.Value, ir.Value] = {}
        for layer in found:
            self._round(layer, sizes, inserter, rounded)
        if found and self.scaled:
            self.context.notes.append(
                "ONNX Runtime's extended optimisations replace the quantisers by kernels for "
                "integers: it refuses the model, or computes other values with "
                "session.disable_quant_qdq = 1. Load it with basic optimisations (the "
                "engine's option optimization: basic), or convert without scales"
            )
        return ir.passes.PassResult(model, modified=bool(found or opened))

    def _sizes(self, model: ir.Model, layers: list[Layer]) -> dict[str, float]:
        """Return the largest magnitude of values; nothing without data, if none is needed."""
        if self.context.ranges and not self.data:
            return {n: max(-low, high) for n, (low, high) in self.context.ranges.items()}
        given = self.data or self.context.samples or self.context.values
        if not given and not self.scaled:
            self.context.notes.append("no data is given, so only weights are checked")
            return {}
        names = {str(layer.node.inputs[i].name) for layer in layers for i in layer.data}  # type: ignore[union-attr]
        found: dict[str, float] = {}
        for sample in self.values(model, names, "record ranges", bodies=True):
            for name, array in sample.items():
                found[name] = max(found.get(name, 0.0), _largest([array]))
        return found

    def _running(
        self, model: ir.Model, layers: list[Layer], sizes: dict[str, float]
    ) -> list[Layer]:
        """Leave out layers in bodies that do not run on the data: they have no scales."""
        left = [
            layer
            for layer in layers
            if layer.node.graph is not model.graph
            and not all(sizes.get(str(layer.node.inputs[i].name)) for i in layer.data)  # type: ignore[union-attr]
        ]
        if left:
            names = [layer.node.name or layer.node.op_type for layer in left]
            self.note_kept({"whose body does not run on the data": names})
        return [layer for layer in layers if layer not in left]

    def _fitting(
        self, layers: list[Layer], sizes: dict[str, float], inserter: Inserter
    ) -> list[Layer]:
        kept, fitting = [], []
        for layer in layers:
            known = [sizes.get(str(layer.node.inputs[i].name), 0.0) for i in layer.data]  # type: ignore[union-attr]
            weight = layer.node.inputs[layer.weight] if layer.weight is not None else None
            own = _largest([] if weight is None else [inserter.array(weight)])
            if max([own, *known]) > self._most:
                kept.append(layer.node.name or layer.node.op_type)
            else:
                fitting.append(layer)
        if kept:
            self.note_kept({f"whose values overflow in {self._kind.name.lower()}": kept})
        return fitting

    def _round(
        self,
        layer: Layer,
        sizes: dict[str, float],
        inserter: Inserter,
        rounded: dict[ir.Value, ir.Value],
    ) -> None:
        node = layer.node
        for index in layer.data:
            value = node.inputs[index]
            assert value is not None, "a layer has both operands"
            if value not in rounded:
                rounded[value] = self._pair(value, sizes.get(str(value.name), 0.0), inserter)
            inserter.read(node, index, rounded[value])
        if layer.weight is None:
            return
        weight = node.inputs[layer.weight]
        assert weight is not None, "a layer has both operands"
        array, name = inserter.array(weight), str(weight.name)
        if self.scaled:
            grid = self._weight_grid(array, layer.channels)
            shape = [1] * array.ndim
            if layer.channels is not None:
                shape[layer.channels] = -1
            levels = array / (grid.scale.reshape(shape) if grid.scale.ndim else grid.scale)
            new = inserter.dequantised(self._cast(levels), grid, self._kind, name, node)
        else:
            low = inserter.constant(self._cast(array), f"{name}_float8", self._kind)
            (new,) = inserter.node(
                "Cast", [low], [WIDE], name, to=int(WIDE), shape=ir.Shape(array.shape)
            )
        inserter.note_original(new, weight)
        inserter.read(node, layer.weight, new)

    def _pair(self, value: ir.Value, size: float, inserter: Inserter) -> ir.Value:
        if self.scaled:
            return inserter.pair(value, self._grid(np.asarray(size)))
        name, shape = str(value.name), value.shape
        (low,) = inserter.node(
            "Cast", [value], [self._kind], name, to=int(self._kind), shape=shape
        )
        (new,) = inserter.node("Cast", [low], [WIDE], name, to=int(WIDE), shape=shape)
        return new

    def _weight_grid(self, array: Array, axis: int | None) -> Grid:
        rest = tuple(i for i in range(array.ndim) if i != axis)
        size = np.abs(array).max(None if axis is None else rest, initial=0.0)
        return self._grid(np.asarray(size), axis)

    def _grid(self, size: Array, axis: int | None = None) -> Grid:
        scale = np.where(size > 0, size / self._most, 1.0).astype(np.float32)
        return Grid(scale, np.zeros(scale.shape, self._kind.numpy()), axis)

    def _cast(self, array: Array) -> Array:
        near = np.clip(array.astype(np.float32), -self._most, self._most)
        return near.astype(self._kind.numpy())


def _largest(arrays: Iterable[Array]) -> float:
    sizes = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in arrays]
    return float(max(sizes, default=0.0))
