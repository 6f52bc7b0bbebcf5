"""Quantize weights and activations to integers, by ranges recorded on data."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.errors import PassError
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._grid import (
    Grid,
    Kind,
    Method,
    Range,
    calibrate,
    extremes,
    make_grid,
    type_of,
    weight_grid,
)
from onnx_passes.passes.precision._half_precision import return_instead
from onnx_passes.passes.precision._insert import Inserter, demand_opset, opset_for
from onnx_passes.passes.precision._layers import Layer, layers_of, left_weights
from onnx_passes.passes.precision._node_selection import NOTHING, OnSomeNodes, names_of
from onnx_passes.passes.precision._recording import read_feeds, record
from onnx_passes.plain import PlainMapping

_LARGEST = 2**31 - 1


@passes.verify.metric
@passes.register()
class QuantizeStatic(OnSomeNodes):
    """Quantize weights and activations to integers, by ranges recorded on data.

    Before: ``y = MatMul(x, w)`` in float32
    After:  ``a = DequantizeLinear(QuantizeLinear(x)) b = DequantizeLinear(w8)``,
            ``y = MatMul(a, b)``; engines compute that in integers

    Results are rounded as well, behind a Relu or Clip that is their only reader, and the
    biases to 32 bits. All readers of a value share one pair of quantisers. A weight that is
    stored as integers already keeps them. In bodies, ranges are minmax, and layers that do not
    run on the data stay. Calls of functions are replaced by their bodies.

    Sound because quantisers have the types that their neighbours expect; the numbers are
    rounded to the grid of the integers, which the metrics of the pipeline judge. Ranges are
    those of the user's data: the pass refuses to invent any.

    Leaves alone: all but Conv, Gemm and MatMul; a Gemm with alpha, beta or transA; constants
    that are the first operand; what reads a DequantizeLinear already.

    Attributes:
        data: .npz files, each with the inputs of one run by name, on which ranges are
            recorded; by default the inputs under ``reference`` of the pipeline.
        calibration: How ranges follow from recorded values: all of them (minmax); all but the
            outliers (percentile). Or where the least information is lost (entropy), or the
            mean squared error is least (mse).
        percentile: Share of the values that are not outliers, in percent.
        activations: Integers for computed values; 16 bits from opset 21.
        weights: Integers for weights; 4 and 16 bits from opset 21.
        per_channel: Whether each output channel of a weight has a scale of its own.
        symmetric: Whether grids of computed values have 0 in their middle.
        weight_symmetric: Whether grids of weights have 0 in their middle.
        outputs: Whether results are rounded, which engines need to stay in integers.
    """

    repeats_itself = False

    needs = ("shape-inference",)

    data: list[str] = Field(default_factory=list)
    calibration: Method = "minmax"
    percentile: Annotated[float, Field(gt=50, le=100)] = 99.99
    activations: Kind = "uint8"
    weights: Kind = "int8"
    per_channel: bool = True
    symmetric: bool = False
    weight_symmetric: bool = True
    outputs: bool = True

    @classmethod
    def needed_opset(cls, options: PlainMapping) -> int:
        return max(opset_for(type_of(options[key])) for key in ("activations", "weights"))

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Insert the quantisers."""
        self.note_overridable(model)
        opened = self.open_functions(model)
        nodes = self.select(model, bodies=True)
        found, others = layers_of(nodes)
        if others:
            self.note_kept({"which are no layers": [n.name or n.op_type for n in others]})
        self.note_kept(left_weights(nodes, [*others, *(layer.node for layer in found)]))
        found = [layer for layer in found if not _is_quantised(layer)]
        if not found:
            self.context.notes.append(NOTHING.format("Conv, Gemm or MatMul in float32"))
            return ir.passes.PassResult(model, modified=opened)
        demand_opset(model, self)
        ranges = self._ranges(model, found)
        found = self._drop_unrun(model, found, ranges)
        grids = {name: self._grid(ends) for name, ends in ranges.items()}
        inserter = Inserter(model, self.state_dict)
        ends = {layer.end: None for layer in found} if self.outputs else {}
        for layer in found:
            self._round(layer, grids, inserter)
        for value in ends:
            self._round_end(value, grids[str(value.name)], inserter)
        return ir.passes.PassResult(model, modified=bool(found or opened))

    def _drop_unrun(
        self, model: ir.Model, layers: list[Layer], ranges: Mapping[str, Range]
    ) -> list[Layer]:
        """Leave out layers in bodies that do not run on the data."""
        known, kept = [], []
        for layer in layers:
            names = [*_read(layer), *([str(layer.end.name)] if self.outputs else [])]
            if layer.node.graph is model.graph or all(ranges[n] != (0.0, 0.0) for n in names):
                known.append(layer)
            else:
                kept.append(layer.node.name or layer.node.op_type)
        if kept:
            self.note_kept({"whose body does not run on the data": kept})
        return known

    def _ranges(self, model: ir.Model, layers: list[Layer]) -> dict[str, Range]:
        names = {name for layer in layers for name in _read(layer)}
        names |= {str(layer.end.name) for layer in layers if self.outputs}
        if self.context.ranges and not self.data:
            return {name: self.context.ranges.get(name, (0.0, 0.0)) for name in names}
        feeds = read_feeds(self.data, self.name) if self.data else self.context.samples
        if not feeds:
            raise PassError(
                f"{self.name}: there is no data to record ranges on",
                help="give --calib FOLDER, or reference.inputs in a pipeline file; ranges of "
                "random inputs would not be those of yours",
            )
        inner = names - names_of(model.graph)
        seen: list[dict[str, Array]] = []
        found = calibrate(
            _take_inner(
                record(model, feeds, names, self.name, bodies=bool(inner)), inner, seen
            ),
            self.calibration,
            type_of(self.activations),
            symmetric=self.symmetric,
            percentile=self.percentile,
        )
        found |= extremes(seen)
        return {name: found.get(name, (0.0, 0.0)) for name in names}

    def _grid(self, ends: Range) -> Grid:
        return make_grid(*ends, type_of(self.activations), symmetric=self.symmetric)

    def _round(self, layer: Layer, grids: dict[str, Grid], inserter: Inserter) -> None:
        node, dtype = layer.node, type_of(self.weights)
        used: Grid | None = None
        for index in layer.data:
            value = node.inputs[index]
            assert value is not None, "a layer has both operands"
            used = grids[str(value.name)]
            inserter.read(node, index, inserter.pair(value, used))
        if layer.weight is None or used is None:
            return
        weight = node.inputs[layer.weight]
        assert weight is not None, "a layer has both operands"
        if constant_of(weight) is None:
            scale = _scale_of(weight)  # it is rounded already
        else:
            axis = layer.channels if self.per_channel else None
            grid = weight_grid(
                inserter.array(weight), dtype, axis=axis, symmetric=self.weight_symmetric
            )
            inserter.read(node, layer.weight, inserter.stored(weight, grid, dtype, node))
            scale = grid.scale
        if layer.bias is not None and scale is not None:
            self._round_bias(layer, layer.bias, used.scale * scale, inserter)

    def _round_bias(self, layer: Layer, index: int, scale: Array, inserter: Inserter) -> None:
        """Store a bias on the grid of the sums it is added to."""
        bias = layer.node.inputs[index]
        tensor = None if bias is None else bias.const_value
        if bias is None or tensor is None or len(tensor.shape) != 1:
            return
        array = tensor.numpy().astype(np.float64)
        levels = np.rint(array / scale)
        if scale.ndim and scale.shape != array.shape:
            return
        if np.abs(levels).max(initial=0) > _LARGEST:
            return
        axis = 0 if scale.ndim else None
        grid = Grid(np.asarray(scale, np.float32), np.zeros(scale.shape, np.int32), axis)
        new = inserter.dequantised(
            levels.astype(np.int32), grid, ir.DataType.INT32, str(bias.name), layer.node
        )
        inserter.read(layer.node, index, new)

    def _round_end(self, value: ir.Value, grid: Grid, inserter: Inserter) -> None:
        readers = list(value.uses())
        new = inserter.pair(value, grid)
        first = new.producer()
        quantiser = first.inputs[0].producer() if first and first.inputs[0] else None
        for user, index in readers:
            if user is not quantiser and user.op_type != "QuantizeLinear":
                user.replace_input_with(index, new)
        if value.is_graph_output():
            return_instead(inserter.model, value, new, inserter.namer)


def _read(layer: Layer) -> list[str]:
    values = [layer.node.inputs[index] for index in layer.data]
    return [str(value.name) for value in values if value is not None]


def _take_inner(
    samples: Iterable[dict[str, Array]], inner: Collection[str], seen: list[dict[str, Array]]
) -> Iterator[dict[str, Array]]:
    """Yield the values of the main graph, and note the ranges of those in bodies."""
    for sample in samples:
        seen.append({name: sample.pop(name) for name in inner if name in sample})
        yield sample


def _scale_of(weight: ir.Value) -> Array | None:
    """Return the scales of integers by channel; None for those of blocks."""
    node = weight.producer()
    scale = constant_of(node.inputs[1]) if node is not None else None
    if scale is None or node is None or node.attributes.get_int("block_size", 0) != 0:
        return None
    return scale.numpy()


def _is_quantised(layer: Layer) -> bool:
    values = [layer.node.inputs[i] for i in layer.data]
    sources = [v.producer() for v in values if v is not None]
    return any(s is not None and s.op_type == "DequantizeLinear" for s in sources)
