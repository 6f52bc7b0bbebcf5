"""Build one model from a rule's pattern, choosing whatever the pattern leaves open."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.ops.input_hints import Operand, Shape
from onnx_passes.ops.operator_class import find
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.passes.hints import Spec
from onnx_passes.verify.rules.attribute_chooser import AttributeChooser
from onnx_passes.verify.rules.draft import TemplateDraft
from onnx_passes.verify.rules.enumeration import Plan
from onnx_passes.verify.rules.hinted_operands import Guide, hint_of
from onnx_passes.verify.rules.literals import guarded
from onnx_passes.verify.rules.pattern import PatternPart, alternatives_of, pattern_of
from onnx_passes.verify.rules.plausible_operands import Chooser
from onnx_passes.verify.rules.schemas import (
    MAIN,
    OPSETS,
    admits,
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
        self._plan = plan or Plan()
        self._pattern = pattern_of(rule)
        self._choose = chooser
        self._alternatives: dict[int, PatternPart] = {}
        chooser.prefer({n.op_type for n in self._pattern})
        self._guarded = guarded(rule)
        self._guide = Guide(hint_of(rule.name), chooser)
        options = [o for o in OPSETS if fits(self._pattern, o)]
        if not options:
            raise CannotInstantiate
        worth = [o for o in options if o >= self._guide.since]
        self._opset = self._plan.opset or int(chooser.pick(worth or options))
        self._draft = TemplateDraft(chooser, self._opset, measures=measures)
        self._attributes = AttributeChooser(chooser, self._guide, self._opset)

    def build(self) -> ir.Model:
        """Return the model.

        Raises:
            CannotInstantiate: The pattern has something that is not supported.
            Unsupported: The choices do not make a valid model.
        """
        ends = [self._value(output) for output in self._pattern.outputs]
        if not self._draft.inputs and self._draft.by_chance:
            raise Unsupported("every variable became a constant")
        return self._draft.model(ends)

    def _value(self, pattern: PatternPart) -> ir.Value:
        """Return the value for an output of a pattern node, building the node first."""
        pattern = self._alternative(pattern)
        key = self._key(pattern)
        if key not in self._draft.values:
            if pattern.producer() is None:
                raise CannotInstantiate
            self._node(pattern.producer())
        return self._draft.values[key]

    def _alternative(self, pattern: PatternPart) -> PatternPart:
        """Choose among the alternatives of an Or pattern, once for the whole model."""
        alternatives = alternatives_of(pattern)
        if alternatives is None:
            return pattern
        chosen = self._alternatives.setdefault(id(pattern), self._choose.pick(alternatives))
        return self._alternative(chosen)

    def _key(self, value: PatternPart) -> Hashable:
        # Variables of one name are one value; a clone of a pattern makes several objects.
        producer = value.producer()
        return (id(producer), value.output_index) if producer else value.name or id(value)

    def _node(self, pattern: PatternPart) -> None:
        identifier = operator_in(pattern)
        if identifier is None:
            raise CannotInstantiate
        domain, op_type = identifier[0], identifier[1]
        domain = "" if domain in MAIN else domain
        operands, known = self._operands(pattern, op_type)
        attributes = self._attributes.values(pattern, domain, op_type, known)
        dtypes = [None if v is None else v.dtype for v in operands]
        if domain == "" and not admits(op_type, self._opset, dtypes):
            raise Unsupported(f"{op_type} of these element types")
        outputs = len(pattern.outputs)
        node = ir.node(
            op_type, operands, attributes=attributes, num_outputs=outputs, domain=domain
        )
        self._draft.domains.setdefault(domain, 1)
        self._draft.append(node)
        for result, value in zip(pattern.outputs, node.outputs, strict=True):
            self._draft.values[self._key(result)] = value

    def _operands(
        self, pattern: PatternPart, op_type: str
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
            known[index] = self._draft.tensors[operand].shape if operand is not None else None
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
                    self._draft.variable(
                        None, None, self._choose.operand(op_type, index, known)
                    )
                    if spec is None
                    else self._specified(None, None, spec)
                )
                operands.append(operand)
                known.append(self._draft.tensors[operand].shape)
        return operands, known

    def _join(
        self, pattern: PatternPart, op_type: str, index: int, known: Sequence[Shape | None]
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
        if (
            hinted
            or any(key in self._draft.values for key in keys)
            or len({*keys}) < len(keys)
        ):
            return
        self._choose.parts = len(parts)
        operand = self._choose.operand(op_type, index, known)
        self._choose.parts = None
        if operand.ints is not None and len(operand.ints) == len(parts):
            for key, part, number in zip(keys, parts, operand.ints, strict=True):
                self._draft.constant(key, np.array([number], np.int64), part.name)

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
        self, pattern: PatternPart, op_type: str, index: int, known: list[Shape | None]
    ) -> ir.Value | None:
        if pattern is None:
            return None
        if pattern.producer() is not None:
            return self._value(pattern)
        key = self._key(pattern)
        if key in self._draft.values:
            return self._draft.values[key]
        rank = self._plan.ranks.get(pattern.name)
        spec = self._spec(pattern.name, rank)
        if spec is not None and not (
            pattern.can_match_none and self._choose.rng.random() < 0.4
        ):
            return self._specified(key, pattern.name, spec)
        operand = self._drawn(op_type, index, known, rank)
        wanted = self._guarded.get(pattern.name, [])
        if wanted and self._choose.rng.random() < 0.8:
            return self._draft.constant(
                key, self._choose.wanted(operand, wanted), pattern.name
            )
        literal = getattr(pattern, "value", None)
        if literal is not None:
            dtype = operand.dtype if operand.ints is None else ir.DataType.INT64
            return self._draft.constant(key, self._choose.literal(pattern, dtype))
        if pattern.can_match_none and self._choose.rng.random() < 0.4:
            return None
        return self._draft.variable(key, pattern.name, operand)

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

    def _specified(self, key: object, name: str | None, spec: Spec) -> ir.Value:
        """Return the operand that a hint describes."""
        if spec.node:
            return self._computed(key, spec)
        if spec.of:
            return self._named(spec.of[0])
        operand = self._guide.operand(spec)
        array = self._guide.content(spec, operand)
        if array is not None:
            return self._draft.constant(key, array, name)
        return self._draft.variable(key, name, operand)

    def _named(self, name: str) -> ir.Value:
        """Return the value of a variable, made as its own hint says if it is not there yet."""
        if name not in self._draft.values:
            own = self._guide.spec(name)
            if own is None:
                raise Unsupported("a hint that is not followed")
            self._specified(name, name, own)
        return self._draft.values[name]

    def _computed(self, key: object, spec: Spec) -> ir.Value:
        """Return the result of a node that a hint describes, made for this operand alone."""
        inputs = [self._named(name) for name in spec.of]
        node = ir.node(spec.node, inputs, attributes=dict(spec.attributes))
        self._draft.append(node)
        if node.outputs[0] not in self._draft.tensors:
            raise Unsupported(f"{spec.node} of which nothing is known")
        return self._draft.remember(key, node.outputs[0], self._draft.tensors[node.outputs[0]])
