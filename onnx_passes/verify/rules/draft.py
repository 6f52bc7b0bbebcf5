"""A model in the making: its nodes, its values, and what is known of them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Tensor
from onnx_passes.ops.domains.concrete import ShapeSemantics
from onnx_passes.ops.evaluation import evaluate_node
from onnx_passes.ops.input_hints import Operand
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import Misfit, Opaque, Unsupported, scalars
from onnx_passes.verify.rules.measuring import measured
from onnx_passes.verify.rules.plausible_operands import Chooser


class TemplateDraft:
    """A model in the making.

    Attributes:
        values: Values by what the pattern calls them.
        tensors: What is known of values.
        inputs: Inputs of the model.
        initializers: Its initializers.
        nodes: Its nodes, in order.
        domains: Versions of the operators, by domain.
        by_chance: Whether a variable became a constant that need not be one.
    """

    def __init__(self, chooser: Chooser, opset: int, *, measures: bool) -> None:
        """Begin a model.

        Args:
            chooser: The choices.
            opset: Version of the main domain.
            measures: Whether the engine says what nodes yield that no semantics covers; if
                not, such a template is left out.
        """
        self.values: dict[Hashable, ir.Value] = {}
        self.tensors: dict[ir.Value, Tensor] = {}
        self.inputs: list[ir.Value] = []
        self.initializers: list[ir.Value] = []
        self.nodes: list[ir.Node] = []
        self.domains = {"": opset}
        self.by_chance = False
        self._choose, self._opset, self._measures = chooser, opset, measures
        # Where constants come from: initializers, Constant nodes, or nodes that compute them.
        self._source = chooser.source()

    def model(self, outputs: list[ir.Value]) -> ir.Model:
        """Return the model.

        Args:
            outputs: Its outputs.
        """
        graph = ir.Graph(
            self.inputs,
            outputs,
            nodes=self.nodes,
            initializers=self.initializers,
            opset_imports=self.domains,
            name="template",
        )
        return ir.Model(graph, ir_version=10)

    def append(self, node: ir.Node) -> None:
        """Add a node, and note what is known of its outputs."""
        self.nodes.append(node)
        for k, output in enumerate(node.outputs):
            output.name = f"{node.op_type.lower()}{len(self.nodes)}_{k}"
        for output, tensor in zip(node.outputs, self._evaluated(node), strict=False):
            if tensor is not None:
                self.tensors[output] = tensor
                output.dtype, output.shape = tensor.dtype, ir.Shape(tensor.shape)

    def _evaluated(self, node: ir.Node) -> tuple[Tensor | None, ...]:
        try:
            return evaluate_node(node, self.tensors, ShapeSemantics(), self._opset)
        except Misfit:
            raise  # engines take more than the standard admits, or end the process
        except Unsupported as gap:
            operator, opaque = operator_of(node), isinstance(gap, Opaque)
            if operator and operator.evaluates and not (opaque or self._measures):
                raise
            return measured(node, self.tensors, self.domains)

    def variable(self, key: Hashable, name: str | None, operand: Operand) -> ir.Value:
        """Add an operand: an input, or a constant.

        Args:
            key: What the pattern calls it; None for nothing.
            name: Its name in the model; None to number it.
            operand: Its type and shape, and its numbers if they are chosen.
        """
        choose = self._choose
        if operand.ints is not None:
            return self.constant(
                key, np.array(operand.ints, np.int64).reshape(operand.shape), name
            )
        constant = operand.constant
        if constant is None:
            likely = 0.5 if len(operand.shape) == 0 else 0.25
            # The first variable as well: it may be the one that a guard wants constant.
            likely = likely if self.inputs else likely / 2
            constant = bool(choose.rng.random() < likely)
            self.by_chance |= constant
        if constant:
            return self.constant(key, choose.content(operand), name)
        value = ir.val(
            name or f"v{len(self.inputs)}", dtype=operand.dtype, shape=list(operand.shape)
        )
        self.inputs.append(value)
        semantics = ShapeSemantics()
        size = int(np.prod(operand.shape, dtype=np.int64))
        elements = [semantics.variable("", operand.dtype)] * size
        return self.remember(
            key, value, Tensor(scalars(elements, operand.shape), operand.dtype)
        )

    def constant(self, key: Hashable, array: Array, name: str | None = None) -> ir.Value:
        """Add a constant: an initializer, or a node.

        Args:
            key: What the pattern calls it; None for nothing.
            array: The numbers, of any shape and type.
            name: Its name in the model; None to number it.
        """
        tensor = ir.tensor(array)
        value = ir.val(
            name or f"c{len(self.initializers)}", dtype=tensor.dtype, shape=list(array.shape)
        )
        value.const_value = tensor
        self.initializers.append(value)
        elements = [x.item() for x in array.reshape(-1)]
        made = self.remember(key, value, Tensor(scalars(elements, array.shape), tensor.dtype))
        return made if self._source == "initializers" else self._moved(key, made)

    def _moved(self, key: Hashable, value: ir.Value) -> ir.Value:
        """Return an initializer's stand-in: a Constant node, or a node behind it."""
        if self._source == "nodes":
            node = ir.node("Constant", [], attributes={"value": value.const_value})
            self.initializers.remove(value)
        elif value.dtype == ir.DataType.INT64 and len(value.shape or ()) == 1:
            node = ir.node("Concat", [value], attributes={"axis": 0})
        else:
            return value
        self.append(node)
        return self.remember(key, node.outputs[0], self.tensors[value])

    def remember(self, key: Hashable, value: ir.Value, tensor: Tensor) -> ir.Value:
        """Note what is known of a value, and return it.

        Args:
            key: What the pattern calls it; None for nothing.
            value: The value.
            tensor: What is known.
        """
        self.tensors[value] = tensor
        if key is not None:
            self.values[key] = value
        return value
