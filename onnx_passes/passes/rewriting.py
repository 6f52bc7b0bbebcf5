"""Passes given by patterns and their replacements, and the driver that applies them.

The driver is greedy, uses a worklist, and records every application. While rules run, it hides
annotations that a call of the model may contradict.
"""

import abc
import functools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter._basics import MatchContext, MatchingTracer
from onnxscript.rewriter.pattern import MatchResult, RewriteRule

from onnx_passes.errors import FixpointError, PassError
from onnx_passes.model.walk import graphs_within
from onnx_passes.optional import users_line
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.context import Application, Rewrites
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.kinds import Pass, is_shipped
from onnx_passes.passes.patterns import (
    Container,
    NodeIndex,
    Operator,
    PatternInfo,
    describe,
    has_other_version,
    is_asking,
    keep_tensors,
    note_constants,
    question_of,
    reason_of,
    rule_name,
)
from onnx_passes.passes.replace import (
    Namer,
    annotate_constants,
    creates_cycle,
    is_annotated,
    replace,
    restores_itself,
)


@contextmanager
def overridable_hidden(model: ir.Model) -> Iterator[None]:
    """Hide the values of initializers that are also inputs: the caller may override them."""
    hidden = [
        (value, value.const_value)
        for value in model.graph.inputs
        if value.const_value is not None
    ]
    for value, _ in hidden:
        value.const_value = None
    try:
        yield
    finally:
        for value, tensor in hidden:
            value.const_value = tensor


@contextmanager
def types_of_functions_hidden(model: ir.Model) -> Iterator[None]:
    """Hide types and shapes noted in functions: those of one call are not those of another."""
    hidden = [
        (value, value.type, value.shape)
        for function in model.functions.values()
        for graph in graphs_within(function.graph)
        for node in graph
        for value in node.outputs
        if value.type is not None or value.shape is not None
    ]
    for value, _, _ in hidden:
        value.type = value.shape = None
    try:
        yield
    finally:
        for value, type_, shape in hidden:
            value.type, value.shape = type_, shape


APPLICATIONS_PER_NODE = 100
FREE_APPLICATIONS = 1000


def rewrite(
    model: ir.Model,
    rules: Sequence[RewriteRule | PatternInfo],
    rewrites: Rewrites | None = None,
    index: NodeIndex | None = None,
) -> list[Application]:
    """Apply ``rules`` wherever they match, until none does.

    Looks into subgraphs and functions. In functions, nodes whose attributes refer to
    attributes of the function are skipped: a rule cannot read them. At each node rules are
    tried in order. ``index`` holds for the model as it is. Raises FixpointError, which names
    the rule, if rules keep matching their own output, and PassError if a rule raises.
    """
    driver = _Driver(model, rules, rewrites or Rewrites(), index or NodeIndex.of(model))
    with overridable_hidden(model), types_of_functions_hidden(model):
        driver.run()
    return driver.applied


