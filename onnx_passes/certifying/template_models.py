"""Build models from the pattern of a rule, for the proof and for the property test.

The proof needs models on which the rule fires. The property test also varies shapes, constants
and surroundings.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import onnx_ir as ir
from onnx.shape_inference import InferenceError
from onnxscript.rewriter import RewriteRule

from onnx_passes.arrays import Array
from onnx_passes.certifying.coverage import (
    OPSETS,
    Plan,
    admits,
    admitted_types,
    attribute_names,
    bound_type,
    choices_of_inputs,
    effective_value,
    few_types,
    fits,
    is_default,
    is_variadic,
    may_be_absent,
    operator_in,
    plans_of,
    schema_of,
)
from onnx_passes.certifying.operand_choice import (
    FORMS,
    KNOWN,
    Chooser,
    Draw,
    Guide,
    MatchTraces,
    RecordedGenerator,
    attribute_value,
    hint_of,
)
from onnx_passes.certifying.replay import Replayer, infer_by_running, samples
from onnx_passes.certifying.rewrite_rule import (
    PatternPart,
    alternatives_of,
    find_guard_constants,
    fires,
    literals,
    number_lists,
    pattern_of,
    words,
)
from onnx_passes.certifying.variants import (
    AMPLIFIED,
    RAISED,
    VARIANTS,
    behind,
    followed,
    read_often,
    with_attribute,
)
from onnx_passes.ops.call import Tensor
from onnx_passes.ops.domains.concrete import ShapeSemantics
from onnx_passes.ops.evaluation import evaluate_node
from onnx_passes.ops.input_hints import Operand, Shape
from onnx_passes.ops.operator_class import MAIN, find, operator_of
from onnx_passes.ops.semantics import Misfit, Opaque, Unsupported, scalars
from onnx_passes.passes.hints import Spec
from onnx_passes.plain import Plain, PlainDict


class TemplateDraft:
    """A model in the making.

    `values` are by what the pattern calls them. `by_chance` is set once a variable became a
    constant that need not be one.
    """

    def __init__(self, chooser: Chooser, opset: int, *, measures: bool) -> None:
        """Begin a model; the engine infers what has no semantics only if it `measures`."""
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
        """Return the model."""
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
            with np.errstate(all="ignore"):  # constants may be of any size
                return evaluate_node(node, self.tensors, ShapeSemantics(), self._opset)
        except Misfit:
            raise  # engines take more than the standard admits, or end the process
        except Unsupported as gap:
            operator, opaque = operator_of(node), isinstance(gap, Opaque)
            if operator and operator.evaluates and not (opaque or self._measures):
                raise
            return infer_by_running(node, self.tensors, self.domains)

    def variable(self, key: Hashable, name: str | None, operand: Operand) -> ir.Value:
        """Add an operand: an input, or a constant. Without a name, it is numbered."""
        choose = self._choose
        if operand.ints is not None:
            return self.constant(
                key, np.array(operand.ints, np.int64).reshape(operand.shape), name
            )
        constant = operand.constant
        if constant is None:
            likely = 0.5 if len(operand.shape) == 0 else 0.25
            # The first variable as well: it may be the one that a guard wants constant.
            likely = min(likely * choose.constants, 0.9) if self.inputs else likely / 2
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
        """Add a constant: an initializer, or a node. Without a name, it is numbered."""
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
        """Note what is known of a value, and return it."""
        self.tensors[value] = tensor
        if key is not None:
            self.values[key] = value
        return value


_MORE_OUTPUTS = 0.2
"""How often a node of any number of outputs has one that the pattern does not name."""

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
        """Build from the pattern of ``rule`` with the choices of ``chooser``."""
        self._plan = plan or Plan()
        chooser.plan, self._to = self._plan, [*self._plan.to]
        self._axes = [*self._plan.axes]
        self._pattern = pattern_of(rule)
        self._choose = chooser
        self._alternatives: dict[int, PatternPart] = {}
        chooser.prefer({n.op_type for n in self._pattern})
        chooser.lists, chooser.words = number_lists(rule, int, float), words(rule)
        self._guarded = find_guard_constants(rule)
        self._guide = Guide(hint_of(rule.name), chooser)
        options = [o for o in OPSETS if fits(self._pattern, o)]
        if not options:
            raise CannotInstantiate
        worth = [o for o in options if o >= self._guide.since]
        self._opset = self._plan.opset or int(chooser.pick(worth or options))
        self._draft = TemplateDraft(chooser, self._opset, measures=measures)
        self._attributes: dict[Hashable, Plain] = {}
        # A guard may ask that two nodes of an operator have the same attributes.
        kinds = [operator_in(n) or ("", "") for n in self._pattern]
        pairs = any(kinds.count(k) > 1 and attribute_names(*k, max(OPSETS)) for k in kinds)
        self._alike = self._plan.twins or (pairs and chooser.acts("alike", 1.0))
        self._places = {id(node): place for place, node in enumerate(self._pattern)}
        self._twins: dict[str, PlainDict] = {}
        self._bound: ir.DataType | None = None
        self._further_odds = float(chooser.pick((0.05, 0.3, 0.6)))

    def build(self) -> ir.Model:
        """Return the model, or raise CannotInstantiate or Unsupported."""
        ends = [self._value(output) for output in self._pattern.outputs]
        if not self._draft.inputs and self._draft.by_chance:
            raise Unsupported("every variable became a constant")
        model = self._draft.model(ends)
        count = self._plan.readers
        if not count:
            return model
        return read_often(model, count, inner=self._choose.rng.random() < 0.5)

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
        more = is_variadic(op_type, self._opset) and self._choose.rng.random() < _MORE_OUTPUTS
        self._choose.divided = more
        operands, known = self._operands(pattern, op_type)
        self._choose.divided = False
        self._choose.node = id(pattern)
        attributes = self._attributes_of(pattern, domain, op_type, known)
        dtypes = [None if v is None else v.dtype for v in operands]
        if domain == "" and not admits(op_type, self._opset, dtypes):
            raise Unsupported(f"{op_type} of these element types")
        outputs = len(pattern.outputs) + more
        if more and "num_outputs" in attributes:
            attributes["num_outputs"] = outputs
        node = ir.node(
            op_type, operands, attributes=attributes, num_outputs=outputs, domain=domain
        )
        self._draft.domains.setdefault(domain, 1)
        self._draft.append(node)
        if more and node.outputs[-1] not in self._draft.tensors:
            raise Unsupported(f"{op_type} into fewer parts")  # onnx ends the process on it
        for result, value in zip(pattern.outputs, node.outputs, strict=False):
            self._draft.values[self._key(result)] = value

    def _attributes_of(
        self, pattern: PatternPart, domain: str, op_type: str, known: list[Shape | None]
    ) -> PlainDict:
        """Return the attributes of a node; variables of one name have one value."""
        given: PlainDict = {}
        for name, attribute in pattern.attributes.items():
            fixed = getattr(attribute, "_value", None)
            if fixed is None and attribute.can_match_none and self._choose.rng.random() < 0.4:
                continue
            key = attribute.name or (id(pattern), name)
            if fixed is None and key not in self._attributes:
                self._attributes[key] = self._attribute(op_type, name, known)
            given[name] = self._attributes[key] if fixed is None else fixed
        described = find(domain, op_type, self._opset)
        alone = described is not None and described.one_attribute
        names = attribute_names(domain, op_type, self._opset)
        names = names if pattern.allow_other_attributes else {}
        if op_type in self._twins:
            given = {n: v for n, v in self._twins[op_type].items() if n in names} | given
            names = {}
        for name, required in names.items():
            if alone and any(value is not None for value in given.values()):
                break
            planned = (self._places.get(id(pattern)), name) in self._plan.given
            if self._plan.given and not required and not planned:
                continue
            wanted = required or planned or self._guide.offers(op_type, name)
            wanted = wanted or (described is not None and name in described.wants)
            wanted = wanted or (name == "axis" and bool(self._axes))
            odds = self._further_odds
            if name not in given and (wanted or self._choose.rng.random() < odds):
                given[name] = self._attribute(op_type, name, known)
                for _ in range(_REDRAWS * planned):
                    if not is_default(op_type, name, given[name]):
                        break
                    given[name] = self._attribute(op_type, name, known)
        if self._alike:
            self._twins[op_type] = given
        return {name: value for name, value in given.items() if value is not None}

    def _attribute(self, op_type: str, name: str, known: list[Shape | None]) -> Plain:
        for hinted in self._guide.attribute(op_type, name):
            return hinted
        if name == "to" and self._to:
            return int(self._to.pop())
        if name == "axis" and self._axes:
            return self._axes.pop()
        value = attribute_value(self._choose, op_type, name, known)
        value = self._choose.attribute(name, value)
        of_plan = self._plan.known and isinstance(value, list | tuple)
        return self._plan.known if of_plan and self._choose.rng.random() < KNOWN else value

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
            self._choose.fixed, self._choose.node = fixed, id(pattern)
            self._bound = bound_type(op_type, self._opset, index, operands)
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
                return self._beside(operand)
        self._choose.rank = None
        raise Unsupported(f"{op_type} with an operand of rank {rank}")

    def _beside(self, operand: Operand) -> Operand:
        """Return data of the type that the operands beside it have, if that differs."""
        own, bound = self._choose.dtype, self._bound
        if bound is None or bound == own or operand.dtype != own or operand.ints is not None:
            return operand
        if not self._choose.acts("types beside", 1.0):
            return operand
        # Numbers beside places and sizes are mostly one, but a model has an input.
        if not self._draft.inputs or self._choose.fresh((True, False, False)):
            return replace(operand, dtype=bound)
        return Operand((), bound, constant=True)

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


_TYPES = (
    *(ir.DataType.FLOAT,) * 4,
    *(ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.UINT8),
    *(ir.DataType.DOUBLE, ir.DataType.FLOAT16),
)

_USUAL = (ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.FLOAT)
"""Element types that a plan of ranks is tried with."""

SIZES = (1, 2, 2, 3)
"""Sizes that keep formulas small enough for a proof."""


def instances(
    rule: RewriteRule,
    *,
    limit: int = 24,
    attempts: int = 600,
    seed: int = 0,
    planned: bool = False,
) -> Iterator[ir.Model]:
    """Yield models on which ``rule`` fires.

    At most `limit` models, no two alike in types and shapes, and none with a constant beside
    the number of the pattern. With `planned`, models that enumerate ranks, types and opsets
    come first and do not count.
    """
    rng = np.random.default_rng(seed)
    # The reals, in which is proved, have no overflow.
    numbers = _moderate(literals(rule))
    seen: set[bytes] = set()
    hits, hint = MatchTraces(rng), hint_of(rule.name)
    for _, plan, dtype, draws in _draws(rule, rng, hits, seed) if planned else ():
        # Nothing is proved of empty tensors: the property test runs them.
        tested = plan.near or plan.alike or plan.limits or plan.given
        if tested or 0 in (plan.edge or ()):
            continue
        model = _template(rule, Chooser(draws, dtype, numbers), plan, seen)
        if model is not None:
            edge = plan.edge if plan.ints else draws.edge
            hits.add(hits.kind(dtype, model), tuple(draws.trace), edge)
            yield model
    found = 0
    for attempt in range(attempts):
        if found >= limit:
            return
        # The common type first: most rules are about it, and others may be refused.
        dtype, draws = _TYPES[attempt % len(_TYPES)], RecordedGenerator(rng)
        # Fresh ones first: variations of one template would crowd out the other types.
        if attempt % 2 and hits and attempt > attempts // 4:
            (dtype, *_), draws = hits.pick()
        elif hint is not None and hint.types and attempt % 3:
            dtype = hint.types[attempt % len(hint.types)]
        model = _template(rule, Chooser(draws, dtype, numbers), Plan(), seen)
        if model is not None:
            found += 1
            hits.add(hits.kind(dtype, model), tuple(draws.trace), draws.edge)
            yield model


def _draws(rule: RewriteRule, rng: np.random.Generator, hits: MatchTraces, seed: int) -> Draws:
    """Yield planned draws, and those of forms if the rule fires on no others."""
    yield from planned_draws(rule, rng, hits, _TYPES)
    if not hits:
        yield from formed_draws(rule, seed, hits, _TYPES)


def _template(
    rule: RewriteRule, chooser: Chooser, plan: Plan, seen: set[bytes]
) -> ir.Model | None:
    """Return a model on which the rule fires, unlike those seen; None if the choices fail."""
    chooser.slack, chooser.sizes, chooser.finite = False, SIZES, True
    chooser.constants = 1.0  # fewer of one number would narrow what is proved
    chooser.edge = plan.edge or chooser.rng.edge
    try:
        model = ModelBuilder(rule, chooser, plan).build()
    except (CannotInstantiate, Unsupported, OverflowError):
        return None
    key = ir.to_proto(model).graph.SerializeToString(deterministic=True)
    if key in seen:
        return None
    # A rule may refuse to make an output of an input; behind a further node it need not.
    for candidate in (model, _followed(model)):
        if candidate is not None and fires(rule, candidate) and _runs(candidate):
            seen.add(key)
            return candidate
    return None


def _followed(model: ir.Model) -> ir.Model | None:
    """Return a copy whose outputs are negated, which loses nothing but NaN's sign."""
    copy = model.clone()
    for index, output in enumerate(list(copy.graph.outputs)):
        operator = "Not" if output.dtype == ir.DataType.BOOL else "Neg"
        if operator == "Neg" and (output.dtype is None or not output.dtype.is_signed()):
            return None
        copy.graph.outputs[index] = behind(output, copy.graph, operator)
    return copy


