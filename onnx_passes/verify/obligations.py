"""What must be equal after a change, and what value numbering proves equal.

Each obligation belongs to a connected part of the change. Values are equal if the same nodes
compute them from equal values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import onnx
import onnx_ir as ir

from onnx_passes.model.digest import leaf_key
from onnx_passes.model.tensor_bytes import tensor_buffer
from onnx_passes.model.walk import captured_values, shadows_operator, subgraphs_of
from onnx_passes.ops.node_queries import may_draw, may_vary
from onnx_passes.passes.context import Application
from onnx_passes.verify.node_equality import (
    branch_taken,
    constant_tensor,
    is_identity,
    same_tensor,
)
from onnx_passes.verify.region import Region


@dataclass(frozen=True)
class Obligation:
    """A value before, the one that must equal it after, and what that is, if known."""

    old: str
    new: str
    tensor: ir.TensorProtocol | None = field(default=None, compare=False)


def find_obligations(
    region: Region, before: ir.Model, after: ir.Model, applied: Sequence[Application]
) -> list[Obligation]:
    """Return what must be equal: the frontier, and what each rewrite says that it replaced.

    Both models are without functions.
    """
    found = {name: Obligation(name, name) for name in region.frontier}
    found |= {name: Obligation(name, name, t) for name, t in region.folded.items()}
    if not applied:
        return list(found.values())
    old = _values(before)
    new = _values(after)
    later = {a: b for application in applied for a, b in application.replaced if a != b}
    for name, target in (pair for one in applied for pair in one.replaced):
        seen = {name}
        while target not in new and target in later and target not in seen:
            seen.add(target)
            target = later[target]
        value, known = new.get(target), old.get(name)
        if name in found or value is None or known is None or not _is_read(value):
            continue
        if constant_tensor(known) is not None or known.is_graph_input():
            continue
        if target == name and value.producer() not in region.nodes:
            continue  # it is computed as before
        found[name] = Obligation(name, target, constant_tensor(value))
    return list(found.values())


def find_inner(region: Region, before: ir.Model, known: Collection[str]) -> list[Obligation]:
    """Return values of new nodes whose names were in use before, and not ``known``."""
    names = {str(v.name) for node in before.graph for v in node.outputs if v.name}
    return [
        Obligation(str(value.name), str(value.name))
        for node in region.nodes
        for value in node.outputs
        if value.name in names and value.name not in known
    ]


def _values(model: ir.Model) -> dict[str, ir.Value]:
    graph = model.graph
    found = {str(value.name): value for value in graph.initializers.values()}
    found |= {str(value.name): value for value in graph.inputs}
    return found | {str(v.name): v for node in graph for v in node.outputs if v.name}


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


@dataclass
class ObligationPart:
    """A connected part of a change, with the numbers and rules of its rewrites."""

    new: list[ir.Node] = field(default_factory=list)
    old: list[ir.Node] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its rules, or its operators before and after."""
        if self.rules:
            return ", ".join(dict.fromkeys(self.rules))
        old, new = (_operators(nodes) for nodes in (self.old, self.new))
        return f"{old or 'nothing'} -> {new or 'nothing'}"


def _operators(nodes: Iterable[ir.Node]) -> str:
    counts = Counter(node.op_type for node in nodes)
    named = [f"{n} {name}" if n > 1 else name for name, n in counts.most_common(4)]
    return " + ".join(named) + (" + ..." if len(counts) > len(named) else "")


