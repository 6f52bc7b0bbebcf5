"""What patterns of rules match: their operators, nodes by operator, and why a match failed.

The driver asks for the operators that a pattern begins at, and finds nodes by them. A user may
ask why a rule did not match at a node.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import onnx
import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir
from onnxscript.rewriter._basics import MatchingTracer, MatchStatus
from onnxscript.rewriter.pattern import RewriteRule

from onnx_passes.model.walk import TensorAttr, subgraphs_of

Container = ir.Graph | ir.Function
Operator = tuple[str, str]
"""Domain and type of an operator."""


@dataclass
class NodeIndex:
    """The nodes of a model in order, those of subgraphs behind those of the graph around them.

    It holds only as long as no node is added or removed. ``places`` are positions among the
    nodes.
    """

    model: ir.Model
    nodes: list[tuple[Container, ir.Node]] = field(default_factory=list)
    places: dict[Operator, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ir.Model) -> NodeIndex:
        """Walk over a model, and note what its Constant nodes hold."""
        index = cls(model)
        nodes, places = index.nodes, index.places
        pending: list[Container] = [*reversed(model.functions.values())]
        pending.append(model.graph)
        while pending:
            container, nested = pending.pop(), list[Container]()
            for node in container:
                place = places.setdefault((node.domain, node.op_type), [])
                place.append(len(nodes))
                nodes.append((container, node))
                nested.extend(subgraphs_of(node))
            pending.extend(reversed(nested))
        note_constants(nodes[i][1] for i in places.get(("", "Constant"), ()))
        return index

    def rooted(self, operators: Collection[Operator]) -> Iterator[tuple[Container, ir.Node]]:
        """Yield the nodes of some operators, in order."""
        found = [self.places[o] for o in operators if o in self.places]
        for place in found[0] if len(found) == 1 else heapq.merge(*found):
            yield self.nodes[place]


def note_constants(nodes: Iterable[ir.Node]) -> None:
    """Fill in ``const_value``, from which patterns read constants, for Constant nodes.

    Types and shapes stay as they are: those of a graph output are its user's.
    """
    for node in nodes:
        if node.op_type == "Constant" and node.domain == "" and len(node.attributes) == 1:
            (attribute,) = node.attributes.values()
            if not attribute.is_ref() and attribute.name != "sparse_value":
                (value,) = node.outputs
                value.const_value = ir.convenience.get_const_tensor(value)


def keep_tensors(nodes: Iterable[ir.Node]) -> None:
    """Let Constant nodes hold their tensors so that these are looked at fast."""
    for node in (node for node in nodes if node.op_type == "Constant"):
        held = node.attributes.get("value")
        if held is not None and held.type is ir.AttributeType.TENSOR and not held.is_ref():
            kept = TensorAttr("value", held.type, held.value, doc_string=held.doc_string)
            node.attributes["value"] = kept


@dataclass(frozen=True, eq=False)
class OperandNeed:
    """What an operand of a node must be for a pattern to match there.

    ``index`` is its position among the node's inputs. ``operator`` computes it, None for a
    constant, as its ``output`` with that number. ``shape`` is the constant's; None for any.
    With ``choices`` only these count.
    """

    index: int
    operator: tuple[str, str] | None = None
    output: int = 0
    operands: tuple[OperandNeed, ...] = ()
    shape: tuple[int, ...] | None = None
    choices: tuple[OperandNeed, ...] = ()

    def fits(self, node: ir.Node) -> bool:
        """Whether the operand of ``node`` is such a one."""
        if self.choices:
            return any(choice.fits(node) for choice in self.choices)
        inputs = node.inputs
        value = inputs[self.index] if self.index < len(inputs) else None
        if value is None:
            return False
        if self.operator is None:
            tensor = value.const_value
            return tensor is not None and (
                self.shape is None or tuple(tensor.shape) == self.shape
            )
        producer = value.producer()
        return (
            producer is not None
            and self._is_computed_by(value)
            and all(operand.fits(producer) for operand in self.operands)
        )

    def lacks(self, node: ir.Node, depth: int = 1) -> tuple[str, int]:
        """Say what keeps the operand of ``node`` from fitting, and how far up that is."""
        value = node.inputs[self.index] if self.index < len(node.inputs) else None
        producer = None if value is None else value.producer()
        for choice in self._chosen():
            if value is not None and producer is not None and choice._is_computed_by(value):
                for operand in choice.operands:
                    if not operand.fits(producer):
                        return operand.lacks(producer, depth + 1)
        found = "left out" if value is None else "an input"
        if producer is not None:
            found = f"computed by {producer.op_type}"
        if value is not None and value.const_value is not None:
            found = f"a constant of shape {list(value.const_value.shape)}"
        where = f"input {self.index} of {node.op_type}"
        return f"{where} is {found}, and the pattern has {self} there", depth

    def __str__(self) -> str:
        """Say what it asks for."""
        wanted = (n.operator[1] if n.operator else "a constant" for n in self._chosen())
        return " or ".join(dict.fromkeys(wanted))

    def _chosen(self) -> Sequence[OperandNeed]:
        return [need for c in self.choices for need in c._chosen()] or [self]

    def _is_computed_by(self, value: ir.Value) -> bool:
        node = value.producer()
        operator = None if node is None else (node.domain, node.op_type)
        return operator == self.operator and value.index() == self.output

    @cached_property
    def needed(self) -> frozenset[tuple[str, str]]:
        """Domains and operators without which nothing fits."""
        if self.choices:
            return frozenset.intersection(*(choice.needed for choice in self.choices))
        own = frozenset() if self.operator is None else frozenset((self.operator,))
        return own.union(*(operand.needed for operand in self.operands))


@dataclass(frozen=True, eq=False)
class PatternInfo:
    """A rule and the shape of its pattern.

    Matches begin at ``root``; None for any. ``depth`` counts nodes on the longest path,
    ``size`` all of them, alternatives included. ``operands`` is empty where the root asks
    nothing of them.
    """

    rule: RewriteRule
    root: tuple[str, str] | None
    depth: int
    size: int
    operands: tuple[OperandNeed, ...] = ()

    def can_match(self, node: ir.Node) -> bool:
        """Whether a match at ``node`` is not ruled out by the operators above it.

        Nearly every node fails at its first operand, and this costs a hundredth of trying.
        Numbers that a pattern names are scalars, which most constants of models are not.
        """
        return all(operand.fits(node) for operand in self.operands)

    @cached_property
    def needed(self) -> frozenset[tuple[str, str]]:
        """Domains and operators without which a model has no match."""
        own = frozenset() if self.root is None else frozenset((self.root,))
        return own.union(*(operand.needed for operand in self.operands))

    @classmethod
    def of(cls, rule: RewriteRule) -> PatternInfo:
        """Measure the pattern of ``rule``."""
        # onnxscript has no public accessor for a rule's pattern.
        pattern: Any = rule._target_pattern
        roots = (
            [pattern.output_node] if pattern.has_single_output_node else pattern.output_nodes
        )
        depths: dict[int, int] = {}
        depth = max((_depth(node, depths) for node in roots), default=0)
        # Several outputs: one root may lie downstream of the other by a path of any length.
        size = max(len(depths), depth)
        return cls(rule, _operator(roots[0]), depth, size, _operands(roots[0], {}))


def _operands(
    pattern: Any, known: dict[int, tuple[OperandNeed, ...]]
) -> tuple[OperandNeed, ...]:
    """Say what a node pattern asks of its operands; variables ask nothing.

    ``known`` is by identity, because alternatives share patterns.
    """
    if id(pattern) not in known:
        pairs = enumerate(pattern.inputs)
        found = [_operand(index, value, known) for index, value in pairs]
        known[id(pattern)] = tuple(operand for operand in found if operand is not None)
    return known[id(pattern)]


def _operand(
    index: int, value: object, known: dict[int, tuple[OperandNeed, ...]]
) -> OperandNeed | None:
    if isinstance(value, _pattern_ir.Constant):
        number = value.value
        return OperandNeed(index, shape=(len(number),) if isinstance(number, list) else ())
    if isinstance(value, _pattern_ir.BacktrackingOr | _pattern_ir.OpIdDispatchOr):
        alternatives = (
            value._values
            if isinstance(value, _pattern_ir.BacktrackingOr)
            else [choice for _, choice in value._op_to_pattern.values()]
        )
        choices = [_operand(index, choice, known) for choice in alternatives]
        if None in choices:
            return None
        return OperandNeed(index, choices=tuple(c for c in choices if c is not None))
    if not isinstance(value, _pattern_ir.NodeOutputPattern):
        return None
    producer = value.producer()
    operator = _operator(producer)
    if operator is None:
        return None
    below = _operands(producer, known)
    return OperandNeed(index, operator, value.output_index, below)


def _operator(pattern: Any) -> tuple[str, str] | None:
    """Return domain and operator of a node pattern; None where it matches several."""
    # Swapping operands makes patterns that do not know their operator, but how to match it.
    parts = (pattern.domain, pattern.op)
    if all(isinstance(part, _pattern_ir.StringConstantPattern) for part in parts):
        return pattern.domain.value(), pattern.op.value()
    return None


def _depth(node: Any, depths: dict[int, int]) -> int:
    if id(node) not in depths:
        depths[id(node)] = 0  # patterns are acyclic; this only marks the visit
        below = (_depth(p, depths) for value in node.inputs for p in _producers(value))
        depths[id(node)] = 1 + max(below, default=0)
    return depths[id(node)]


def _producers(value: Any) -> Iterable[Any]:
    if value is None:
        return
    alternatives = getattr(value, "_values", None)  # an Or pattern
    if alternatives is not None:
        for alternative in alternatives:
            yield from _producers(alternative)
    elif value.producer() is not None:
        yield value.producer()


def rule_name(rule: RewriteRule) -> str:
    """Return the rule's name, or that of the function it rewrites with."""
    function = getattr(rule._replacement_pattern, "_function", None)
    return rule.name or getattr(function, "__qualname__", None) or "anonymous-rule"


