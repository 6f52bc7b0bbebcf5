"""The model before a pass: a key of its content, its interface, and what changed.

The same comparison of content says whether a written file holds the verified model.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice, zip_longest
from operator import attrgetter, is_
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ModelError, VerificationError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.digest import (
    Key,
    canonical_hash,
    leaf_key,
    shape_key,
    type_key,
    value_key,
)
from onnx_passes.model.tensor_bytes import chunks, string_data, tensor_buffer
from onnx_passes.model.walk import (
    all_graphs,
    make_immutable,
    node_count,
    node_head,
    node_inputs,
    node_outputs,
    node_rest,
    nodes_of,
    reader,
    shape_fields,
    tensor_type,
    value_fields,
    value_name,
    weight_bytes,
)

_attribute_fields = reader(
    ir.AttrInt64("axis", 0), "name", "doc_string", "type", "value", "ref_attr_name"
)
initializers_of: Callable[[ir.Graph], dict[str, ir.Value]] = attrgetter(
    "_initializers.data"
    if hasattr(ir.Graph([], [], nodes=[]), "_initializers")
    else "initializers.data"
)
"""The initializers of a graph as a plain dictionary: a walk takes a fifth of the time."""

# Where onnx-ir keeps a graph's quantization_annotation.
_QUANTIZATION = "quant_parameter_tensor_names"

# Compared by ==, which enumerations of integers do faster than they hash.
_HOLDERS = (
    ir.AttributeType.GRAPH,
    ir.AttributeType.GRAPHS,
    ir.AttributeType.TENSOR,
    ir.AttributeType.TENSORS,
)
_PLAIN = (ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING)


class _Same:
    """Identifies objects, and keeps them alive: ids are given out again."""

    __slots__ = ("held",)

    def __init__(self, held: Iterable[object]) -> None:
        self.held = list(held)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Same)
            and len(self.held) == len(other.held)
            and all(map(is_, self.held, other.held))
        )

    __hash__ = None  # type: ignore[assignment]  # keys are compared, and never looked up


@dataclass
class _ValueColumns:
    """Columns of values; ``rest`` has doc strings and metadata, with their places."""

    __slots__ = ("names", "rest", "shapes", "types")
    names: list[str | None]
    types: list[Key]
    shapes: list[Any]
    rest: list[Key]


@dataclass
class _NodeColumns:
    """Columns of nodes.

    ``counts`` are numbers of operands and of results; ``reads`` and ``results`` have them one
    after the other. ``attributes`` includes metadata and devices, of nodes that have any, with
    their places.
    """

    __slots__ = ("attributes", "counts", "heads", "reads", "results")
    heads: list[Key]
    counts: list[int]
    reads: list[str | None]
    attributes: list[Key]
    results: _ValueColumns


def exact_key(model: ir.Model) -> Key:
    """Note everything that saving the model would write, weights by identity.

    Nothing in the key changes with the model, and comparing two keys is cheap: what is the
    same object is not looked into.
    """
    functions = tuple(
        (
            identifier,
            (function.domain, function.name, function.overload),
            tuple(map(_attribute, function.attributes.values())),
            tuple(sorted(function.opset_imports.items())),
            _graph(function.graph),
        )
        for identifier, function in model.functions.items()
    )
    header = (model.ir_version, model.producer_name, model.producer_version, model.domain)
    extra = (model.model_version, model.doc_string, _metadata(model.metadata_props))
    imports = tuple(sorted(model.opset_imports.items()))
    devices = tuple(map(repr, model.device_configurations))
    return (header, extra, imports, devices, functions, _graph(model.graph))


def differ_in_notes(old: Any, new: Any) -> bool:
    """Whether different keys differ in types and shapes of the main graph's results alone."""
    (*rest, graph), (*others, other) = old, new
    *parts, nodes = graph
    *others_parts, other_nodes = other
    results, other_results = nodes.results, other_nodes.results
    return bool(
        (rest, parts) == (others, others_parts)
        and nodes.heads == other_nodes.heads
        and nodes.counts == other_nodes.counts
        and nodes.reads == other_nodes.reads
        and nodes.attributes == other_nodes.attributes
        and results.names == other_results.names
        and results.rest == other_results.rest
    )


