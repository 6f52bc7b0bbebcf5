"""Quantize weights to integers, and compute in float32."""

from typing import Annotated, Literal

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.errors import OptionError
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._grid import (
    Grid,
    Kind,
    fit_grid,
    pack_levels,
    pack_zeros,
    quantise,
    type_of,
    weight_grid,
)
from onnx_passes.passes.precision._half_precision import WIDE
from onnx_passes.passes.precision._insert import Inserter, demand_opset, opset_for
from onnx_passes.passes.precision._layers import Layer, layers_of, left_weights
from onnx_passes.passes.precision._node_selection import NOTHING, OnSomeNodes
from onnx_passes.plain import PlainMapping

MICROSOFT = "com.microsoft"
BY_INT8 = 4
"""The ``accuracy_level`` of MatMulNBits that lets ONNX Runtime multiply integers of 8 bits."""


@passes.verify.metric
@passes.register()
class QuantizeWeights(OnSomeNodes):
    """Quantize weights to integers, and compute in float32.

    Before: ``y = MatMul(x, w)`` with w in float32
    After:  ``y = MatMul(x, DequantizeLinear <block_size = 32> (w4, scales, zeros))``, or
            ``y = com.microsoft.MatMulNBits(x, w4, scales)``

    Calls of functions are replaced by their bodies.

    Sound because a DequantizeLinear gives float32 of the weight's shape; the weights are
    rounded to the grids of their channels or blocks, which the metrics of the pipeline judge.

    Leaves alone: all but Conv, Gemm and MatMul; weights that are integers, or have fewer
    elements than ``least``; with ``form: matmulnbits`` all but MatMul and Gemm by a
    matrix in the main graph. The report names the weights that stay, and why.

    Attributes:
        weights: Integers for weights; 4 and 16 bits, and blocks, from opset 21; 2 bits from
            opset 25.
        block: Elements that share a scale, along the axis that is summed over; 0 for one
            scale for each output channel. ``matmulnbits`` needs a power of 2 from 16 on.
        symmetric: Whether grids have 0 in their middle.
        form: DequantizeLinear, which any engine runs, or MatMulNBits of ONNX Runtime, which
            keeps the integers in memory.
        compute: What MatMulNBits multiplies: float32, or int8, to which ONNX Runtime rounds
            what the layer reads at run time (its ``accuracy_level`` 4), which is faster.
        least: Elements from which on a weight is stored as integers.
        embeddings: Whether matrices whose rows a Gather reads are stored as well, with ONNX
            Runtime's GatherBlockQuantized if ``form`` is matmulnbits. One table serves the
            Gather and a MatMul by its transpose.
        calibration: The range of a grid: all its weights (minmax), or the part of them for
            which the squared error is least (mse).
    """

    repeats_itself = False

    needs = ("shape-inference",)

    weights: Kind = "int8"
    block: Annotated[int, Field(ge=0)] = 0
    symmetric: bool = True
    form: Literal["dequantize", "matmulnbits"] = "dequantize"
    compute: Literal["float32", "int8"] = "float32"
    least: Annotated[int, Field(ge=0)] = 1024
    embeddings: bool = False
    calibration: Literal["minmax", "mse"] = "minmax"

    @classmethod
    def needed_opset(cls, options: PlainMapping) -> int:
        if options["form"] == "matmulnbits":
            return 0
        return opset_for(type_of(options["weights"]), block=bool(options["block"]))

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Store the weights."""
        dtype = type_of(self.weights)
        if self.form == "matmulnbits":
            self._check_form()
        elif self.compute != "float32":
            raise OptionError(
                f"{self.name}: compute: {self.compute} is for matmulnbits",
                help="give form: matmulnbits, or use quantize-dynamic",
            )
        self.note_overridable(model)
        opened = self.open_functions(model)
        nodes = self.select(model, bodies=True)
        inserter = Inserter(model, self.state_dict)
        if self.form == "matmulnbits":
            opened |= sum(self._fold_transpose(node, inserter) for node in nodes) > 0
        found, _ = layers_of(nodes)
        if self.form == "matmulnbits":
            inner = [layer for layer in found if layer.node.graph is not model.graph]
            found = [layer for layer in found if layer not in inner]
            if inner:
                names = [layer.node.name or layer.node.op_type for layer in inner]
                self.note_kept({"in bodies, which MatMulNBits does not reach": names})
                nodes = [node for node in nodes if node.graph is model.graph]
        found = [layer for layer in found if self._fits(layer)]
        tables = [node for node in nodes if self.embeddings and self._is_embedding(node)]
        taken = [*(layer.node for layer in found), *tables]
        self.note_kept(left_weights(nodes, taken, self.least))
        if not taken:
            what = f"Conv, Gemm or MatMul by a constant of {self.least} or more elements"
            self.context.notes.append(NOTHING.format(what))
            return ir.passes.PassResult(model, modified=opened)
        self.prepare(model, found)
        for node in tables:
            self._store_table(node, dtype, inserter)
        if self.form == "matmulnbits":
            for layer in found:
                self._pack(layer, inserter)
            model.graph.opset_imports.setdefault(MICROSOFT, 1)
        else:
            demand_opset(model, self)
            for layer in found:
                self._store(layer, dtype, inserter)
        return ir.passes.PassResult(model, modified=True)

    def _fits(self, layer: Layer) -> bool:
        if layer.weight is None:
            return False
        weight = layer.node.inputs[layer.weight]
        tensor = constant_of(weight)
        size = 0 if tensor is None else tensor.size
        plain = layer.node.op_type != "Conv" and layer.channels is not None
        return bool(size >= self.least) and (plain or self.form == "dequantize")

    def prepare(self, model: ir.Model, layers: list[Layer]) -> None:
        """Look at the model before any weight of it is rounded."""

    def round_weight(
        self, layer: Layer, weight: Array, grid: Grid, dtype: ir.DataType
    ) -> Array:
        """Return the integers that represent a weight."""
        return quantise(weight, grid, dtype)

    def _grid(self, array: Array, dtype: ir.DataType, axis: int | None, block: int) -> Grid:
        grid = weight_grid(array, dtype, axis=axis, block=block, symmetric=self.symmetric)
        if self.form == "matmulnbits" and self.symmetric:
            grid = fit_grid(array, dtype, grid, shrink=False)
        mse = self.calibration == "mse"
        return fit_grid(array, dtype, grid, shrink=True) if mse else grid

    def _store(self, layer: Layer, dtype: ir.DataType, inserter: Inserter) -> None:
        assert layer.weight is not None, "it has been looked at"
        weight = layer.node.inputs[layer.weight]
        assert weight is not None, "it has been looked at"
        axis = layer.depth if self.block else layer.channels
        array = inserter.array(weight)
        block = self.block if axis is not None else 0
        grid = self._grid(array, dtype, axis, block)
        levels = self.round_weight(layer, array, grid, dtype)
        new = inserter.dequantised(levels, grid, dtype, str(weight.name), layer.node)
        inserter.note_original(new, weight)
        inserter.read(layer.node, layer.weight, new)

    def _fold_transpose(self, node: ir.Node, inserter: Inserter) -> bool:
        """Let a MatMul read a transposed constant itself, whose integers are shared."""
        value = node.inputs[1] if node.op_type == "MatMul" and not node.domain else None
        maker = value.producer() if value is not None else None
        if value is None or maker is None or maker.op_type != "Transpose":
            return False
        tensor = constant_of(maker.inputs[0])
        if tensor is None or len(tensor.shape) != 2 or tensor.size < self.least:
            return False
        if tensor.dtype is not WIDE or maker.attributes.get_ints("perm", (1, 0))[0] == 0:
            return False
        inserter.read(node, 1, inserter.constant(tensor.numpy().T.copy(), str(value.name)))
        if not value.uses() and not value.is_graph_output() and maker.graph is not None:
            maker.graph.remove(maker, safe=True)
        return True

    def _is_embedding(self, node: ir.Node) -> bool:
        if node.op_type != "Gather" or node.domain or node.attributes.get_int("axis", 0) != 0:
            return False
        tensor, indices = constant_of(node.inputs[0]), node.inputs[1]
        if tensor is None or tensor.dtype is not WIDE or len(tensor.shape) != 2:
            return False
        if self.form == "matmulnbits":  # its rows are whole blocks
            width = tensor.shape.numpy()[1]
            if indices is None or indices.shape is None or width % self.block:
                return False
        return tensor.size >= self.least

    def _store_table(self, node: ir.Node, dtype: ir.DataType, inserter: Inserter) -> None:
        """Store the matrix of a Gather; a MatMul by its transpose reads the same integers."""
        table, indices = node.inputs[:2]
        assert table is not None, "it has been looked at"
        assert indices is not None, "it has been looked at"
        array, name = inserter.array(table), str(table.name)
        grid = self._grid(array, dtype, 1 if self.block else 0, self.block)
        levels = quantise(array, grid, dtype)
        if self.form == "dequantize":
            turned = [u for u in table.consumers() if u is node or u.op_type == "Transpose"]
            for user in turned:
                new = inserter.dequantised(levels, grid, dtype, name, user)
                inserter.read(user, 0, new)
            return
        by_depth = Grid(grid.scale.T, grid.zero.T, 0, self.block)
        inputs: list[ir.Value | None] = [
            inserter.constant(pack_levels(levels.T, by_depth, dtype.bitwidth), name),
            indices,
            inserter.constant(grid.scale[..., None], f"{name}_row_scale"),
        ]
        if not self.symmetric:
            zeros = grid.zero.astype(np.uint8)[..., None]
            inputs.append(inserter.constant(zeros, f"{name}_row_zero_point"))
        result = node.outputs[0]
        (blocks,) = inserter.node(
            "GatherBlockQuantized",
            inputs,
            [WIDE],
            name,
            behind=node,
            domain=MICROSOFT,
            gather_axis=0,
            quantize_axis=2,
            bits=dtype.bitwidth,
            block_size=self.block,
        )
        assert indices.shape is not None, "it has been looked at"
        sizes = inserter.constant(np.array([0] * len(indices.shape) + [array.shape[1]]), name)
        (new,) = inserter.node("Reshape", [blocks, sizes], [WIDE], name, shape=result.shape)
        inserter.take_over(result, new)

    def _check_form(self) -> None:
        power = self.block >= 16 and self.block & (self.block - 1) == 0
        if self.weights not in ("uint4", "uint8") or not power:
            raise OptionError(
                f"{self.name}: matmulnbits has blocks of 16, 32, 64, ... of uint4 or uint8, "
                f"not {self.block} of {self.weights}",
                help="give weights: uint4 and block: 32, or form: dequantize",
            )

    def _pack(self, layer: Layer, inserter: Inserter) -> None:
        """Replace a MatMul by one that reads packed integers."""
        node, dtype = layer.node, type_of(self.weights)
        data, weight = node.inputs[0], node.inputs[1]
        assert data is not None, "it has been looked at"
        assert weight is not None, "it has been looked at"
        array, name, shape = inserter.array(weight), str(weight.name), node.outputs[0].shape
        assert layer.depth is not None, "it is a matrix"
        grid = self._grid(array, dtype, layer.depth, self.block)
        levels = self.round_weight(layer, array, grid, dtype)
        if layer.depth == 1:
            levels, grid = levels.T, Grid(grid.scale.T, grid.zero.T, 0, self.block)
        (depth, columns), bits = levels.shape, dtype.bitwidth
        packed = pack_levels(levels, grid, bits)
        inputs: list[ir.Value | None] = [
            data,
            inserter.constant(packed, f"{name}_uint{bits}"),
            inserter.constant(grid.scale.T.reshape(-1), f"{name}_scale"),
        ]
        if not self.symmetric:
            inputs.append(inserter.constant(pack_zeros(grid, bits), f"{name}_zero_point"))
        (new,) = inserter.node(
            "MatMulNBits",
            inputs,
            [WIDE],
            str(node.outputs[0].name),
            behind=node,
            domain=MICROSOFT,
            shape=shape,
            K=depth,
            N=columns,
            bits=bits,
            block_size=self.block,
            **({"accuracy_level": BY_INT8} if self.compute == "int8" else {}),
        )
        bias = node.inputs[layer.bias] if layer.bias is not None else None
        if bias is not None:
            (new,) = inserter.node("Add", [new, bias], [WIDE], str(new.name), shape=shape)
        inserter.take_over(node.outputs[0], new)
