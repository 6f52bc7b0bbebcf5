"""Which nodes a pass that changes precision works on: options that these passes share."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import onnx_ir as ir
from pydantic import Field

from onnx_passes.arrays import Array
from onnx_passes.errors import PassError
from onnx_passes.model import walk
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.inline.inline_functions import InlineFunctions
from onnx_passes.passes.options import did_you_mean
from onnx_passes.passes.precision._recording import read_feeds, record


def names_of(graph: ir.Graph) -> set[str]:
    """Return the names of the values of a graph, without those in bodies."""
    values = {v for node in graph for v in (*node.inputs, *node.outputs) if v is not None}
    return {str(v.name) for v in (*values, *graph.inputs)}


def nodes_between(
    graph: ir.Graph, after: Collection[str], before: Collection[str]
) -> set[ir.Node]:
    """Return the nodes that depend on some values, and that others depend on.

    The nodes in their bodies are among them. A node with a body reads what its body captures.
    ``after`` and ``before`` are names of values; empty for any node.
    """
    order = list(walk.topological_order(graph))
    found = set(order)
    if after:
        below = set(after)
        for node in order:
            if below & _read(node):
                below |= _output_names(node)
            else:
                found.discard(node)
    if before:
        above = set(before)
        for node in reversed(order):
            if above & _output_names(node):
                above |= _read(node)
            else:
                found.discard(node)
    roots = [root for node in found for root in walk.subgraphs_of(node)]
    return found.union(*(graph for root in roots for graph in walk.graphs_within(root)))


def _read(node: ir.Node) -> set[str]:
    values = (*node.inputs, *walk.captured_values(node))
    return {str(value.name) for value in values if value is not None}


def _output_names(node: ir.Node) -> set[str]:
    return {str(value.name) for value in node.outputs if value.name}


OVERRIDABLE = (
    "are inputs as well, which callers may replace: remove-initializers-from-inputs makes "
    "them constants"
)

NOTHING = "nothing to convert: the model has no {}"
"""What a pass notes that finds no node to work on."""


def overridable(model: ir.Model) -> list[str]:
    """Return the names of float32 weights that are inputs with a default."""
    return [
        str(value.name)
        for value in model.graph.inputs
        if value.const_value is not None
        and value.const_value.dtype is ir.DataType.FLOAT
        and len(value.const_value.shape) > 1
    ]


class OnSomeNodes(Transformation):
    """A pass over nodes that options name.

    Attributes:
        nodes: Names of nodes, or patterns such as ``/encoder/*``; empty for all.
        operators: Operators, or patterns of them; empty for all that the pass knows.
        skip: Names or patterns of nodes that stay as they are.
        skip_operators: Operators, or patterns of them, that stay as they are.
        after: Values; only nodes that depend on one of them are meant, empty for all.
        before: Values; only nodes that one of them depends on are meant, empty for all.
    """

    nodes: list[str] = Field(default_factory=list)
    operators: list[str] = Field(default_factory=list)
    skip: list[str] = Field(default_factory=list)
    skip_operators: list[str] = Field(default_factory=list)
    after: list[str] = Field(default_factory=list)
    before: list[str] = Field(default_factory=list)

    def open_functions(self, model: ir.Model, holding: Collection[str] = ()) -> bool:
        """Replace calls of functions by their bodies, whose nodes may then be selected.

        Calls of functions that define an operator, such as a quantiser of QONNX, stay. If
        ``holding`` names operators, all calls stay unless a function has one of them. Returns
        whether a call was replaced.
        """
        inner = (node.op_type for f in model.functions.values() for node in f.all_nodes())
        if holding and not any(kind in holding for kind in inner):
            return False
        calls = [
            node for node in walk.all_nodes(model) if node.op_identifier() in model.functions
        ]
        known = {f"{n.domain}::{n.op_type}" for n in calls if operator_of(n) is not None}
        if not calls:
            return False
        inline = InlineFunctions(exclude=tuple(sorted(known)))
        inlined = bool(inline.call(model).modified)
        self.context.notes.extend(inline.context.notes)
        if inlined:
            self.context.notes.append("calls of functions are replaced by their bodies")
            ShapeInference().call(model)
        return inlined

    def select(self, model: ir.Model, *, bodies: bool = False) -> list[ir.Node]:
        """Return the nodes that the options mean, in order.

        Nodes with bodies, and the nodes of functions, are not among them. The name of a node
        with a body means all nodes in the body. With ``bodies``, their nodes are included. A
        PassError names an option that matches no node.
        """
        found = list(model.graph.all_nodes() if bodies else model.graph)
        every = [node for node in found if not list(walk.subgraphs_of(node))]
        holders = [node for node in found if node not in set(every)]
        within = {n: _inside(n) for n in holders} if bodies else {}
        names = [node.name or "" for node in found]
        kinds = sorted({node.op_type for node in found})
        self._check("nodes", self.nodes, names)
        self._check("skip", self.skip, names)
        self._check("operators", self.operators, kinds)
        if self.after or self.before:
            inside = self._region(model)
            every = [node for node in every if node in inside]
        named, skipped = (
            {i for n, inner in within.items() if _fits(n.name or "", patterns) for i in inner}
            for patterns in (self.nodes, self.skip)
        )
        return [n for n in every if n not in skipped and self._is_meant(n, named=n in named)]

    def note_overridable(self, model: ir.Model) -> None:
        """Note which weights stay because they are inputs as well."""
        if found := overridable(model):
            self.note_kept({f"weights, which {OVERRIDABLE}": found})

    def _region(self, model: ir.Model) -> set[ir.Node]:
        known = names_of(model.graph)
        for option, names in (("after", self.after), ("before", self.before)):
            for name in names:
                if name not in known:
                    raise PassError(
                        f"{self.name}: {option!r} names {name!r}, which is not a value",
                        help=did_you_mean(name, known, "see inspect"),
                    )
        return nodes_between(model.graph, self.after, self.before)

    def _is_meant(self, node: ir.Node, *, named: bool) -> bool:
        name, kind = node.name or "", node.op_type
        if _fits(name, self.skip) or _fits(kind, self.skip_operators):
            return False
        named = named or not self.nodes or _fits(name, self.nodes)
        return named and (not self.operators or _fits(kind, self.operators))

    def _check(self, option: str, patterns: Iterable[str], known: list[str]) -> None:
        for pattern in patterns:
            if not any(_is(name, pattern) for name in known):
                raise PassError(
                    f"{self.name}: {option!r} names {pattern!r}, which matches nothing",
                    help=did_you_mean(pattern, [n for n in known if n], "see inspect"),
                )

    def note_kept(self, reasons: dict[str, list[str]]) -> None:
        """Return which nodes stay as they are, by reason."""
        for reason, names in reasons.items():
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            self.context.notes.append(f"{len(names)} kept, {reason}: {shown}")


class OnData(OnSomeNodes):
    """Such a pass that needs values of the model on the user's data.

    Attributes:
        data: .npz files, each with the inputs of one run by name, on which values are
            recorded; by default the inputs under ``reference`` of the pipeline.
    """

    data: list[str] = Field(default_factory=list)

    def values(
        self, model: ir.Model, names: Collection[str], what: str
    ) -> Iterator[dict[str, Array]]:
        """Yield values of the model, sample by sample.

        ``what`` they are for is said in a PassError, if there is no data or the model does not
        run on it.
        """
        if self.context.values and not self.data:
            scaled = self.context.scaled
            sources = {name: scaled.get(name, (name, None)) for name in names}
            for row in self.context.values:
                yield {
                    name: row[source] if factors is None else row[source] * factors
                    for name, (source, factors) in sources.items()
                    if source in row
                }
            return
        yield from record(model, self._feeds(what), names, self.name)

    def _feeds(self, what: str) -> Sequence[Mapping[str, Array]]:
        feeds = read_feeds(self.data, self.name) if self.data else self.context.samples
        if not feeds:
            raise PassError(
                f"{self.name}: there is no data to {what} on",
                help="give reference.inputs in the pipeline, or data: [FILE.npz]",
            )
        return feeds


def _inside(node: ir.Node) -> set[ir.Node]:
    """Return the nodes in the bodies of a node, at any depth."""
    return {n for body in walk.subgraphs_of(node) for g in walk.graphs_within(body) for n in g}


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(_is(name, pattern) for pattern in patterns)


def _is(name: str, pattern: str) -> bool:
    # A name may hold brackets, which a pattern gives another meaning.
    return name == pattern or fnmatchcase(name, pattern)
