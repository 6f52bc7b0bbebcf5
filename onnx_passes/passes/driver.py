"""The rewrite driver: greedy, driven by a worklist, with a record of every application.

Rules are indexed by the operator at the root of their pattern. Every node is looked at once,
and again only when a rewrite happened near enough for a pattern to reach it, so that the cost
grows with nodes plus changes. Each application is numbered and recorded, may be refused (a
limit, a key to skip), and keeps the graph valid. Names stay unique, outputs of the graph keep
theirs, and nodes that became dead are removed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import onnx_ir as ir
from onnxscript.rewriter.pattern import RewriteRule

from onnx_passes.errors import FixpointError, PassError
from onnx_passes.passes._support.scratch import Scratch
from onnx_passes.passes.annotated import annotate_constants, is_annotated
from onnx_passes.passes.context import Application, Rewrites
from onnx_passes.passes.hiding import overridable_hidden, types_of_functions_hidden
from onnx_passes.passes.node_index import Container, NodeIndex, Operator, note_constants
from onnx_passes.passes.patterns import PatternInfo, describe, has_other_version, rule_name
from onnx_passes.passes.reasons import (
    MatchingTracer,
    is_asking,
    question_of,
    reason_of,
)
from onnx_passes.passes.replace import Namer, creates_cycle, replace, restores_itself

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
    attributes of the function are skipped: a rule cannot read them.

    Args:
        model: Changed in place.
        rules: Tried in this order at each node.
        rewrites: Budget and record, shared by the passes of a pipeline.
        index: The nodes of the model as it is, if they are known.

    Returns:
        The applications, in order.

    Raises:
        FixpointError: The rules keep matching their own output; the error names the rule.
        PassError: A rule raised.
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
                f"rule {name!r} raised {type(error).__name__}: {error}",
                where=f"  --> at {describe(node)}",
                help="a rule says no by returning a failed MatchResult, not by raising",
            ) from error
        if question is not None and tracer is not None:
            question.note(name, node, *reason_of(tracer, rule, self.model, container, node))
        if delta is None:
            return False
        old, new = list(delta.match.outputs), list(delta.new_outputs)
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
        self.scratch.keep_constants(delta.new_nodes)
        texts = tuple(describe(n) for n in matched)
        names = [str(value.name) for value in old]
        witness = self.rewrites.witness
        if witness is not None:
            outermost = container is self.model.graph
            witness.before(outermost, matched, old, delta.new_nodes, new)
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
        if witness is not None:
            witness.after(record)
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