def split_parts(
    region: Region,
    obligations: Sequence[Obligation],
    agreed: Collection[Obligation],
    applied: Sequence[Application],
) -> tuple[list[ObligationPart], list[Application]]:
    """Split a change into connected parts.

    What reads an ``agreed`` value on both sides need not be of one part. Also return the
    rewrites that left nothing.
    """
    sets = _Sets()
    makers: dict[tuple[bool, str], ir.Node] = {}
    for fresh, nodes in ((False, region.removed), (True, region.nodes)):
        makers |= {(fresh, str(v.name)): n for n in nodes for v in n.outputs if v.name}
    ends = {(False, o.old) for o in agreed} | {(True, o.new) for o in agreed}
    for fresh, nodes in ((False, region.removed), (True, region.nodes)):
        for node in nodes:
            sets.add(node)
            for value in (*node.inputs, *captured_values(node)):
                key = (fresh, str(value.name)) if value is not None else None
                if key in makers and key not in ends:
                    sets.join(node, makers[key])
    for (fresh, name), node in makers.items():
        if not fresh and (True, name) in makers:
            sets.join(node, makers[True, name])
    for one in obligations:
        pair = [makers[k] for k in ((False, one.old), (True, one.new)) if k in makers]
        for node in pair[1:]:
            sets.join(pair[0], node)
    lost = _join_applications(sets, makers, applied)
    parts: dict[Hashable, ObligationPart] = {}
    for fresh, nodes in ((False, region.removed), (True, region.nodes)):
        for node in nodes:
            part = parts.setdefault(sets.find(node), ObligationPart())
            (part.new if fresh else part.old).append(node)
    for one in obligations:
        keys = ((True, one.new), (False, one.old))
        maker = next((makers[key] for key in keys if key in makers), None)
        if maker is not None:
            parts[sets.find(maker)].obligations.append(one)
        else:
            parts.setdefault(one, ObligationPart()).obligations.append(one)
    gone = set(lost)
    for application in applied:
        if application.number not in gone:
            part = parts[sets.find(application.number)]
            part.numbers.append(application.number)
            part.rules.append(application.rule)
    return list(parts.values()), [a for a in applied if a.number in gone]


def _join_applications(
    sets: _Sets, makers: dict[tuple[bool, str], ir.Node], applied: Sequence[Application]
) -> list[int]:
    """Put each rewrite where its nodes are; return the numbers of those without any."""
    names: dict[str, int] = {}
    for application in applied:
        sets.add(application.number)
        for name in (name for pair in application.replaced for name in pair):
            # One that replaced what another one made is of one part with it.
            sets.join(application.number, names.setdefault(name, application.number))
    found: set[Hashable] = set()
    for application in applied:
        for name in (name for pair in application.replaced for name in pair):
            for fresh in (False, True):
                if (fresh, name) in makers:
                    sets.join(application.number, makers[fresh, name])
                    found.add(application.number)
    roots = {sets.find(number) for number in found}
    return [a.number for a in applied if sets.find(a.number) not in roots]