def read_notes(model: ir.Model, old: Any, new: Any) -> Counter[Key]:
    """Count types and shapes where nodes read what two exact keys note in different ways.

    Hashes of nodes hold them, except for the outputs of the graph. The keys differ in types
    and shapes alone.
    """
    a, b = (_results(key) for key in (old, new))
    rows = zip(a.names, a.types, b.types, a.shapes, b.shapes, strict=True)
    changed = {row[0] for row in rows if row[1] != row[2] or row[3] != row[4]}
    return Counter(
        value_key(value)
        for node in model.graph
        for value in node.inputs
        if value is not None and value.name in changed and not value.is_graph_output()
    )


def _results(key: Any) -> _ValueColumns:
    """Return the results of the main graph: the last part of its key are the nodes."""
    *_, (*_, nodes) = key
    found: _ValueColumns = nodes.results
    return found


def _graph(graph: ir.Graph) -> Key:
    held = initializers_of(graph)
    return (
        graph.name,
        graph.doc_string,
        _metadata(graph.metadata_props),
        _values(graph.inputs),
        tuple(held),
        _Same(value.const_value for value in held.values()),
        _values(held.values()),
        _values(graph.outputs),
        _nodes(nodes_of(graph)),
    )


def _nodes(nodes: Sequence[ir.Node]) -> _NodeColumns:
    reads, results = list(map(node_inputs, nodes)), list(map(node_outputs, nodes))
    more: list[Key] = []
    for place, (attributes, properties, devices) in enumerate(map(node_rest, nodes)):
        data = attributes.data  # whether it is empty, a dict says faster
        if data or properties or devices:
            held = tuple(map(_attribute, data.values())) if data else ()
            noted = _metadata(properties) if properties else ()
            more.append((place, held, noted, tuple(map(_device, devices)) if devices else ()))
    return _NodeColumns(
        list(map(node_head, nodes)),
        [*map(len, reads), *map(len, results)],
        [None if value is None else value_name(value) for value in chain.from_iterable(reads)],
        more,
        _values(chain.from_iterable(results)),
    )


def _values(values: Iterable[ir.Value]) -> _ValueColumns:
    # Nearly all the time of a key goes into values, and nearly all of them are tensors.
    names: list[str | None] = []
    types: list[Key] = []
    shapes: list[Any] = []
    rest: list[Key] = []
    for name, type_, shape, doc_string, properties, meta in map(value_fields, values):
        names.append(name)
        types.append(tensor_type(type_) if type(type_) is ir.TensorType else type_key(type_))
        if shape is None:
            shapes.append(None)
        else:  # copies, and symbols in them cannot change
            dims, denotations = shape_fields(shape)
            shapes.append((*dims, *denotations))
        noted = meta.data.get(_QUANTIZATION) if meta is not None and meta.data else None
        if doc_string is not None or properties or noted:
            known = tuple(_metadata(one) if one else () for one in (properties, noted))
            rest.append((len(names), doc_string, *known))
    return _ValueColumns(names, types, shapes, rest)


def _attribute(attribute: ir.Attr) -> Key:
    name, doc_string, kind, value, reference = _attribute_fields(attribute)
    if kind in _PLAIN and value is not None and reference is None:
        return (name, doc_string, kind, value)
    return (attribute.name, attribute.doc_string, _content(attribute))