def shorten(text: str, width: int = 60) -> str:
    """Return ``text``, its middle left out where it is wider than ``width``."""
    half = (width - 3) // 2
    return text if len(text) <= width else f"{text[:half]}...{text[-half:]}"


def describe(node: ir.Node) -> str:
    """Show a node on one line: ``y = Clip(x, lo, hi)``, attributes in braces."""

    def names(values: Iterable[ir.Value | None]) -> str:
        return ", ".join("" if v is None else shorten(str(v.name)) for v in values)

    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    attributes = ", ".join(_attribute(a) for a in node.attributes.values())
    braces = f" {{{attributes}}}" if attributes else ""
    return f"{names(node.outputs)} = {operator}({names(node.inputs)}){braces}"


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"{attribute.name}=@{attribute.ref_attr_name}"
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return f"{attribute.name}=<graph>"
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.value  # not as_tensor(), which takes 50 us
        if tensor.size == 1 and tensor.dtype is not ir.DataType.STRING:
            return f"{attribute.name}={tensor.numpy().item()}"
        return f"{attribute.name}=<{tensor.dtype.name.lower()}{list(tensor.shape)}>"
    text = str(attribute.value)
    return f"{attribute.name}={shorten(text, 40)}"


OLDEST = 7
"""The first opset whose operators rules know: attributes said how to broadcast before."""