class _Sets:
    """Disjoint sets."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def add(self, one: Hashable) -> None:
        self._above.setdefault(one, one)

    def find(self, one: Hashable) -> Hashable:
        root = one
        while self._above[root] != root:
            root = self._above[root]
        while self._above[one] != root:
            self._above[one], one = root, self._above[one]
        return root

    def join(self, one: Hashable, other: Hashable) -> None:
        self.add(one)
        self.add(other)
        self._above[self.find(one)] = self.find(other)


_MOST_GROWN = 64
"""Number of unchanged nodes around a region that are looked at, for each side."""
_ROUNDS = 16
"""How far nodes that compute a value twice may lie above a node that is still there."""


def compute_alike(before: ir.Model, after: ir.Model) -> bool:
    """Whether two models compute their outputs alike from inputs in the same places."""
    if len(before.graph.inputs) != len(after.graph.inputs):
        return False
    table, found = Numbering(), []
    for model in (before, after):
        given = {}
        for index, value in enumerate(model.graph.inputs):
            default = value.const_value
            held = None if default is None else table.of_tensor(default)
            given[value] = table.of(("input", index, held))
        numbers = Numbers(table, model, given)
        numbers.add(model.graph)
        found.append([numbers.of(value) for value in model.graph.outputs])
    return found[0] == found[1]


def find_proved(
    region: Region,
    before: ir.Model,
    after: ir.Model,
    obligations: Sequence[Obligation],
    agreed: Collection[Obligation] = (),
) -> set[Obligation]:
    """Return the obligations whose values are computed alike from the same values.

    By induction over the model after, a name that neither side computes anew is one value.
    ``agreed`` obligations are known to hold: what follows from them is proved.
    """
    held = [one for one in obligations if one.tensor is None]
    old = _Changed(before, region.removed, [one.old for one in obligations])
    new = _Changed(after, region.nodes, [one.new for one in held])
    found: set[Obligation] = set()
    for turn in range(_ROUNDS + 1):
        _grow(old, new)
        operators = old.operators | new.operators
        both = {n for n in old.reads.keys() & new.reads.keys() if old.maker(n) in operators}
        if not both or turn & (turn - 1) == 0:  # after 0, 1, 2, 4, 8, ... rounds
            found |= _alike(region, old, new, obligations, agreed)
        if len(found) == len(obligations) or not (old.grow(both) and new.grow(both)):
            break  # what is computed twice may be read from a node that is still there
    return found


def _grow(old: _Changed, new: _Changed) -> None:
    """Follow what only one side reads, up to what both do."""
    for _ in range(_MOST_GROWN):
        left, right = old.reads.keys(), new.reads.keys()
        if not (old.grow(left - right) | new.grow(right - left)):
            return


def _alike(
    region: Region,
    old: _Changed,
    new: _Changed,
    obligations: Sequence[Obligation],
    agreed: Collection[Obligation],
) -> set[Obligation]:
    """Return the obligations whose numbers are equal."""
    table = Numbering()
    # A branch that is never taken may be dropped; where it stays, it is held to its promise.
    inlined = not any(
        node.op_type == "If" and branch_taken(node) is not None
        for outer in region.nodes
        for node in (outer, *(n for graph in subgraphs_of(outer) for n in graph.all_nodes()))
    )
    right_numbers = new.number(table, inlined=inlined)
    pairs = {one.old: right_numbers.get(one.new) for one in agreed if one.tensor is None}
    left_numbers = old.number(table, pairs, inlined=inlined)

    def is_alike(one: Obligation) -> bool:
        held = one.tensor
        right = right_numbers.get(one.new) if held is None else table.of_tensor(held)
        return right is not None and left_numbers.get(one.old) == right

    return set(filter(is_alike, obligations))


class _Changed:
    """What changed in one model, with nodes around it."""

    def __init__(
        self, model: ir.Model, nodes: Sequence[ir.Node], names: Sequence[str]
    ) -> None:
        """Start with the nodes that changed; ``names`` are those asked for."""
        self._model, self._nodes = model, set(nodes)
        self._order: Sequence[ir.Node] = nodes
        self.reads: dict[str, ir.Value] = {}
        made = {str(v.name): v for node in nodes for v in node.outputs if v.name}
        self._asked = {name: made[name] for name in names if name in made}
        if missing := set(names) - made.keys():
            graph = model.graph
            values = (*graph.inputs, *graph.initializers.values())
            values += tuple(v for node in graph for v in node.outputs)
            self._asked |= {str(v.name): v for v in values if v.name in missing}
        self._note(*self._asked.values())
        for node in nodes:
            self._note(*node.inputs, *captured_values(node))

    def _note(self, *values: ir.Value | None) -> None:
        for value in values:
            if value is None or value.producer() in self._nodes:
                continue
            if constant_tensor(value) is None:
                self.reads[str(value.name)] = value

    @property
    def operators(self) -> set[str]:
        """The operators on this side."""
        return {node.op_type for node in self._nodes}

    def maker(self, name: str) -> str | None:
        """Return the operator that computes a value which this side reads."""
        node = self.reads[name].producer()
        return None if node is None else node.op_type

    def grow(self, names: set[str]) -> bool:
        """Add the nodes that compute what only this side reads, in the order of reading."""
        added = False
        for name in [name for name in self.reads if name in names]:
            value = self.reads.get(name)
            node = None if value is None else value.producer()
            if node is None or len(self._nodes) > len(self._order) + _MOST_GROWN:
                continue
            if _draws(node, self._model.functions):
                continue  # each draw is another value, and known by its name
            added = True
            self._nodes.add(node)
            for made in node.outputs:
                self.reads.pop(str(made.name), None)
            self._note(*node.inputs, *captured_values(node))
        return added

    def number(
        self,
        table: Numbering,
        taken_as: Mapping[str, int | None] | None = None,
        *,
        inlined: bool,
    ) -> dict[str, int]:
        """Return the numbers of the values that were asked for."""
        known = {
            self._asked[name]: number
            for name, number in (taken_as or {}).items()
            if number is not None and name in self._asked
        }
        numbers = Numbers(table, self._model, inlined=inlined, taken_as=known)
        grown = len(self._nodes) > len(self._order)
        nodes = self._model.graph if grown else self._order
        numbers.add(node for node in nodes if node in self._nodes)
        computed = numbers.computed
        return {
            name: computed[v] if v in computed else numbers.of(v)
            for name, v in self._asked.items()
        }


_START = 64
"""Bytes of a tensor by which its equals are looked up."""


class Numbering:
    """The numbers that models share which are compared with each other."""

    def __init__(self) -> None:
        """Know no value."""
        self._numbers: dict[Hashable, int] = {}
        self._tensors: dict[int, tuple[ir.TensorProtocol, int]] = {}
        self._alike: dict[Hashable, list[ir.TensorProtocol]] = {}

    def of(self, key: Hashable) -> int:
        """Return the number of what a key describes."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of_tensor(self, tensor: ir.TensorProtocol) -> int:
        """Return the number of a constant: tensors of one type, shape and content have one."""
        known = self._tensors.get(id(tensor))
        if known is None:
            alike = self._alike.setdefault(_start_of(tensor), [])
            first = next((other for other in alike if same_tensor(other, tensor)), None)
            if first is None:
                alike.append(tensor)
                known = tensor, self.of(("tensor", len(self._tensors)))
            else:
                known = tensor, self._tensors[id(first)][1]
            self._tensors[id(tensor)] = known  # which keeps it alive, and its id
        return known[1]


