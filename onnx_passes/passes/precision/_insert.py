"""Edits that put quantisers and integers into a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import PassError
from onnx_passes.model.digest import tensor_digest
from onnx_passes.passes._support.scratch import Scratch
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Pass
from onnx_passes.passes.precision._grid import Grid, quantise
from onnx_passes.passes.precision._half_precision import drop_constant, insert_behind
from onnx_passes.passes.precision._signature import WIDE
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import Plain, PlainDict

_SMALL_TYPES = frozenset((ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32))


ORIGINALS = "weights before they were rounded"
"""Key, in what passes of a run share, of weights by the name of the integers for them."""


class Inserter:
    """Puts nodes into the graphs of a model, and constants into the main graph.

    Args:
        model: The model; changed in place.
        state: What passes of a run share; the weights that are rounded are noted there.
    """

    def __init__(self, model: ir.Model, state: PlainDict | None = None) -> None:
        self.model, self.namer, self._scratch = model, Namer(model), Scratch(model)
        shared = {} if state is None else state
        self.originals: dict[str, ir.TensorProtocol] = shared.setdefault(ORIGINALS, {})
        self._pairs: dict[ir.Value, ir.Value] = {}
        self._made: dict[bytes, ir.Value] = {}

    def constant(self, array: object, name: str, dtype: ir.DataType | None = None) -> ir.Value:
        """Return an initializer of the main graph, one for all constants that are equal.

        So a weight that several layers read is stored once when it is rounded.

        Args:
            array: Its numbers, of any shape.
            name: The start of its name.
            dtype: Their element type; None for that of the array.
        """
        tensor = ir.tensor(np.asarray(array), dtype=dtype)
        twin = self._made.get(content := tensor_digest(tensor))
        if twin is not None and twin.is_initializer():
            return twin
        value = ir.Value(
            name=self.namer.value(name),
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=self._scratch.keep(tensor),
        )
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

        Args:
            op_type: Its operator.
            inputs: What it reads.
            kinds: Types of its results.
            name: The results are named after it.
            behind: The node that it is inserted after; by default that of its first input.
            domain: Domain of the operator.
            shape: Shape of the first result.
            **attributes: Its attributes.
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
        """Return a value rounded to a grid, by one pair of quantisers for all readers.

        Args:
            value: The value.
            grid: The grid.
        """
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

        Args:
            value: The constant, in float32.
            grid: Its grid.
            dtype: Type of the integers.
            before: The node that will read it.
        """
        levels = quantise(self.array(value), grid, dtype)
        new = self.dequantised(levels, grid, dtype, str(value.name), before)
        self.note_original(new, value)
        return new

    def note_original(self, new: ir.Value, old: ir.Value) -> None:
        """Note which weight the integers behind a DequantizeLinear represent.

        Args:
            new: The output of the DequantizeLinear.
            old: The weight.
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

        Args:
            levels: The integers, in the shape of the constant.
            grid: Their grid.
            dtype: Their type.
            name: The start of names.
            before: The reader; the node is put in front of it, or of the main graph if the
                reader is in a body.
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
        """Let a node read another value, and drop a constant that nobody reads then.

        Args:
            node: The node.
            index: Number of the input.
            value: What it reads from now on.
        """
        old = node.inputs[index]
        node.replace_input_with(index, value)
        if old is not None:
            drop_constant(old)

    def add_behind(self, value: ir.Value, array: Array, kind: ir.DataType) -> None:
        """Add a constant to a value; all its readers read the sum under its name.

        Args:
            value: The value.
            array: The constant, of a shape that broadcasts with the value.
            kind: Element type of the sum.
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

        Args:
            old: What the node computes.
            new: The value that replaces it.
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
    """Refuse a model whose operators are too old for what a pass inserts.

    Args:
        model: The model.
        pass_: The pass.

    Raises:
        PassError: The opset is older.
    """
    opset, wanted = model.graph.opset_imports.get("", 1), pass_.needed_opset(pass_.options)
    if opset < wanted:
        raise PassError(
            f"{pass_.name} needs opset {wanted}, and the model has {opset}",
            help=f"run convert-opset{{version={wanted}}} before it",
        )


def opset_for(dtype: ir.DataType, *, block: bool = False) -> int:
    """Return the first opset whose quantisers have a type.

    Args:
        dtype: Type of the integers.
        block: Whether scales are those of blocks.
    """
    if dtype.bitwidth == 2:
        return 25
    return 21 if block or dtype not in _SMALL_TYPES else 13