def has_other_version(nodes: Iterable[ir.Node], opset: int | None) -> bool:
    """Whether an early opset has an operator in another version than rules know.

    A model that imports no opset has None.
    """
    if opset is None or opset >= OLDEST:
        return False
    names = {node.op_type for node in nodes if not node.domain}
    return any(_version_of(name, opset) != _version_of(name, OLDEST) for name in names)


@cache
def _version_of(op_type: str, opset: int) -> int:
    """Return the version that an opset has of an operator; 0 for none."""
    try:
        return int(onnx.defs.get_schema(op_type, opset).since_version)
    except onnx.defs.SchemaError:
        return 0


MISMATCH = "the pattern does not match"
_STAGES = {
    MatchStatus.NO_MATCH: MISMATCH,
    MatchStatus.CONDITION_FAILED: "its check refuses",
    MatchStatus.REPLACEMENT_FAILED: "its rewrite refuses",
}
NO_REASON = "its check refuses"
_SAYS_NOTHING = ("Condition function check failed", "OrValue pattern", "alternatives matched")
"""What onnxscript has in place of a reason."""
_SHOWN = 6
_MATCHED = 1000
"""Depth of a pattern that matched, and whose check or rewrite refuses."""
REFUSED = "the driver does not apply it: it is skipped, changes nothing or makes a cycle"