def _start_of(tensor: ir.TensorProtocol) -> Hashable:
    """Return what tensors of one content share, and few others."""
    strings = tensor.dtype is ir.DataType.STRING
    start = b"" if strings else bytes(tensor_buffer(tensor)[:_START])
    return tensor.dtype, tuple(tensor.shape), start


class Numbers:
    """The numbers of values of one model.

    A value that is not constant, and that no numbered node computes, is identified by its
    name. Two models that are compared share a ``table``. If ``inlined``, an If with a constant
    condition is identified by the branch that it takes. ``taken_as`` has numbers that readers
    assume for a value. ``computed`` holds the numbers of what nodes compute.
    """

    def __init__(
        self,
        table: Numbering,
        model: ir.Model,
        given: Mapping[ir.Value, int] | None = None,
        *,
        inlined: bool = False,
        taken_as: Mapping[ir.Value, int] | None = None,
    ) -> None:
        """Number nothing yet."""
        self.computed: dict[ir.Value, int] = {}
        self._inlined, self._taken_as = inlined, taken_as or {}
        self._table, self._model = table, model
        self._known = dict(given or {})
        self._drawn: Counter[Hashable] = Counter()
        self._imports: Mapping[str, int] = model.graph.opset_imports
        self._attributes: Mapping[str, ir.Attr] = {}

    def of(self, value: ir.Value | None) -> int:
        """Return the number of a value; -1 for an operand that is left out."""
        if value is None:
            return -1
        while value not in self._known and is_identity(node := value.producer()):
            assert node is not None
            assert node.inputs[0] is not None
            value = node.inputs[0]
        if value in self._known:
            return self._known[value]
        tensor = constant_tensor(value)
        key = ("value", value.name)
        number = self._table.of(key) if tensor is None else self._table.of_tensor(tensor)
        self._known[value] = number
        return number

    def add(self, nodes: Iterable[ir.Node], depth: int = 0) -> None:
        """Number what nodes compute; ``depth`` counts the bodies around them."""
        for node in nodes:
            first = node.outputs[0]
            if is_identity(node) or constant_tensor(first) is not None:
                continue
            function = self._model.functions.get(node.op_identifier())
            if function is not None:
                numbers = self._call(node, function, depth)
                if shadows_operator(node.op_identifier(), self._imports):
                    # An engine may run its own operator, so that both have to be equal.
                    pairs = zip(numbers, self._node(node, depth), strict=True)
                    numbers = [self._table.of(("shadowing", *pair)) for pair in pairs]
            elif node.domain == "" and node.op_type == "If":
                numbers = self._if(node, depth)
            elif (
                node.domain == ""
                and node.op_type == "Loop"
                and not _draws(node, self._model.functions)
            ):
                numbers = self._loop(node, depth)
            else:
                numbers = self._node(node, depth)
            found = dict(zip(node.outputs, numbers, strict=True))
            self.computed |= found
            self._known |= {v: self._taken_as.get(v, n) for v, n in found.items()}

    def _node(self, node: ir.Node, depth: int) -> list[int]:
        what: Hashable = (*self._name(node), *map(self.of, node.inputs), "with")
        for name in sorted(node.attributes):
            attribute: ir.Attr | None = node.attributes[name]
            assert attribute is not None
            if attribute.is_ref():
                attribute = self._attributes.get(str(attribute.ref_attr_name))
            if attribute is not None:
                what = (what, name, self._attribute(attribute, depth))
        if may_draw(node) or may_vary(node):
            self._drawn[what] += 1  # two draws are not one
            what = (what, self._drawn[what])
        present = tuple(bool(value.name) for value in node.outputs)
        return [self._table.of((what, present, i)) for i in range(len(present))]

    def _attribute(self, attribute: ir.Attr, depth: int) -> Hashable:
        match attribute.type:
            case ir.AttributeType.GRAPH:
                return self._body(attribute.as_graph(), depth)
            case ir.AttributeType.GRAPHS:
                return tuple(self._body(graph, depth) for graph in attribute.as_graphs())
            case ir.AttributeType.TENSOR:
                return self._table.of_tensor(attribute.as_tensor())
        return leaf_key(attribute)

    def _name(self, node: ir.Node) -> tuple[Hashable, ...]:
        version = _version(node.domain, node.op_type, self._imports.get(node.domain))
        return (node.domain, node.op_type, node.overload, version)

    def _body(self, graph: ir.Graph, depth: int) -> tuple[int, ...]:
        """Return the numbers of the results of a body."""
        for index, value in enumerate(graph.inputs):
            self._known[value] = self._table.of(("bound", depth, index))
        self.add(graph, depth + 1)
        return tuple(map(self.of, graph.outputs))

    def _if(self, node: ir.Node, depth: int) -> list[int]:
        """Return the numbers of an If; each result is numbered by itself."""
        branches = {
            name: self._body(attribute.as_graph(), depth)
            for name, attribute in node.attributes.items()
        }
        taken = branch_taken(node) if self._inlined else None
        if taken is not None:
            return list(branches[taken])
        pairs = zip(branches["then_branch"], branches["else_branch"], strict=True)
        condition = self.of(node.inputs[0])
        return [
            one if one == other else self._table.of((*self._name(node), condition, one, other))
            for one, other in pairs
        ]

    def _loop(self, node: ir.Node, depth: int) -> list[int]:
        """Return the numbers of a Loop, each result with only the state that decides it."""
        body = node.attributes["body"].as_graph()
        start = [self.of(value) for value in node.inputs]
        reads = _state_read(body)
        numbered: dict[tuple[int, ...], tuple[int, ...]] = {}
        found = []
        for index in range(len(node.outputs)):
            carried = index < len(start) - 2
            seen, pending = {index} if carried else set(), [0, index + 1]
            while pending:
                more = reads[pending.pop()] - seen
                seen |= more
                pending += [one + 1 for one in more]
            state = tuple(sorted(seen))
            if state not in numbered:
                numbered[state] = self._iteration(body, state, depth)
            results = numbered[state]
            pairs = tuple((start[one + 2], results[one + 1]) for one in state)
            which = ("state", state.index(index)) if carried else ("scan", results[index + 1])
            what = (*self._name(node), *start[:2], results[0], pairs, which)
            found.append(self._table.of(what))
        return found

    def _iteration(
        self, body: ir.Graph, state: tuple[int, ...], depth: int
    ) -> tuple[int, ...]:
        """Return the numbers of the results of a body that keeps some state."""
        inner = self._inside(self._known)
        places = {0: 0, 1: 1} | {one + 2: place + 2 for place, one in enumerate(state)}
        for index, value in enumerate(body.inputs):
            inner._known[value] = self._table.of(("bound", depth, places.get(index, -1)))
        inner.add(body, depth + 1)
        return tuple(map(inner.of, body.outputs))

    def _call(self, node: ir.Node, function: ir.Function, depth: int) -> list[int]:
        """Return the numbers of what a call computes."""
        read = [self.of(value) for value in node.inputs]
        read += [-1] * (len(function.inputs) - len(read))
        inner = self._inside(dict(zip(function.inputs, read, strict=True)))
        inner._imports = function.opset_imports
        given = {a.name: a for a in function.attributes.values() if a.value is not None}
        for name, attribute in node.attributes.items():
            if not attribute.is_ref():
                given[name] = attribute
            elif (passed := self._attributes.get(str(attribute.ref_attr_name))) is not None:
                given[name] = passed
        inner._attributes = given
        inner.add(function, depth)
        return [inner.of(value) for value in function.outputs[: len(node.outputs)]]

    def _inside(self, known: Mapping[ir.Value, int]) -> Numbers:
        inner = Numbers(self._table, self._model, known, inlined=self._inlined)
        inner._imports, inner._attributes = self._imports, self._attributes
        inner._drawn = self._drawn
        return inner


