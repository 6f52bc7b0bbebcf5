"""Build models from a rule's pattern, until the rule fires on some of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.verify.rules.applying import apply_rule
from onnx_passes.verify.rules.arithmetic import Unsupported
from onnx_passes.verify.rules.call import Tensor, scalars
from onnx_passes.verify.rules.literals import literals
from onnx_passes.verify.rules.operands import Chooser, Operand, Shape
from onnx_passes.verify.rules.replay import Replayer, samples
from onnx_passes.verify.rules.shapes import ShapeSemantics
from onnx_passes.verify.rules.symbolic import evaluate_node

_TYPES = (
    *(ir.DataType.FLOAT,) * 4,
    *(ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.UINT8),
)


class CannotInstantiate(Exception):  # noqa: N818 (an outcome of one attempt)
    """A choice led to a model that is none."""


def instances(
    rule: RewriteRule,
    *,
    limit: int = 6,
    attempts: int = 400,
    seconds: float = 6.0,
    seed: int = 0,
) -> Iterator[ir.Model]:
    """Yield models on which ``rule`` fires.

    Args:
        rule: The rule; its pattern is walked, and its check decides.
        limit: How many models at most, all unlike one another in types or shapes.
        attempts: How many random models are tried.
        seconds: When to give up.
        seed: Of the choices.
    """
    rng = np.random.default_rng(seed)
    numbers = literals(rule)
    seen: set[str] = set()
    deadline = time.monotonic() + seconds
    for attempt in range(attempts):
        if len(seen) >= limit or time.monotonic() > deadline:
            return
        # The common type first: most rules are about it, and others may be refused.
        dtype = _TYPES[attempt % len(_TYPES)]
        try:
            model = _Builder(rule, Chooser(rng, dtype, numbers)).build()
        except (CannotInstantiate, Unsupported):
            continue
        key = _signature(model)
        if key not in seen and _fires(rule, model) and _runs(model):
            seen.add(key)
            yield model


def _signature(model: ir.Model) -> str:
    values = (*model.graph.inputs, *model.graph.initializers.values())
    nodes = (
        f"{n.op_type}{sorted(str(a) for a in n.attributes.values())}" for n in model.graph
    )
    return ";".join((*(f"{v.dtype}{v.shape}" for v in values), *nodes))


def _fires(rule: RewriteRule, model: ir.Model) -> bool:
    try:
        return apply_rule(rule, model) is not None
    except Exception:
        # A rule that raises on a valid model is a finding of the caller, who applies it.
        return True


def _runs(model: ir.Model) -> bool:
    replayer = Replayer(model, model)
    feeds = next(samples(replayer.inputs, 1, special=False, seed=0))
    return replayer.runs(feeds) is None


class _Builder:
    """Builds one model from a pattern, choosing whatever the pattern leaves open."""

    def __init__(self, rule: RewriteRule, chooser: Chooser) -> None:
        # onnxscript has no public accessor for a rule's pattern.
        self._pattern: Any = rule._target_pattern
        self._choose = chooser
        self._values: dict[Any, ir.Value] = {}
        self._tensors: dict[ir.Value, Tensor] = {}
        self._attributes: dict[str, Any] = {}
        self._inputs: list[ir.Value] = []
        self._initializers: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        self._opset = int(chooser.pick((18, 18, 21, 13)))

    def build(self) -> ir.Model:
        """Return the model.

        Raises:
            CannotInstantiate: The pattern has something that is not supported.
            Unsupported: The choices do not make a valid model.
        """
        for node in self._pattern:
            self._node(node)
        outputs = [self._values.get(self._key(o)) for o in self._pattern.outputs]
        ends = [o for o in outputs if o is not None]
        if len(ends) != len(outputs):
            raise CannotInstantiate
        graph = ir.Graph(
            self._inputs,
            ends,
            nodes=self._nodes,
            initializers=self._initializers,
            opset_imports={"": self._opset},
            name="template",
        )
        return ir.Model(graph, ir_version=10)

    def _key(self, value: Any) -> Any:
        # Variables of one name are one value; a clone of a pattern makes several objects.
        producer = value.producer()
        return (id(producer), value.output_index) if producer else value.name or id(value)

    def _node(self, pattern: Any) -> None:
        identifier = pattern.op_identifier()
        if identifier is None or identifier[0] not in ("", "ai.onnx"):
            raise CannotInstantiate
        op_type = identifier[1]
        known = [self._known_shape(v) for v in pattern.inputs]
        operands: list[ir.Value | None] = []
        for index, value in enumerate(pattern.inputs):
            operand = self._operand(value, op_type, index, known)
            operands.append(operand)
            known[index] = self._tensors[operand].shape if operand is not None else None
        rank = len(known[0]) if known and known[0] is not None else 2
        attributes = self._attribute_values(pattern, op_type, rank)
        node = ir.node(
            op_type, operands, attributes=attributes, num_outputs=len(pattern.outputs)
        )
        self._nodes.append(node)
        self._measure(node)
        for output, value in zip(pattern.outputs, node.outputs, strict=True):
            self._values[self._key(output)] = value

    def _known_shape(self, value: Any) -> Shape | None:
        known = self._values.get(self._key(value)) if value is not None else None
        return None if known is None else self._tensors[known].shape

    def _operand(
        self, pattern: Any, op_type: str, index: int, known: list[Shape | None]
    ) -> ir.Value | None:
        if pattern is None:
            return None
        alternatives = getattr(pattern, "_values", None)
        if alternatives is None and hasattr(pattern, "_op_to_pattern"):
            alternatives = [v for _, v in pattern._op_to_pattern.values()]
        if alternatives is not None:
            pattern = self._choose.pick(alternatives)
        key = self._key(pattern)
        if key in self._values:
            return self._values[key]
        if pattern.producer() is not None:
            raise CannotInstantiate  # a node that the pattern lists later
        literal = getattr(pattern, "value", None)
        if literal is not None:
            return self._literal(key, literal)
        if pattern.can_match_none and self._choose.rng.random() < 0.4:
            return None
        operand = self._choose.operand(op_type, index, known)
        return self._variable(key, pattern.name, operand)

    def _literal(self, key: Any, number: Any) -> ir.Value:
        array = np.array(number, self._choose.dtype.numpy())
        return self._constant(key, array)

    def _variable(self, key: Any, name: str | None, operand: Operand) -> ir.Value:
        choose = self._choose
        constant = operand.constant
        if constant is None:
            constant = bool(choose.rng.random() < (0.5 if len(operand.shape) == 0 else 0.25))
            constant &= bool(self._inputs)
        if operand.ints is not None:
            return self._constant(key, np.array(operand.ints, np.int64), name)
        if constant:
            dtype = operand.dtype.numpy()
            if choose.rng.random() < 0.7:
                array = np.full(operand.shape, choose.pick(choose.numbers))
            else:
                array = choose.rng.integers(1, 5, operand.shape)
            with np.errstate(invalid="ignore"):
                return self._constant(key, np.asarray(array).astype(dtype), name)
        value = ir.val(
            name or f"v{len(self._inputs)}", dtype=operand.dtype, shape=list(operand.shape)
        )
        self._inputs.append(value)
        self._values[key] = value
        semantics = ShapeSemantics()
        size = int(np.prod(operand.shape, dtype=np.int64))
        elements = [semantics.variable("", operand.dtype)] * size
        self._tensors[value] = Tensor(scalars(elements, operand.shape), operand.dtype)
        return value

    def _constant(
        self, key: Any, array: npt.NDArray[Any], name: str | None = None
    ) -> ir.Value:
        tensor = ir.tensor(array)
        value = ir.val(
            name or f"c{len(self._initializers)}", dtype=tensor.dtype, shape=list(array.shape)
        )
        value.const_value = tensor
        self._initializers.append(value)
        self._values[key] = value
        elements = [x.item() for x in array.reshape(-1)]
        self._tensors[value] = Tensor(scalars(elements, array.shape), tensor.dtype)
        return value

    def _attribute_values(self, pattern: Any, op_type: str, rank: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, attribute in pattern.attributes.items():
            fixed = getattr(attribute, "_value", None)
            if fixed is not None:
                given[name] = fixed
                continue
            bound = attribute.name
            if bound not in self._attributes:
                self._attributes[bound] = self._choose.attribute(op_type, name, rank)
            if self._attributes[bound] is not None:
                given[name] = self._attributes[bound]
        if pattern.allow_other_attributes:
            given.update(self._unmentioned(op_type, rank, given))
        return given

    def _unmentioned(self, op_type: str, rank: int, given: dict[str, Any]) -> dict[str, Any]:
        import onnx

        try:
            schema = onnx.defs.get_schema(op_type, self._opset)
        except onnx.defs.SchemaError:
            return {}
        extra = {}
        for name, attribute in schema.attributes.items():
            if name in given or not (attribute.required or self._choose.rng.random() < 0.15):
                continue
            value = self._choose.attribute(op_type, name, rank)
            if value is not None:
                extra[name] = value
        return extra

    def _measure(self, node: ir.Node) -> None:
        """Evaluate a node for the shapes of its results."""
        for k, output in enumerate(node.outputs):
            output.name = f"{node.op_type.lower()}{len(self._nodes)}_{k}"
        tensors = evaluate_node(node, self._tensors, ShapeSemantics(), self._opset)
        for output, tensor in zip(node.outputs, tensors, strict=False):
            if tensor is None:
                continue
            self._tensors[output] = tensor
            output.dtype, output.shape = tensor.dtype, ir.Shape(tensor.shape)