@dataclass
class WhyNot:
    """A question about a rule, and what the driver found.

    ``rule`` may be a pass, for all of its rules, and ``node`` the name of one of its outputs;
    None for every node. ``found`` has reasons by node and rule, with the depth to which the
    pattern matched.
    """

    rule: str
    node: str | None = None
    found: dict[str, dict[str, tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    @staticmethod
    def of(text: str) -> WhyNot:
        """Read ``RULE[@NODE]``."""
        rule, _, node = text.partition("@")
        return WhyNot(rule, node or None)

    def asks(self, rule: str, node: ir.Node) -> bool:
        """Whether the question is about a rule at a node."""
        names = {node.name, *(value.name for value in node.outputs)}
        about_node = self.node is None or self.node in names
        return about_node and self.rule in (rule, rule.partition("[")[0])

    def note(self, rule: str, node: ir.Node, reason: str, depth: int) -> None:
        """Keep why a rule did not match, unless it matched further in another order."""
        known = self.found[describe(node)]
        if depth >= known.get(rule, ("", 0))[1]:
            known[rule] = reason, depth

    def forget(self, rule: str, node: ir.Node) -> None:
        """Forget what was noted of a rule at a node, which is tried again or has matched."""
        self.found[describe(node)].pop(rule, None)

    def lines(self) -> Iterator[str]:
        """Yield a line for each rule and reason, those that came closest to a match first."""
        places: dict[tuple[str, str], list[str]] = defaultdict(list)
        depths: dict[tuple[str, str], int] = {}
        for node, rules in self.found.items():
            deepest = max((depth for _, depth in rules.values()), default=0)
            for rule, (reason, depth) in rules.items():
                if depth == deepest or self.node is not None:
                    places[rule, reason].append(node)
                    depths[rule, reason] = depth
        order = sorted(places, key=lambda key: (-depths[key], len(places[key])))
        for rule, reason in order[:_SHOWN]:
            found = places[rule, reason]
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            yield f"{rule}: {reason}, at {found[0]}{more}"
        if order[_SHOWN:]:
            left = len({node for key in order[_SHOWN:] for node in places[key]})
            yield f"{left} nodes are further from a match: {self.rule}@NODE asks about one"


_ASKED: ContextVar[WhyNot | None] = ContextVar("asked", default=None)


@contextmanager
def asking(question: WhyNot | None) -> Iterator[None]:
    """Let drivers note what a question is about, as long as this context is open."""
    token = _ASKED.set(question)
    try:
        yield
    finally:
        _ASKED.reset(token)


def is_asking() -> bool:
    """Whether there is a question about any rule."""
    return _ASKED.get() is not None


def question_of(rule: str, node: ir.Node) -> WhyNot | None:
    """Return the question that is about a rule at a node, if there is one."""
    asked = _ASKED.get()
    return asked if asked is not None and asked.asks(rule, node) else None


def reason_of(
    tracer: MatchingTracer,
    rule: RewriteRule,
    model: ir.Model,
    container: Container,
    node: ir.Node,
) -> tuple[str, int]:
    """Return the reason that a trace of one match attempt holds, with its depth."""
    attempts = tracer.best_matches_map.get(rule, [])
    if not attempts:
        return MISMATCH, 1
    attempt = attempts[0]
    if attempt.status == MatchStatus.SUCCESS:
        return REFUSED, _MATCHED
    mismatch = attempt.status == MatchStatus.NO_MATCH
    result = attempt.match_result
    depth = len(result.nodes) if mismatch else _MATCHED
    if not result.reason or any(text in result.reason for text in _SAYS_NOTHING):
        if mismatch:
            return MISMATCH, depth
        return _too_old(rule, model, container, node) or NO_REASON, depth
    return f"{_STAGES[attempt.status]}: {result.reason}", depth


def _too_old(
    rule: RewriteRule, model: ir.Model, container: Container, node: ir.Node
) -> str | None:
    """Say which opset a rule needs to match at a node; None if it is not the opset."""
    graph = container if isinstance(container, ir.Function) else model.graph
    imports, given = graph.opset_imports, graph.opset_imports.get("", 1)
    try:
        for version in range(given + 1, onnx.defs.onnx_opset_version() + 1):
            imports[""] = version
            if rule.match(model, container, node):
                return f"it needs opset {version}, and the model has {given}"
    finally:
        imports[""] = given
    return None