def _state_read(body: ir.Graph) -> list[set[int]]:
    """Return which of the carried values of a loop each result of its body reads."""
    read: dict[ir.Value, set[int]] = {v: {i} for i, v in enumerate(body.inputs[2:])}
    for node in body:
        values = (*node.inputs, *captured_values(node))
        found = set[int]().union(*(read.get(v, ()) for v in values if v is not None))
        read |= dict.fromkeys(node.outputs, found)
    return [read.get(value, set()) for value in body.outputs]


def _draws(node: ir.Node, functions: Mapping[ir.OperatorIdentifier, ir.Function]) -> bool:
    """Whether a node, its bodies and functions included, may give something else each time."""
    inner = (n for graph in subgraphs_of(node) for n in graph.all_nodes())
    called = functions.get(node.op_identifier(), ())
    own = may_draw(node) or may_vary(node)
    return own or any(_draws(one, functions) for one in (*inner, *called))


@cache
def _version(domain: str, operator: str, imported: int | None) -> tuple[bool, int | None]:
    """Return since when an operator has the meaning that an opset gives it.

    A version that only takes more types has the meaning of the one before.
    """
    schema = None if imported is None else _schema(domain, operator, imported)
    if schema is None:
        return False, imported
    while older := _schema(domain, operator, schema.since_version - 1):
        if _described(older) != _described(schema):
            break
        schema = older
    return True, schema.since_version


def _schema(domain: str, operator: str, version: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(operator, version, domain) if version > 0 else None
    except onnx.defs.SchemaError:
        return None


def _described(schema: onnx.defs.OpSchema) -> Hashable:
    """Return all that a schema says, types aside."""
    attributes = (
        (name, str(a.type), a.required, str(a.default_value))
        for name, a in schema.attributes.items()
    )
    operands = (
        (v.name, v.option, v.is_homogeneous) for v in (*schema.inputs, *schema.outputs)
    )
    return (" ".join((schema.doc or "").split()), tuple(sorted(attributes)), tuple(operands))