def _content(attribute: ir.Attr) -> Key:
    kind, value = attribute.type, attribute.value
    if value is None or attribute.is_ref() or kind not in _HOLDERS:
        return leaf_key(attribute)
    match kind:
        case ir.AttributeType.GRAPH:
            return ("graph", _graph(value))
        case ir.AttributeType.GRAPHS:
            return ("graphs", *map(_graph, value))
        case ir.AttributeType.TENSOR:
            return ("tensor", _Same((value,)))
        case _:
            return ("tensors", _Same(value))


def _device(devices: ir.NodeDeviceConfiguration) -> Key:
    specs = [
        (
            None if s.value is None else s.value.name,
            s.device,
            repr(s.index_to_device_group_map),
            repr(s.sharded_dims),
        )
        for s in devices.sharding_specs
    ]
    return (repr(devices.configuration), devices.pipeline_stage, *specs)


def _metadata(properties: Mapping[str, str]) -> object:
    return dict(properties) if properties else ()


Part: TypeAlias = Literal["inputs", "outputs", "dims", "types"]
Dim: TypeAlias = int | str | None


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output.

    ``type`` is as ONNX writes it (``seq(tensor(int64))``), or None. ``dims`` are sizes, names
    or None; of a sequence or optional those of its elements, and None if not even the rank is
    known. With a ``default`` from an initializer it may be left out.
    """

    name: str
    type: str | None
    dims: tuple[Dim, ...] | None
    default: bool = False

    def __str__(self) -> str:
        return f"{self.type or 'untyped'}{_dims_text(self.dims)} {self.name}"


@dataclass(frozen=True, slots=True)
class Interface:
    """The inputs and outputs of a model, in order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def interface_of(model: ir.Model) -> Interface:
    """Read how a model is called."""
    inputs = tuple(_port(v, default=v.is_initializer()) for v in model.graph.inputs)
    return Interface(inputs, tuple(_port(v) for v in model.graph.outputs))


def compare_interfaces(
    before: Interface, after: Interface, allowed: frozenset[str] = frozenset()
) -> list[str]:
    """Say what a pass changed that it did not declare.

    ``allowed`` has what may change: "inputs" and "outputs" (names, order, number and
    defaults), "dims" and "types" (of both). Return a sentence for each change.
    """
    changes = []
    if "inputs" not in allowed:
        changes += _names("input", before.inputs, after.inputs)
    if "outputs" not in allowed:
        changes += _names("output", before.outputs, after.outputs)
    names = Counter(d for p in after.inputs for d in p.dims or () if isinstance(d, str))
    fresh = frozenset(n for n, uses in names.items() if uses == 1 and isinstance(n, str))
    for word, old, new in _pairs(before, after):
        if word == "input" and old.default != new.default and "inputs" not in allowed:
            verb = "lost its" if old.default else "has been given a"
            changes.append(f"input {old.name!r} {verb} default value")
        if "types" not in allowed and old.type != new.type and (old.type or word == "input"):
            changes.append(
                f"{word} {old.name!r} is {new.type or 'without a type'}, "
                f"was {old.type or 'without a type'}"
            )
        if "dims" not in allowed:
            changes += _dims(word, old, new, fresh)
    return changes


def _pairs(before: Interface, after: Interface) -> list[tuple[str, Port, Port]]:
    pairs = []
    for word, old, new in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
    ):
        by_name = {port.name: port for port in new}
        pairs += [(word, port, by_name[port.name]) for port in old if port.name in by_name]
    return pairs


def _names(word: str, before: Sequence[Port], after: Sequence[Port]) -> list[str]:
    old, new = [p.name for p in before], [p.name for p in after]
    if old == new:
        return []
    gone = [name for name in old if name not in new]
    extra = [name for name in new if name not in old]
    if [old.index(name) for name in gone] == [new.index(name) for name in extra]:
        renamed = dict(zip(gone, extra, strict=True))
        changes = [f"{word} {was!r} is now named {now!r}" for was, now in renamed.items()]
    else:
        changes = [f"{word} {name!r} is gone" for name in gone]
        changes += [f"{word} {name!r} is new" for name in extra]
    common = [name for name in new if name in old]
    if common != [name for name in old if name in new]:
        changes.append(f"the {word}s are {', '.join(new)}, were {', '.join(old)}")
    return changes