def _runs(model: ir.Model) -> bool:
    replayer = Replayer(model, model)
    feeds = next(samples(replayer.inputs, 1, special=False, seed=0))
    return replayer.runs(feeds) is None


_T = ir.DataType
TYPES = (
    *(_T.FLOAT, _T.FLOAT, _T.INT64, _T.FLOAT, _T.BOOL, _T.FLOAT16, _T.FLOAT, _T.INT32),
    *(_T.DOUBLE, _T.UINT8, _T.FLOAT, _T.BFLOAT16, _T.INT8, _T.UINT32, _T.INT16, _T.UINT64),
    _T.DOUBLE,
    _T.UINT16,
)
"""Element types in the order in which they are tried."""

_SAME_TYPE = 0.85
"""How often a model that is varied keeps its element type."""

_EVERY = 5
"""One model in so many is tried in surroundings."""

_MORE_AXES, _AMPLIFIER = ([n for n, _ in VARIANTS].index(n) for n in (RAISED, AMPLIFIED))

_MOST_DRAWS, _ENOUGH, _UNACTED = 400, 30, 12
"""Models that are drawn for a form, and those that fire or where it did not act to end it."""

_TOGETHER, _MOST_FIRED = 60, 100
"""How often some of the forms that act on a rule do so in one model, and fire at the most."""