class _Driver:
    def __init__(
        self,
        model: ir.Model,
        rules: Sequence[RewriteRule | PatternInfo],
        rewrites: Rewrites,
        index: NodeIndex,
    ) -> None:
        self.model = model
        self.index = index
        self.rewrites = rewrites
        self.applied: list[Application] = []
        self.patterns = [
            rule if isinstance(rule, PatternInfo) else PatternInfo.of(rule) for rule in rules
        ]
        self.by_root: dict[tuple[str, str] | None, list[PatternInfo]] = {}
        for info in self.patterns:
            self.by_root.setdefault(info.root, []).append(info)
        self.order = {id(info): i for i, info in enumerate(self.patterns)}
        self.reach = max((info.depth for info in self.patterns), default=0)
        self.widest = max((info.size for info in self.patterns), default=0)
        self.queue: deque[tuple[Container, ir.Node]] = deque()
        self.queued: set[ir.Node] = set()
        self.counts: Counter[str] = Counter()
        self.present: set[Operator] = set()
        self.possible: dict[Operator, list[PatternInfo]] = {}
        self.asked = is_asking()
        self.opset = model.graph.opset_imports.get("")
        self.scratch = Scratch(model)

    @cached_property
    def namer(self) -> Namer:
        """Knows all names; few passes come to need one."""
        return Namer(self.model)

    def run(self) -> None:
        for rule in self.patterns:
            if rule.rule.graph_pre_visitor is not None:
                rule.rule.graph_pre_visitor()
        nodes = self.enqueue_all()
        limit = FREE_APPLICATIONS + APPLICATIONS_PER_NODE * nodes
        while self.queue and not self.rewrites.exhausted:
            container, node = self.queue.popleft()
            self.queued.discard(node)
            if node.graph is not None:  # else removed since it was queued
                self.visit(container, node)
            if len(self.applied) > limit:
                self.give_up()
        for rule in self.patterns:
            if rule.rule.graph_post_visitor is not None:
                rule.rule.graph_post_visitor()

    def enqueue_all(self) -> int:
        """Queue nodes that a rule may match at, and return the number of all nodes."""
        index = self.index
        self.note_operators(index.places)
        if not any(map(self.may_occur, self.patterns)):
            return len(index.nodes)
        roots = {root for root in self.by_root if root is not None}
        self.queue.extend(index.nodes if None in self.by_root else index.rooted(roots))
        self.queued.update(node for _, node in self.queue)
        return len(index.nodes)

    def may_occur(self, info: PatternInfo) -> bool:
        """Whether the model has the operators of a pattern, or a user asks why it fails."""
        return self.asked or info.rule.as_function or info.needed <= self.present

    def note_operators(self, operators: Iterable[Operator]) -> None:
        """Note operators of the model: patterns that lacked them may match from now on."""
        new = {*operators} - self.present
        if new:
            self.present |= new
            self.possible.clear()

    def enqueue(self, container: Container, node: ir.Node) -> None:
        if node not in self.queued and self.candidates(node):
            self.queued.add(node)
            self.queue.append((container, node))

    def candidates(self, node: ir.Node) -> list[PatternInfo]:
        rooted = self.by_root.get((node.domain, node.op_type), [])
        anywhere = self.by_root.get(None, [])
        if not anywhere:
            return rooted
        return sorted((*rooted, *anywhere), key=lambda info: self.order[id(info)])

    def visit(self, container: Container, node: ir.Node) -> None:
        operator = (node.domain, node.op_type)
        possible = self.possible.get(operator)
        if possible is None:
            possible = [info for info in self.candidates(node) if self.may_occur(info)]
            self.possible[operator] = possible
        for info in possible if self.asked else ():
            name = rule_name(info.rule)
            if question := question_of(name, node):
                question.forget(name, node)
        for info in possible:
            if not info.rule.as_function and not self.may_match(info, node):
                continue
            if self.model.functions and _reads_function_attributes(node, info.depth):
                continue
            if has_other_version(_near(node, info.depth), self.opset):
                continue
            if self.try_apply(info.rule, container, node):
                return

    def may_match(self, info: PatternInfo, node: ir.Node) -> bool:
        """Whether it takes the pattern itself to see that a rule does not match."""
        if info.can_match(node):
            return True
        name = rule_name(info.rule)
        if self.asked and (question := question_of(name, node)):
            wrong = next(operand for operand in info.operands if not operand.fits(node))
            question.note(name, node, *wrong.lacks(node))
        return False

    def try_apply(self, rule: RewriteRule, container: Container, node: ir.Node) -> bool:
        name = rule_name(rule)
        if rule.as_function:
            raise PassError(
                f"rule {name!r} extracts a function (as_function), which this driver does not",
                help="write the function call in its rewrite",
            )
        question = question_of(name, node)
        tracer = None if question is None else MatchingTracer()
        try:
            delta = rule.try_rewrite(self.model, container, node, verbose=0, tracer=tracer)
        except PassError:
            raise
        except Exception as error:
            raise PassError(
                f"rule {name!r} raised {type(error).__name__}: {error}{users_line(error)}",
                where=f"  --> at {describe(node)}",
                help="a rule says no by returning a failed MatchResult, not by raising",
            ) from error
        if question is not None and tracer is not None:
            question.note(name, node, *reason_of(tracer, rule, self.model, container, node))
        if delta is None:
            return False
        old, new = list(delta.match.outputs), list(delta.new_outputs)
        if len(old) < len(new):
            return False  # onnxscript matches a node with fewer outputs than the pattern
        key = f"{name}@{','.join(str(value.name) for value in old)}"
        if all(a is b for a, b in zip(old, new, strict=True)) or not self.rewrites.admits(key):
            return False
        if has_other_version(delta.new_nodes, self.opset):
            return False
        matched = list(delta.match.nodes)
        # A pattern with two outputs may match one node twice; that is not a pair to fuse.
        if len({*old}) < len(old) or restores_itself(matched, old, new):
            return False
        if len(old) > 1 and creates_cycle(container, matched, old, delta.new_nodes):
            return False
        if question is not None:
            question.forget(name, node)
        keep_tensors(delta.new_nodes)
        self.scratch.keep_constants(delta.new_nodes)
        texts = tuple(describe(n) for n in matched)
        names = [str(value.name) for value in old]
        touched = replace(container, node, delta, self.namer)
        note_constants(delta.new_nodes)
        annotate_constants(delta.new_nodes)
        self.note_operators((new.domain, new.op_type) for new in touched.nodes)
        record = Application(
            number=len(self.rewrites.applied) + 1,
            rule=name,
            key=key,
            nodes=texts,
            replaced=tuple(zip(names, (str(v.name) for v in touched.outputs), strict=True)),
            new_nodes=tuple(describe(n) for n in delta.new_nodes),
            outermost=container is self.model.graph,
            annotated=all(map(is_annotated, delta.new_nodes)),
        )
        self.rewrites.applied.append(record)
        self.applied.append(record)
        self.counts[name] += 1
        self.look_again(container, touched.nodes, touched.values)
        return True

    def look_again(
        self, container: Container, nodes: Iterable[ir.Node], values: Iterable[ir.Value]
    ) -> None:
        """Queue the nodes from which a pattern can reach what was touched."""
        fringe = [*nodes]
        for value in values:
            producer = value.producer()
            if producer is not None:
                fringe.append(producer)
            # A reader's match can only hinge on the others while these are few.
            if len(value.uses()) <= self.widest:
                fringe.extend(value.consumers())
        seen: set[ir.Node] = set()
        for _ in range(self.reach + 1):
            fringe = [
                n for n in dict.fromkeys(fringe) if n not in seen and n.graph is not None
            ]
            seen.update(fringe)
            for node in fringe:
                if node.graph is not None:
                    self.enqueue(_container_of(container, node.graph), node)
            fringe = [
                user for node in fringe for out in node.outputs for user in out.consumers()
            ]

    def give_up(self) -> None:
        name, count = self.counts.most_common(1)[0]
        last = self.applied[-1]
        raise FixpointError(
            f"rule {name!r} matches again and again: {count} applications, "
            f"{len(self.applied)} in all",
            where=f"  --> last: {' + '.join(last.nodes)} => {' + '.join(last.new_nodes)}",
            help="make its check refuse what its rewrite produces",
        )


