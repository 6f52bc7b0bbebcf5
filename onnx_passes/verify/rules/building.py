"""Build one model from a rule's pattern, choosing whatever the pattern leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.ops.base import find, operator_of
from onnx_passes.ops.call import Tensor
from onnx_passes.ops.domains.blank import ShapeSemantics
from onnx_passes.ops.evaluation import evaluate_node
from onnx_passes.ops.semantics import Misfit, Unsupported, scalars
from onnx_passes.ops.suggestions import Operand, Shape
from onnx_passes.passes.hints import Spec
from onnx_passes.verify.rules.attributes import attribute_value
from onnx_passes.verify.rules.enumeration import Plan
from onnx_passes.verify.rules.hints import Guide, hint_of
from onnx_passes.verify.rules.literals import guarded
from onnx_passes.verify.rules.measuring import measured
from onnx_passes.verify.rules.operands import Chooser
from onnx_passes.verify.rules.schemas import (
    MAIN,
    OPSETS,
    admits,
    attribute_names,
    fits,
    may_be_absent,
    operator_in,
    schema_of,
)

_REDRAWS = 6
"""Draws of an operand until it has the rank that is wanted."""


class CannotInstantiate(Exception):  # noqa: N818 (an outcome of one attempt)
    """A choice led to a model that is not valid."""


class ModelBuilder:
    """Builds one model from a pattern."""

    def __init__(
        self,
        rule: RewriteRule,
        chooser: Chooser,
        plan: Plan | None = None,
        *,
        measures: bool = False,
    ) -> None:
        """Build from the pattern of ``rule`` with the choices of ``chooser``.

        Args:
            rule: The rule.
            chooser: The choices.
            plan: Ranks and the opset, where they are enumerated.
            measures: Whether the engine says what nodes yield that no semantics covers; if
                not, such a template is left out.
        """
        self._measures = measures
        self._plan = plan or Plan()
        # onnxscript has no public accessor for a rule's pattern.
        self._pattern: Any = rule._target_pattern
        self._choose = chooser
        self._values: dict[Any, ir.Value] = {}
        self._tensors: dict[ir.Value, Tensor] = {}
        self._attributes: dict[Any, Any] = {}
        self._inputs: list[ir.Value] = []
        self._by_chance = False
        self._initializers: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        chooser.prefer({n.op_type for n in self._pattern})
        self._guarded = guarded(rule)
        self._guide = Guide(hint_of(rule.name), chooser)
        options = [o for o in OPSETS if fits(self._pattern, o)]
        if not options:
            raise CannotInstantiate
        worth = [o for o in options if o >= self._guide.since]
        self._opset = self._plan.opset or int(chooser.pick(worth or options))
        self._domains = {"": self._opset}
        # Where constants come from: initializers, Constant nodes, or nodes that compute them.
        self._source = chooser.source()
        self._further_odds = float(chooser.pick((0.05, 0.3, 0.6)))

    def build(self) -> ir.Model:
        """Return the model.

        Raises:
            CannotInstantiate: The pattern has something that is not supported.
            Unsupported: The choices do not make a valid model.
        """
        ends = [self._value(output) for output in self._pattern.outputs]
        if not self._inputs and self._by_chance:
            raise Unsupported("every variable became a constant")
        graph = ir.Graph(
            self._inputs,
            ends,
            nodes=self._nodes,
            initializers=self._initializers,
            opset_imports=self._domains,
            name="template",
        )
        return ir.Model(graph, ir_version=10)

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
        identifier = operator_in(pattern)
        if identifier is None:
            raise CannotInstantiate
        domain, op_type = identifier[0], identifier[1]
        domain = "" if domain in MAIN else domain
        operands, known = self._operands(pattern, op_type)
        attributes = self._attribute_values(pattern, domain, op_type, known)
        dtypes = [None if v is None else v.dtype for v in operands]
        if domain == "" and not admits(op_type, self._opset, dtypes):
            raise Unsupported(f"{op_type} of these element types")
        outputs = len(pattern.outputs)
        node = ir.node(
            op_type, operands, attributes=attributes, num_outputs=outputs, domain=domain
        )
        self._domains.setdefault(domain, 1)
        self._append(node)
        for result, value in zip(pattern.outputs, node.outputs, strict=True):
            self._values[self._key(result)] = value

    def _append(self, node: ir.Node) -> None:
        self._nodes.append(node)
        for k, output in enumerate(node.outputs):
            output.name = f"{node.op_type.lower()}{len(self._nodes)}_{k}"
        for output, tensor in zip(node.outputs, self._evaluated(node), strict=False):
            if tensor is not None:
                self._tensors[output] = tensor
                output.dtype, output.shape = tensor.dtype, ir.Shape(tensor.shape)

    def _evaluated(self, node: ir.Node) -> tuple[Tensor | None, ...]:
        try:
            return evaluate_node(node, self._tensors, ShapeSemantics(), self._opset)
        except Misfit:
            raise  # engines take more than the standard admits, or end the process
        except Unsupported:
            operator = operator_of(node)
            if operator is not None and operator.evaluates and not self._measures:
                raise
            return measured(node, self._tensors, self._domains)

    def _operands(
        self, pattern: Any, op_type: str
    ) -> tuple[list[ir.Value | None], list[Shape | None]]:
        inputs = [None if v is None else self._alternative(v) for v in pattern.inputs]
        plain = {n: getattr(a, "_value", None) for n, a in pattern.attributes.items()}
        fixed = {name: value for name, value in plain.items() if value is not None}
        # What nodes compute comes first, because variables are fitted to it.
        operands: list[ir.Value | None] = [None] * len(inputs)
        known: list[Shape | None] = [None] * len(inputs)
        computed = [i for i, v in enumerate(inputs) if v is not None and v.producer()]
        for index in computed:
            self._join(inputs[index], op_type, index, known)
        for index in [*computed, *(i for i in range(len(inputs)) if i not in computed)]:
            self._choose.fixed = fixed
            operand = self._operand(inputs[index], op_type, index, known)
            operands[index] = operand
            known[index] = self._tensors[operand].shape if operand is not None else None
        if pattern.allow_other_inputs:
            schema = schema_of(op_type, self._opset)
            named = (*(v.name or op_type for v in pattern.outputs), op_type)
            self._choose.fixed = fixed
            for index in self._further(op_type, len(operands), named):
                if may_be_absent(schema, index) and self._choose.rng.random() < 0.1:
                    operands.append(None)  # an optional input may be left out by an empty name
                    known.append(None)
                    continue
                spec = self._guide.spec(*(f"{name}.{index}" for name in named))
                operand = (
                    self._variable(None, None, self._choose.operand(op_type, index, known))
                    if spec is None
                    else self._specified(None, None, spec)
                )
                operands.append(operand)
                known.append(self._tensors[operand].shape)
        return operands, known

    def _join(
        self, pattern: Any, op_type: str, index: int, known: Sequence[Shape | None]
    ) -> None:
        """Choose the variables that a pattern joins to a shape, or to other known integers."""
        operator, producer = find("", op_type), pattern.producer()
        if operator is None or index not in operator.steers:
            return
        joins, parts = find(*(operator_in(producer) or ("", ""))), [*producer.inputs]
        free = all(p is not None and not p.producer() and p.name for p in parts)
        if joins is None or not joins.joins or not free:
            return
        keys = [self._key(part) for part in parts]
        hinted = any(self._guide.names(part.name) for part in parts)
        if hinted or any(key in self._values for key in keys) or len({*keys}) < len(keys):
            return
        self._choose.parts = len(parts)
        operand = self._choose.operand(op_type, index, known)
        self._choose.parts = None
        if operand.ints is not None and len(operand.ints) == len(parts):
            for key, part, number in zip(keys, parts, operand.ints, strict=True):
                self._constant(key, np.array([number], np.int64), part.name)

    def _further(self, op_type: str, count: int, names: Sequence[str]) -> range:
        """Return the inputs beyond those that the pattern names; hinted ones are there."""
        schema = schema_of(op_type, self._opset)
        if schema is None:
            return range(0)
        full = op_type in self._plan.full
        if full and schema.max_input < 10:
            return range(count, schema.max_input)
        least = max(schema.min_input, count)
        most = (
            least
            if self._plan.full
            else min(schema.max_input, max(least, count) + 2, 5 if count < 5 else count)
        )
        while least < most and self._guide.names(*(f"{name}.{least}" for name in names)):
            least += 1
        most = least if self._plan.full else most
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
        rank = self._plan.ranks.get(pattern.name)
        spec = self._spec(pattern.name, rank)
        if spec is not None and not (
            pattern.can_match_none and self._choose.rng.random() < 0.4
        ):
            return self._specified(key, pattern.name, spec)
        operand = self._drawn(op_type, index, known, rank)
        wanted = self._guarded.get(pattern.name, [])
        if wanted and self._choose.rng.random() < 0.8:
            return self._constant(key, self._choose.wanted(operand, wanted), pattern.name)
        literal = getattr(pattern, "value", None)
        if literal is not None:
            dtype = operand.dtype if operand.ints is None else ir.DataType.INT64
            return self._constant(key, self._choose.literal(pattern, dtype))
        if pattern.can_match_none and self._choose.rng.random() < 0.4:
            return None
        return self._variable(key, pattern.name, operand)

    def _spec(self, name: str | None, rank: int | None) -> Spec | None:
        """Return what a hint says of an operand, if need be of a rank."""
        for _ in range(1 if rank is None else _REDRAWS):
            spec = self._guide.spec(name)
            fixed = spec is None or spec.known or spec.node or spec.of
            if fixed or rank in (None, len(spec.dims.split()) if spec else None):
                return spec
        return None

    def _drawn(
        self, op_type: str, index: int, known: list[Shape | None], rank: int | None
    ) -> Operand:
        """Return an operand, of the rank that is wanted if there is one."""
        self._choose.rank = rank
        for _ in range(1 if rank is None else _REDRAWS):
            operand = self._choose.operand(op_type, index, known)
            if rank is None or operand.ints is not None or len(operand.shape) == rank:
                self._choose.rank = None
                return operand
        self._choose.rank = None
        raise Unsupported(f"{op_type} with an operand of rank {rank}")

    def _specified(self, key: Any, name: str | None, spec: Spec) -> ir.Value:
        """Return the operand that a hint describes."""
        if spec.node:
            return self._computed(key, spec)
        if spec.of:
            return self._named(spec.of[0])
        operand = self._guide.operand(spec)
        array = self._guide.content(spec, operand)
        if array is not None:
            return self._constant(key, array, name)
        return self._variable(key, name, operand)

    def _named(self, name: str) -> ir.Value:
        """Return the value of a variable, made as its own hint says if it is not there yet."""
        if name not in self._values:
            own = self._guide.spec(name)
            if own is None:
                raise Unsupported("a hint that is not followed")
            self._specified(name, name, own)
        return self._values[name]

    def _computed(self, key: Any, spec: Spec) -> ir.Value:
        """Return the result of a node that a hint describes, made for this operand alone."""
        inputs = [self._named(name) for name in spec.of]
        node = ir.node(spec.node, inputs, attributes=dict(spec.attributes))
        self._append(node)
        if node.outputs[0] not in self._tensors:
            raise Unsupported(f"{spec.node} of which nothing is known")
        return self._remember(key, node.outputs[0], self._tensors[node.outputs[0]])

    def _variable(self, key: Any, name: str | None, operand: Operand) -> ir.Value:
        choose = self._choose
        if operand.ints is not None:
            return self._constant(
                key, np.array(operand.ints, np.int64).reshape(operand.shape), name
            )
        constant = operand.constant
        if constant is None:
            likely = 0.5 if len(operand.shape) == 0 else 0.25
            # The first variable as well: it may be the one that a guard wants constant.
            likely = likely if self._inputs else likely / 2
            constant = bool(choose.rng.random() < likely)
            self._by_chance |= constant
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
        made = self._remember(key, value, Tensor(scalars(elements, array.shape), tensor.dtype))
        return made if self._source == "initializers" else self._moved(key, made)

    def _moved(self, key: Any, value: ir.Value) -> ir.Value:
        """Return an initializer's stand-in: a Constant node, or a node behind it."""
        if self._source == "nodes":
            node = ir.node("Constant", [], attributes={"value": value.const_value})
            self._initializers.remove(value)
        elif value.dtype == ir.DataType.INT64 and len(value.shape or ()) == 1:
            node = ir.node("Concat", [value], attributes={"axis": 0})
        else:
            return value
        self._append(node)
        return self._remember(key, node.outputs[0], self._tensors[value])

    def _remember(self, key: Any, value: ir.Value, tensor: Tensor) -> ir.Value:
        self._tensors[value] = tensor
        if key is not None:
            self._values[key] = value
        return value

    def _attribute_values(
        self, pattern: Any, domain: str, op_type: str, known: list[Shape | None]
    ) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, attribute in pattern.attributes.items():
            fixed = getattr(attribute, "_value", None)
            if fixed is not None:
                given[name] = fixed
                continue
            if attribute.can_match_none and self._choose.rng.random() < 0.4:
                continue
            key = attribute.name or (id(pattern), name)
            if key not in self._attributes:
                self._attributes[key] = self._attribute(op_type, name, known)
            if self._attributes[key] is not None:
                given[name] = self._attributes[key]
        if pattern.allow_other_attributes:
            given.update(self._unmentioned(domain, op_type, known, given))
        return given

    def _attribute(self, op_type: str, name: str, known: list[Shape | None]) -> Any:
        for hinted in self._guide.attribute(op_type, name):
            return hinted
        return attribute_value(self._choose, op_type, name, known)

    def _unmentioned(
        self, domain: str, op_type: str, known: list[Shape | None], given: dict[str, Any]
    ) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        described = find(domain, op_type, self._opset)
        alone = described is not None and described.one_attribute
        for name, required in attribute_names(domain, op_type, self._opset).items():
            if alone and (given or extra):
                break
            wanted = required or self._guide.offers(op_type, name)
            wanted = wanted or (described is not None and name in described.wants)
            if name in given or not (wanted or self._choose.rng.random() < self._further_odds):
                continue
            value = self._attribute(op_type, name, known)
            if value is not None:
                extra[name] = value
        return extra
