"""Build one model from a rule's pattern, choosing whatever the pattern leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.verify.rules.attributes import attribute_value
from onnx_passes.verify.rules.call import Tensor, scalars
from onnx_passes.verify.rules.operands import Chooser, Operand, Shape
from onnx_passes.verify.rules.shapes import ShapeSemantics
from onnx_passes.verify.rules.symbolic import evaluate_node

# Repeated ones are tried more often. The old ones have attributes that became inputs.
_OPSETS = (18, 18, 18, 21, 13, 11, 9)


class CannotInstantiate(Exception):  # noqa: N818 (an outcome of one attempt)
    """A choice led to a model that is none."""


class Builder:
    """Builds one model from a pattern."""

    def __init__(self, rule: RewriteRule, chooser: Chooser) -> None:
        """Build from the pattern of ``rule`` with the choices of ``chooser``."""
        # onnxscript has no public accessor for a rule's pattern.
        self._pattern: Any = rule._target_pattern
        self._choose = chooser
        self._values: dict[Any, ir.Value] = {}
        self._tensors: dict[ir.Value, Tensor] = {}
        self._attributes: dict[Any, Any] = {}
        self._inputs: list[ir.Value] = []
        self._initializers: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        chooser.prefer({n.op_type for n in self._pattern})
        options = [o for o in _OPSETS if self._fits(o)]
        if not options:
            raise CannotInstantiate
        self._opset = int(chooser.pick(options))

    def build(self) -> ir.Model:
        """Return the model.

        Raises:
            CannotInstantiate: The pattern has something that is not supported.
            Unsupported: The choices do not make a valid model.
        """
        ends = [self._value(output) for output in self._pattern.outputs]
        graph = ir.Graph(
            self._inputs,
            ends,
            nodes=self._nodes,
            initializers=self._initializers,
            opset_imports={"": self._opset},
            name="template",
        )
        return ir.Model(graph, ir_version=10)

    def _fits(self, opset: int) -> bool:
        """Whether an opset has the operators and attributes that the pattern names."""
        for node in self._pattern:
            identifier = node.op_identifier()
            schema = None if identifier is None else _schema(identifier[1], opset)
            if schema is not None and not set(node.attributes) <= set(schema.attributes):
                return False
        return True

    def _value(self, pattern: Any) -> ir.Value:
        """Return the value for an output of a pattern node, building the node first."""
        pattern = self._alternative(pattern)
        key = self._key(pattern)
        if key not in self._values:
            if pattern.producer() is None:
                raise CannotInstantiate
            self._node(pattern.producer())
        return self._values[key]

    def _alternative(self, pattern: Any) -> Any:
        """Choose among the alternatives of an Or pattern, once for the whole model."""
        alternatives = getattr(pattern, "_values", None)
        if alternatives is None and hasattr(pattern, "_op_to_pattern"):
            alternatives = [v for _, v in pattern._op_to_pattern.values()]
        if alternatives is None:
            return pattern
        chosen = self._attributes.setdefault(id(pattern), self._choose.pick(alternatives))
        return self._alternative(chosen)

    def _key(self, value: Any) -> Any:
        # Variables of one name are one value; a clone of a pattern makes several objects.
        producer = value.producer()
        return (id(producer), value.output_index) if producer else value.name or id(value)

    def _node(self, pattern: Any) -> None:
        identifier = pattern.op_identifier()
        if identifier is None or identifier[0] not in ("", "ai.onnx"):
            raise CannotInstantiate
        op_type = identifier[1]
        operands, known = self._operands(pattern, op_type)
        rank = len(known[0]) if known and known[0] is not None else 2
        attributes = self._attribute_values(pattern, op_type, rank)
        outputs = len(pattern.outputs)
        node = ir.node(op_type, operands, attributes=attributes, num_outputs=outputs)
        self._nodes.append(node)
        for k, output in enumerate(node.outputs):
            output.name = f"{op_type.lower()}{len(self._nodes)}_{k}"
        tensors = evaluate_node(node, self._tensors, ShapeSemantics(), self._opset)
        for output, tensor in zip(node.outputs, tensors, strict=False):
            if tensor is not None:
                self._tensors[output] = tensor
                output.dtype, output.shape = tensor.dtype, ir.Shape(tensor.shape)
        for result, value in zip(pattern.outputs, node.outputs, strict=True):
            self._values[self._key(result)] = value

    def _operands(
        self, pattern: Any, op_type: str
    ) -> tuple[list[ir.Value | None], list[Shape | None]]:
        inputs = [None if v is None else self._alternative(v) for v in pattern.inputs]
        # What nodes compute comes first, because variables are fitted to it.
        operands: list[ir.Value | None] = [None] * len(inputs)
        known: list[Shape | None] = [None] * len(inputs)
        computed = [i for i, v in enumerate(inputs) if v is not None and v.producer()]
        for index in [*computed, *(i for i in range(len(inputs)) if i not in computed)]:
            operand = self._operand(inputs[index], op_type, index, known)
            operands[index] = operand
            known[index] = self._tensors[operand].shape if operand is not None else None
        if pattern.allow_other_inputs:
            for index in self._further(op_type, len(operands)):
                operand = self._variable(
                    None, None, self._choose.operand(op_type, index, known)
                )
                operands.append(operand)
                known.append(self._tensors[operand].shape)
        return operands, known

    def _further(self, op_type: str, count: int) -> range:
        """Return the inputs beyond those that the pattern names."""
        schema = _schema(op_type, self._opset)
        if schema is None:
            return range(0)
        least = max(schema.min_input, count)
        most = min(schema.max_input, max(least, count) + 2, 5 if count < 5 else count)
        return range(count, int(self._choose.rng.integers(least, max(most, least) + 1)))

    def _operand(
        self, pattern: Any, op_type: str, index: int, known: list[Shape | None]
    ) -> ir.Value | None:
        if pattern is None:
            return None
        if pattern.producer() is not None:
            return self._value(pattern)
        key = self._key(pattern)
        if key in self._values:
            return self._values[key]
        operand = self._choose.operand(op_type, index, known)
        literal = getattr(pattern, "value", None)
        if literal is not None:
            dtype = operand.dtype if operand.ints is None else ir.DataType.INT64
            return self._constant(key, np.array(literal, dtype.numpy()))
        if pattern.can_match_none and self._choose.rng.random() < 0.4:
            return None
        return self._variable(key, pattern.name, operand)

    def _variable(self, key: Any, name: str | None, operand: Operand) -> ir.Value:
        choose = self._choose
        if operand.ints is not None:
            return self._constant(
                key, np.array(operand.ints, np.int64).reshape(operand.shape), name
            )
        constant = operand.constant
        if constant is None:
            likely = 0.5 if len(operand.shape) == 0 else 0.25
            constant = bool(self._inputs) and bool(choose.rng.random() < likely)
        if constant:
            return self._constant(key, choose.content(operand), name)
        value = ir.val(
            name or f"v{len(self._inputs)}", dtype=operand.dtype, shape=list(operand.shape)
        )
        self._inputs.append(value)
        semantics = ShapeSemantics()
        size = int(np.prod(operand.shape, dtype=np.int64))
        elements = [semantics.variable("", operand.dtype)] * size
        return self._remember(
            key, value, Tensor(scalars(elements, operand.shape), operand.dtype)
        )

    def _constant(
        self, key: Any, array: npt.NDArray[Any], name: str | None = None
    ) -> ir.Value:
        tensor = ir.tensor(array)
        value = ir.val(
            name or f"c{len(self._initializers)}", dtype=tensor.dtype, shape=list(array.shape)
        )
        value.const_value = tensor
        self._initializers.append(value)
        elements = [x.item() for x in array.reshape(-1)]
        return self._remember(key, value, Tensor(scalars(elements, array.shape), tensor.dtype))

    def _remember(self, key: Any, value: ir.Value, tensor: Tensor) -> ir.Value:
        self._tensors[value] = tensor
        if key is not None:
            self._values[key] = value
        return value

    def _attribute_values(self, pattern: Any, op_type: str, rank: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, attribute in pattern.attributes.items():
            fixed = getattr(attribute, "_value", None)
            if fixed is not None:
                given[name] = fixed
                continue
            if attribute.name not in self._attributes:
                chosen = attribute_value(self._choose, op_type, name, rank)
                self._attributes[attribute.name] = chosen
            if self._attributes[attribute.name] is not None:
                given[name] = self._attributes[attribute.name]
        if pattern.allow_other_attributes:
            given.update(self._unmentioned(op_type, rank, given))
        return given

    def _unmentioned(self, op_type: str, rank: int, given: dict[str, Any]) -> dict[str, Any]:
        schema = _schema(op_type, self._opset)
        extra = {}
        for name, attribute in {} if schema is None else dict(schema.attributes).items():
            if name in given or not (attribute.required or self._choose.rng.random() < 0.15):
                continue
            value = attribute_value(self._choose, op_type, name, rank)
            if value is not None:
                extra[name] = value
        return extra


def _schema(op_type: str, opset: int) -> Any:
    try:
        return onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return None