def _dims(word: str, old: Port, new: Port, fresh: frozenset[str]) -> list[str]:
    if old.dims == new.dims or (old.dims is None and word == "output"):
        return []
    what = f"{word} {old.name!r}"
    if old.dims is None or new.dims is None or len(old.dims) != len(new.dims):
        return [f"{what} has {_shape(new.dims)}, had {_shape(old.dims)}"]
    changes = []
    for axis, (was, now) in enumerate(zip(old.dims, new.dims, strict=True)):
        annotated = was is None and (word == "output" or now in fresh)
        if was != now and not annotated:
            changes.append(f"dimension {axis} of {what} is {_size(now)}, was {_size(was)}")
    return changes


def _shape(dims: tuple[Dim, ...] | None) -> str:
    return "no known rank" if dims is None else f"shape {_dims_text(dims)}"


def _dims_text(dims: tuple[Dim, ...] | None) -> str:
    if dims is None:
        return ""
    return f"[{','.join('?' if d is None else str(d) for d in dims)}]"


def _size(dim: Dim) -> str:
    if dim is None:
        return "dynamic without a name"
    return f"dynamic {dim!r}" if isinstance(dim, str) else str(dim)


def _port(value: ir.Value, *, default: bool = False) -> Port:
    dims: tuple[Dim, ...] | None = None
    if value.shape is not None:
        dims = tuple(d if isinstance(d, int) else d.value for d in value.shape)
    return Port(value.name or "", type_text(value.type), dims, default)


def type_text(type_: ir.TypeProtocol | None) -> str | None:
    """Write a type as ONNX does: ``optional(seq(tensor(float)))``."""
    if type_ is None:
        return None
    if isinstance(type_, ir.OptionalType):
        return f"optional({type_text(type_.elem_type)})"
    if isinstance(type_, ir.SequenceType):
        return f"seq({type_text(type_.elem_type)})"
    word = "sparse_tensor" if isinstance(type_, ir.SparseTensorType) else "tensor"
    return f"{word}({type_.dtype.name.lower()})"


class Change(StrEnum):
    """What differs between two states of a model.

    NONE: nothing. NAMES: only names, order, metadata or how weights are stored. ANNOTATIONS:
    also types and shapes of inner values. COMPUTATION: nodes, weights, or the interface.
    """

    NONE = "none"
    NAMES = "names"
    ANNOTATIONS = "annotations"
    COMPUTATION = "computation"