_FULL = 6
"""One model in so many has all inputs that the pattern leaves open."""


@dataclass(frozen=True)
class Candidate:
    """A model in which the pattern occurs; whether the rule fires is the rule's to say.

    `kind` is "plain" or the surrounding, such as "inside an If". `ports` are its inputs with
    concrete shapes. With `near`, a constant lies beside a number of the pattern or guard,
    within its tolerance. A `planned` one has enumerated ranks, type or opset. `base` is the
    model without the surrounding.
    """

    kind: str
    model: ir.Model
    base: ir.Model
    ports: tuple[ir.Value, ...]
    dtype: ir.DataType
    near: bool = False
    trace: tuple[Draw, ...] = ()
    edge: Shape | None = None
    planned: bool = False


def _moderate(numbers: list[float]) -> list[float]:
    """Return the numbers whose products are finite in float32, and all integers."""
    return [n for n in numbers if isinstance(n, int) or abs(n) < 1e18]


def probed(numbers: list[float]) -> list[float]:
    """Return the numbers a guard compares with, most often, and those just beside them."""
    beside = [m for n in numbers for m in (n * 0.9, n * 1.1, n - 1.0, n + 1.0)]
    return [*(numbers * 3), *dict.fromkeys(m for m in beside if m not in numbers)]