def _container_of(container: Container, graph: ir.Graph) -> Container:
    """Return the function where ``graph`` is a function's own, else the graph."""
    if isinstance(container, ir.Function) and container.graph is graph:
        return container
    return graph


def _reads_function_attributes(root: ir.Node, depth: int) -> bool:
    return any(a.is_ref() for node in _near(root, depth) for a in node.attributes.values())


def _near(root: ir.Node, depth: int) -> Iterator[ir.Node]:
    """Yield a node and those that compute what it reads, as far as a pattern reaches."""
    fringe: list[ir.Node] = [root]
    for _ in range(max(depth, 1)):
        yield from fringe
        fringe = [p for n in fringe for v in n.inputs if v is not None and (p := v.producer())]


# onnxscript resolves operators and pattern variables by attribute, which no type checker sees.
Op: TypeAlias = Any
Var: TypeAlias = Any
Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Rule:
    """One rewrite of a pass, as ``RewriteRuleSetPass.rules`` yields it.

    The functions are those of onnxscript's rewriter, without ``self``; parameters of the check
    and of the rewrite are bound by name.

    Attributes:
        pattern: Builds the subgraph to find.
        rewrite: Builds the subgraph to put in its place.
        check: Accepts a match, or fails with the reason; None to accept each.
        name: What reports, ``--why-not`` and hints call it, behind the name of the pass;
            empty for its number.
    """

    pattern: Callable[..., object]
    rewrite: Callable[..., object]
    check: Callable[..., MatchResult | bool] | None = None
    name: str = ""