class Snapshot:
    """A copy of a model that nothing can change.

    The copy is made at once, or when it is asked for: until :meth:`let_go` the model itself is
    used.
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        after: Snapshot | None = None,
        hold: bool = True,
        untouched: bool = False,
    ) -> None:
        """Copy ``model``; its weights are shared, and cannot be written to from now on.

        ``after`` is a snapshot that the model was compared with: if it still is the same, no
        hash is computed again. Without ``hold``, call :meth:`hold` or :meth:`let_go` before
        the model changes. ``untouched`` promises that nothing changed the model since it was
        compared last.
        """
        # What was compared last, until a snapshot of it is made.
        self._compared: tuple[Key, dict[bool, str], ir.Model] | None = None
        compared = None
        if after is not None:
            compared, after._compared = after._compared, None
        same = compared is not None and untouched and compared[2] is model
        self._key: Key = compared[0] if same and compared is not None else exact_key(model)
        self._hashes = dict[bool, str]()
        if compared is not None and (same or compared[0] == self._key):
            self._hashes = compared[1]  # it was made immutable to be compared
        elif make_immutable(model, layout="same"):
            self._key = exact_key(model)
        self._live: ir.Model | None = model
        self._copy: ir.Model | None = None
        if hold:
            self.hold()

    @property
    def model(self) -> ir.Model:
        """The copy, or the model that it would be of; do not hand it to a pass."""
        model = self._copy if self._copy is not None else self._live
        assert model is not None, "it was let go of"
        return model

    @property
    def lost(self) -> bool:
        """Whether the model has changed and there is no copy."""
        return self._copy is None and self._live is None

    def is_alike(self, other: Snapshot) -> bool:
        """Whether the models are known to be equal: to the byte, or by canonical hashes.

        Annotations count. ``other`` is earlier. If it is lost and has no hash, this one gets
        its hash, so that a later one can be compared.
        """
        if self._key == other._key:
            return True
        hashed = True in self._hashes and True in other._hashes
        if not hashed and self._counts != other._counts:
            return False
        own = self.hash
        return (True in other._hashes or not other.lost) and own == other.hash

    def count(self) -> None:
        """Count what :meth:`is_alike` compares first, as long as the model is there."""
        _ = self._counts

    def hold(self) -> None:
        """Copy the model, unless that is done."""
        if self._copy is None:
            self._copy, self._live = copy_model(self.model), None

    def let_go(self) -> None:
        """Say that the model may change from now on: without a copy it is lost."""
        if self._copy is None:
            _ = self.nodes, self.weight_bytes  # reports still ask for these
            self._live = None

    @property
    def hash(self) -> str:
        """Canonical hash of the copy, annotations included."""
        return self._hash(annotations=True)

    def _hash(self, *, annotations: bool) -> str:
        if annotations not in self._hashes:
            self._hashes[annotations] = canonical_hash(self.model, annotations=annotations)
        return self._hashes[annotations]

    @cached_property
    def _counts(self) -> Key:
        return _census(self.model)

    @cached_property
    def nodes(self) -> int:
        """Number of nodes, those in subgraphs and functions included."""
        return node_count(self.model)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all tensors, each counted once."""
        return weight_bytes(self.model)

    def restore(self) -> ir.Model:
        """Return a model equal to the one that was copied, bit for bit."""
        self.hold()
        return copy_model(self.model)

    def differs(self, model: ir.Model) -> bool:
        """Say whether ``model`` differs; ModelError if weights cannot be read.

        Its weights cannot be written to from now on, so that its key stays what it is.
        """
        self._compared = None
        key = exact_key(model)
        same = key == self._key
        if not same and make_immutable(model, layout="same"):
            key = exact_key(model)
            same = key == self._key
        if same:
            self.is_still(model)
            return False
        self._compared = (key, {}, model)
        return True

    def is_still(self, model: ir.Model) -> None:
        """Use a model that is known to be the same instead of the copy again."""
        if self._copy is None:
            self._live = model

    def change(self, model: ir.Model) -> Change:
        """Say in what ``model`` differs; ModelError for a cycle or unreadable weights.

        Its weights cannot be written to from now on, so that its key stays what it is.
        """
        if not self.differs(model):
            return Change.NONE
        assert self._compared is not None, "it was compared just now"
        key, hashes, _ = self._compared
        if _census(model) != self._counts:
            return Change.COMPUTATION  # no hashes could be equal, and they take longer
        in_notes = differ_in_notes(self._key, key)
        if in_notes and read_notes(self.model, self._key, key) != read_notes(
            model, self._key, key
        ):
            return Change.ANNOTATIONS  # no hashes could be equal
        for noted, larger in ((False, Change.COMPUTATION), (True, Change.ANNOTATIONS)):
            if not noted and in_notes:
                continue  # these hashes are equal, and take longer than the rest
            hashes[noted] = canonical_hash(model, annotations=noted)
            if hashes[noted] != self._hash(annotations=noted):
                return larger
        return Change.NAMES