def candidates(
    rule: RewriteRule,
    *,
    attempts: int,
    seed: int,
    hits: MatchTraces | None = None,
    finite: bool = False,
) -> Iterator[list[Candidate]]:
    """Yield groups of candidates: the pattern alone, then in each of the surroundings.

    A caller that sees none of the first two of a group fire need not look at the others. Of a
    group of two, one that fires is enough: breadth comes before surroundings.

    Every second model varies one of `hits`, which the caller updates with what was drawn where
    the rule fired. With `finite`, no constant is infinite or huge but those of hints.
    """
    rng = np.random.default_rng(seed)
    hits = MatchTraces(rng) if hits is None else hits
    hint = hint_of(rule.name)
    known = literals(rule)
    numbers = probed(_moderate(known) if finite else known)
    opens = choices_of_inputs(rule)
    for number, plan, dtype, draws in planned_draws(rule, rng, hits, TYPES):
        surroundings = [number % len(VARIANTS), _MORE_AXES] if plan.ranks else []
        # Small differences of each type of floats are made large.
        surroundings = [_AMPLIFIER] if plan.dtype else surroundings
        yield _group(rule, Chooser(draws, dtype, numbers, edges=0.25), plan, surroundings)
    types = few_types(rule, TYPES) if hint is None else hint.types
    for attempt in range(attempts):
        dtype, draws = TYPES[attempt // 2 % len(TYPES)], RecordedGenerator(rng)
        if attempt % 2 and hits:
            (drawn, *_), draws = hits.pick()
            dtype = drawn if rng.random() < _SAME_TYPE else dtype
        elif types and rng.random() < _SAME_TYPE / (1 + bool(hits)):
            dtype = types[int(rng.integers(len(types)))]
        chooser = Chooser(draws, dtype, numbers, edges=0.25)
        chooser.edges = 0.6 if attempt % 3 == 0 else 0.25
        # In turn, so that none is missing by chance.
        turn = range(4 * (attempt // _EVERY), 4 * (attempt // _EVERY) + 4)
        order = [k % len(VARIANTS) for k in turn if attempt % _EVERY == 0]
        # What fired with few inputs is varied with all of them as well.
        plan = Plan()
        if opens and attempt % _FULL == 1:
            plan = Plan(full=opens[attempt // _FULL % len(opens)])
        yield [replace(c, planned=False) for c in _group(rule, chooser, plan, order)]


def formed_candidates(
    rule: RewriteRule, *, seed: int, hits: MatchTraces, finite: bool = False
) -> Iterator[list[Candidate]]:
    """Yield groups of candidates that have what authors forget, varying `hits`."""
    known = literals(rule)
    numbers = probed(_moderate(known) if finite else known)
    for _, plan, dtype, draws in formed_draws(rule, seed, hits, TYPES):
        yield _group(rule, Chooser(draws, dtype, numbers, edges=0.25), plan, ())


Draws: TypeAlias = "Iterator[tuple[int, Plan, ir.DataType, RecordedGenerator]]"
"""Plans with their numbers, element types and draws."""


def planned_draws(
    rule: RewriteRule,
    rng: np.random.Generator,
    hits: MatchTraces,
    types: Sequence[ir.DataType],
) -> Draws:
    """Yield each plan with its number, an element type and draws, until the rule fires."""
    for number, plan in enumerate(_plans(rule, types)):
        if not plan.form:
            yield from _draws_of(rule, number, plan, rng, hits, types)


def formed_draws(
    rule: RewriteRule, seed: int, hits: MatchTraces, types: Sequence[ir.DataType]
) -> Draws:
    """Yield the plans of forms: each form has a generator of its own, and its own `hits`."""
    several = Plan(draws=_MOST_DRAWS, enough=_ENOUGH)
    own = [replace(several, form=form, forms=(form,)) for form in FORMS]
    plans = sorted([*_plans(rule, types), *own], key=lambda plan: plan.form)
    acting: list[str] = []
    for form, alike in itertools.groupby(plans, key=lambda plan: plan.form):
        rng = np.random.default_rng([seed, *form.encode()])
        with hits.apart(rng):
            for plan in alike if form else ():
                for each in _draws_of(rule, 0, plan, rng, hits, types):
                    yield each
                    if each[-1].acted and form in FORMS and form not in acting:
                        acting.append(form)
    rng = np.random.default_rng([seed, 24])  # whatever forms there are
    with hits.apart(rng):
        fired = hits.count
        inputs = [(), *choices_of_inputs(rule)]
        for count in range(_TOGETHER * (1 if hits else 4) * (len(acting) > 1)):
            forms = tuple(form for form in acting if rng.random() < 0.7) or (acting[0],)
            full = inputs[count % len(inputs)]
            plan = replace(several, form="together", forms=forms, full=full, draws=_UNACTED)
            yield from _draws_of(rule, 0, plan, rng, hits, types)
            if hits.count - fired > _MOST_FIRED:
                break


def _plans(rule: RewriteRule, types: Sequence[ir.DataType]) -> list[Plan]:
    hint = hint_of(rule.name)
    return plans_of(rule, types, 1 if hint is None else hint.since)


def _must_act(plan: Plan) -> bool:
    return bool(plan.forms and not plan.given)


def _draws_of(
    rule: RewriteRule,
    number: int,
    plan: Plan,
    rng: np.random.Generator,
    hits: MatchTraces,
    types: Sequence[ir.DataType],
) -> Draws:
    hint = hint_of(rule.name)
    few = few_types(rule, types) if hint is None else hint.types
    usual, admitted = types if plan.full else _USUAL, admitted_types(rule, tuple(types))
    kinds = few or (usual if {*usual} & {*admitted} else admitted)
    if plan.form:
        kinds = [t for t in types if t in {*(few or admitted)}]
    before, acted = hits.count, not _must_act(plan)
    for draw in range(plan.draws):
        dtype, draws = plan.dtype or kinds[draw // 2 % len(kinds)], RecordedGenerator(rng)
        if draw % 2 and hits:
            (drawn, *_), draws = hits.pick()
            dtype = plan.dtype or drawn
        yield number, plan, dtype, draws
        acted |= draws.acted
        if hits.count - before >= plan.enough or draw > _UNACTED * (1 + plan.draws * acted):
            break


def _group(
    rule: RewriteRule, chooser: Chooser, plan: Plan, surroundings: Sequence[int]
) -> list[Candidate]:
    """Return a model and itself in surroundings; nothing if the choices make none."""
    chooser.edge, chooser.keen = plan.edge or chooser.rng.edge, plan.near
    try:
        model = ModelBuilder(rule, chooser, plan, measures=True).build()
        if _must_act(plan) and not chooser.rng.acted:
            return []  # as without the form
        behind = followed(model)
    except (CannotInstantiate, Unsupported, OverflowError, InferenceError):
        return []
    if chooser.near:
        # What is within a tolerance of another number shows behind an amplifier, at zero.
        surroundings = (_AMPLIFIER, *surroundings[:1])
    return _surrounded(model, behind, chooser, plan, surroundings)


def _surrounded(
    model: ir.Model,
    behind: ir.Model,
    chooser: Chooser,
    plan: Plan,
    surroundings: Sequence[int],
) -> list[Candidate]:
    group = [("plain", model), ("behind a further node", behind)]
    for base, chosen in ((model, surroundings[:2]), (behind, surroundings[2:4])):
        for index in chosen:
            kind, variant = VARIANTS[int(index)]
            made = variant(base)
            if made is not None:
                group.append((kind, made))
    trace, dtype = tuple(chooser.rng.trace), chooser.dtype
    planned, edge = plan != Plan(), plan.edge if plan.ints else chooser.rng.edge
    return [
        Candidate(
            kind, made, model, _ports(model, made), dtype, chooser.near, trace, edge, planned
        )
        for kind, made in group
    ]


_TRIES = 40
"""Models that are tried with another value of an attribute."""


def attribute_variants(
    rule: RewriteRule,
    key: str,
    bases: Sequence[Candidate],
    seed: int,
    among: Sequence[int] = (),
) -> Iterator[tuple[Candidate, list[Candidate]]]:
    """Yield bases, and candidates that have another value of an attribute and are else alike.

    All nodes of the operator have it, or one of several. `key` is ``operator.name``. The
    values are those ``among`` which to choose, if there are any.
    """
    op_type, _, name = key.partition(".")
    draws = RecordedGenerator(np.random.default_rng([seed, *key.encode()]))
    for number in draws.permutation(len(bases))[:_TRIES]:
        base: Candidate = bases[number]
        chooser = Chooser(draws, base.dtype, literals(rule))
        chooser.plan = Plan(forms=("further values", "windows of all"))
        nodes = {k: n for k, n in enumerate(base.base.graph) if n.op_type == op_type}
        for places in [[*nodes], *([k] for k in nodes if len(nodes) > 1)]:
            node = nodes[places[0]]
            shapes = [None if v is None else v.shape for v in node.inputs]
            known = [None if s is None else tuple(s.numpy()) for s in shapes]
            for _ in range(_REDRAWS):
                value = attribute_value(chooser, op_type, name, known)
                value = chooser.pick(among) if among else value
                if key == "Conv.group" and known[0] is not None:
                    value = chooser.pick([g for g in range(1, 5) if known[0][1] % g == 0])
                made = with_attribute(base.base, places, name, value)
                if made and effective_value([*made.graph][places[0]], name) != (
                    effective_value(node, name)
                ):
                    plan = Plan(given=((places[0], name),))
                    yield base, _surrounded(made, followed(made), chooser, plan, ())
                    break


def _ports(model: ir.Model, made: ir.Model) -> tuple[ir.Value, ...]:
    """Return the inputs of a model in a surrounding, with concrete shapes."""
    known = {value.name: value for value in model.graph.inputs}
    return tuple(known.get(value.name, value) for value in made.graph.inputs)