class Rewriting(Pass):
    """What the two kinds of rewrite pass share: rules, and the driver that applies them."""

    commute: ClassVar[bool] = False
    """Also match with the operands of Add and Mul swapped."""
    exclusive: ClassVar[bool] = False
    """Match only where no inner value has a reader outside of the match."""
    hints: ClassVar[Hints] = MappingProxyType({})
    """What operands rules need, by their names, for ``certify``; of ``*`` all other rules."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "rules" in vars(cls):
            setattr(cls, "rules", _as_rewrite_rules(cls.rules))  # noqa: B010 - for mypy

    @abc.abstractmethod
    def rules(self) -> Iterable[Rule | RewriteRule]:
        """Return the rules, in the order in which they are tried at a node.

        Each :class:`Rule` becomes one of onnxscript, and more if operands commute.
        """

    def rewrite_rules(self) -> list[RewriteRule]:
        """Return what :meth:`rules` became: rules of onnxscript."""
        return [rule for rule in self.rules() if not isinstance(rule, Rule)]

    def patterns(self) -> list[PatternInfo]:
        """Return the rules with what the driver has to know of them.

        To build them takes longer than to match them on a small model. Those of a pass that
        depend on its options alone are built once for all its turns in a run.
        """
        cls, known = type(self), self.context.rules
        # The methods too: a test may put another rule in.
        methods = [
            getattr(cls, name, None) for name in ("rules", "pattern", "rewrite", "check")
        ]
        key = (cls, *methods, repr(sorted(self.options.items())))
        found = known.get(key)
        if found is None:
            found = [PatternInfo.of(rule) for rule in self.rewrite_rules()]
            if self.repeats_itself and cls.call is Rewriting.call:
                known[key] = found
        return found

    @property
    def keeps_shapes(self) -> bool:
        """A rule replaces values that it matches, and changes no others."""
        return super().keeps_shapes or only_rewrites(self)

    def operator_sets(self) -> frozenset[frozenset[Operator]]:
        """Return what rules need: all operators of a set, each rule those of one."""
        alone = type(self).call is Rewriting.call  # else it may do more where its rules begin
        found = {
            info.needed if alone and not info.rule.as_function else frozenset({info.root})
            for info in self.patterns()
        }
        known = {frozenset(o for o in one if o is not None) for one in found}
        return frozenset(one for one in known if not any(other < one for other in known))

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules until none matches."""
        rewrites = self.context.rewrites
        index, rewrites.index = rewrites.index, None
        # A pass with a call of its own may have changed the model before this one.
        if index is None or index.model is not model or type(self).call is not Rewriting.call:
            index = NodeIndex.of(model)
        applied = rewrite(model, self.patterns(), rewrites, index)
        rewrites.index = None if applied else index
        return ir.passes.PassResult(model, modified=bool(applied))

    def _made(self, rule: Rule, name: str) -> list[RewriteRule]:
        found = RewriteRule(
            rule.pattern,
            rule.rewrite,
            rule.check or _accept,
            name=name,
            remove_nodes=self.exclusive,
        )
        return list(found.commute()) if self.commute else [found]


def only_rewrites(pass_: Pass) -> bool:
    """Whether a pass of the library does nothing but apply its rules."""
    cls = type(pass_)
    return is_shipped(cls) and issubclass(cls, Rewriting) and cls.call is Rewriting.call


def _accept(*_: object, **__: object) -> bool:
    return True


def _as_rewrite_rules(
    rules: Callable[[Any], Iterable[Rule | RewriteRule]],
) -> Callable[[Any], list[RewriteRule]]:
    """Return a method that gives rules of onnxscript, whichever kind ``rules`` gives."""

    @functools.wraps(rules)
    def made(self: Rewriting) -> list[RewriteRule]:
        found: list[RewriteRule] = []
        for number, rule in enumerate(rules(self)):
            if isinstance(rule, Rule):
                found += self._made(rule, f"{self.name}[{rule.name or number}]")
            else:
                found.append(rule)
        return found

    return made


class RewriteRulePass(Rewriting):
    """A rewrite given by a pattern, a side condition and a replacement.

    Mix it with :class:`Transformation` or :class:`Annotation`. The three methods are those of
    onnxscript's rewriter; parameters of :meth:`check` and :meth:`rewrite` are bound by name.
    """

    @abc.abstractmethod
    def pattern(self, op: Op, *args: Any, **kwargs: Any) -> Var:
        """Build the subgraph to find."""

    @abc.abstractmethod
    def rewrite(self, op: Op, *args: Any, **kwargs: Any) -> Var:
        """Build the subgraph to put in its place."""

    def check(self, context: MatchContext, *args: Any, **kwargs: Any) -> MatchResult | bool:
        """Accept a match, or fail with the reason."""
        return MatchResult()

    def rules(self) -> Iterable[Rule | RewriteRule]:
        return self._made(Rule(self.pattern, self.rewrite, self.check), self.name)


class RewriteRuleSetPass(Rewriting):
    """Several rewrites as one pass.

    Implement :meth:`rules`, which yields each as a :class:`Rule`. Or implement
    :meth:`pattern`, :meth:`rewrite` and, for side conditions, :meth:`check`. They return lists
    of the same length, as functions of the signatures of :class:`RewriteRulePass`.
    """

    def pattern(self) -> list[Callable[..., object]]:
        """Return the patterns."""
        raise NotImplementedError(f"{type(self).__name__} defines neither rules nor pattern")

    def rewrite(self) -> list[Callable[..., object]]:
        """Return the replacements."""
        raise NotImplementedError(f"{type(self).__name__} defines neither rules nor rewrite")

    def check(self) -> list[Callable[..., MatchResult | bool]]:
        """Return the side conditions."""
        return [_accept for _ in self.pattern()]

    def rules(self) -> Iterable[Rule | RewriteRule]:
        triples = zip(self.pattern(), self.rewrite(), self.check(), strict=True)
        return [Rule(*triple) for triple in triples]