def _census(model: ir.Model) -> Key:
    """Count what models of equal canonical hashes have as many of."""
    graph = model.graph
    nodes = chain.from_iterable(all_graphs(model))
    operators = Counter((node.domain, node.op_type, node.overload) for node in nodes)
    return (operators, len({*graph.inputs, *graph.initializers.values()}), len(graph.outputs))


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_TENSORS = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS)
_MOST = 3
_SMALL = 1 << 12
"""Bytes of a tensor that is compared in one piece, which most are."""
_HELP = (
    "no file was replaced; check the disk and the memory of this machine, "
    "and report the model if it happens again"
)

ContentPart = tuple[str, Key | ir.TensorProtocol]
"""A place in a model, and what is there."""


@dataclass
class ReadBack:
    """Reads a file back before it replaces another one.

    ``remarks`` are doc strings, metadata and noted types of inner values: the ONNX text form
    has none. ``parts`` and ``tensor_bytes`` count what was equal.
    """

    remarks: bool = True
    parts: int = 0
    tensor_bytes: int = 0
    seconds: float = 0.0

    def __call__(self, model: ir.Model, load: Callable[[], ir.Model]) -> None:
        """Read the file, and compare.

        VerificationError if the file cannot be read, or holds another model. ModelError if
        weights in memory cannot be read.
        """
        start = time.perf_counter()
        try:
            written = load()
        except ModelError as error:
            told = f"the written file cannot be read back: {error.message}"
            raise VerificationError(told, where=error.where, help=_HELP) from error
        found = list(islice(self._differences(model, written), _MOST + 1))
        self.seconds = time.perf_counter() - start
        if found:
            more = " and more" if len(found) > _MOST else ""
            raise VerificationError(
                "the written file, read back, is not the model that was verified: "
                f"{', '.join(found[:_MOST])}{more}",
                help=_HELP,
            )

    def _differences(self, model: ir.Model, found: ir.Model) -> Iterator[str]:
        """Name the places in which two models differ."""
        pairs = zip_longest(self._parts(model), self._parts(found), fillvalue=("the end", ()))
        for (place, ours), (_, theirs) in pairs:
            if isinstance(ours, tuple) or isinstance(theirs, tuple):
                same = ours == theirs
            else:
                same = same_content(ours, theirs)
                self.tensor_bytes += ours.nbytes
            if same:
                self.parts += 1
            else:
                yield place

    def _parts(self, model: ir.Model) -> Iterator[ContentPart]:
        remarks: Key = (
            model.producer_name or "",
            model.producer_version or "",
            model.domain or "",
            model.model_version or 0,
            model.doc_string or "",
            _properties(model.metadata_props),
            tuple(map(repr, model.device_configurations)),
        )
        yield "the header", (model.ir_version, remarks if self.remarks else None)
        yield "the opset imports", _properties(model.opset_imports)
        yield "the list of functions", tuple(map(repr, model.functions))
        yield from self._graph(model.graph, f"graph '{model.graph.name}'")
        for function in model.functions.values():
            place = f"function '{function.domain}::{function.name}'"
            yield f"{place}, opset imports", _properties(function.opset_imports)
            yield from self._attributes(function.attributes, place)
            yield from self._graph(function.graph, place, of_function=True)

    def _graph(
        self, graph: ir.Graph, place: str, *, of_function: bool = False
    ) -> Iterator[ContentPart]:
        yield (
            place,
            (
                # A file has no place for the name of a function's graph.
                "" if of_function else graph.name or "",
                self._remarks(graph.doc_string, graph.metadata_props),
                len(graph.inputs),
                tuple(graph.initializers),
                len(graph),
                len(graph.outputs),
            ),
        )
        for value in (*graph.inputs, *graph.outputs):
            yield f"{place}, value '{value.name}'", self._value(value, interface=True)
        for name, value in graph.initializers.items():
            here = f"{place}, initializer '{name}'"
            tensor = value.const_value
            if tensor is None:
                yield here, self._value(value, interface=True)
                continue
            # Its type is that of its tensor, whether it is noted or not.
            noted = self._remarks(value.doc_string or tensor.doc_string, {})
            yield here, (name, noted, int(tensor.dtype), tuple(tensor.shape.numpy()))
            yield f"{here}, content", tensor
        for number, node in enumerate(graph):
            here = f"node {number} '{node.name or ''}' ({node.op_type})"
            yield from self._node(
                node, here if place.startswith("graph") else f"{place}, {here}"
            )

    def _node(self, node: ir.Node, place: str) -> Iterator[ContentPart]:
        inputs = [None if value is None else value.name or None for value in node.inputs]
        outputs = [self._value(value, interface=False) for value in node.outputs]
        while outputs and not node.outputs[len(outputs) - 1].name:
            outputs.pop()
        yield (
            place,
            (
                (node.domain, node.op_type, node.overload, node.name or ""),
                tuple(inputs),
                tuple(outputs),
                tuple(sorted(node.attributes)),
                self._remarks(node.doc_string, node.metadata_props),
                tuple(map(repr, node.device_configurations)),
            ),
        )
        yield from self._attributes(node.attributes, place)

    def _attributes(
        self, attributes: Mapping[str, ir.Attr], place: str
    ) -> Iterator[ContentPart]:
        for name in sorted(attributes):
            attribute = attributes[name]
            here = f"{place}, attribute '{name}'"
            kind, value = attribute.type, attribute.value
            if attribute.is_ref() or value is None or kind not in (*_GRAPHS, *_TENSORS):
                yield here, leaf_key(attribute)
            elif kind in _GRAPHS:
                graphs = (value,) if kind == ir.AttributeType.GRAPH else tuple(value)
                yield here, (int(kind), len(graphs))
                for graph in graphs:
                    yield from self._graph(graph, here)
            else:
                tensors = (value,) if kind == ir.AttributeType.TENSOR else tuple(value)
                yield here, (int(kind), len(tensors))
                for tensor in tensors:
                    yield here, (int(tensor.dtype), tuple(tensor.shape.numpy()))
                    yield f"{here}, content", tensor

    def _value(self, value: ir.Value, *, interface: bool) -> Key:
        if not (interface or self.remarks):
            return (value.name or "",)
        # A file has no place for a shape without a type, and for either without a name.
        type_ = value.type if value.name else None
        shape = None if type_ is None else shape_key(value.shape)
        noted = self._remarks(value.doc_string, value.metadata_props)
        return (value.name or "", type_key(type_), shape, noted)

    def _remarks(self, doc_string: str | None, properties: Mapping[str, str]) -> Key | None:
        return (doc_string or "", _properties(properties)) if self.remarks else None


def same_content(ours: ir.TensorProtocol, theirs: ir.TensorProtocol) -> bool:
    """Whether two tensors of one type and shape hold the same bytes; or raise ModelError."""
    if ours.dtype != theirs.dtype or ours.nbytes != theirs.nbytes:
        return False
    if ours.dtype == ir.DataType.STRING:
        return string_data(ours) == string_data(theirs)
    outside = isinstance(ours, ir.ExternalTensor) or isinstance(theirs, ir.ExternalTensor)
    if ours.nbytes <= _SMALL and not outside:
        return bytes(tensor_buffer(ours)) == bytes(tensor_buffer(theirs))
    return all(
        _same_bytes(one, other)
        for one, other in zip(chunks(ours), chunks(theirs), strict=True)
    )


def _same_bytes(one: bytes | memoryview, other: bytes | memoryview) -> bool:
    # Views compare element by element; NumPy compares eight bytes at a time.
    whole = len(one) // 8 * 8
    if len(one) != len(other) or bytes(one[whole:]) != bytes(other[whole:]):
        return False
    ours, theirs = (np.frombuffer(data[:whole], np.uint64) for data in (one, other))
    return np.array_equal(ours, theirs)


def _properties(entries: Mapping[str, str] | Mapping[str, int]) -> Key:
    return tuple(sorted(entries.items()))
