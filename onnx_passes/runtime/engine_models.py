"""Models as engines read them: seeded, typed, with barriers, and weights beside the graph.

Serialising the weights of a decoder costs more than one inference, and stops at 2 GiB. So
engines take the graph without them, and the tensors by reference or from files that are
mapped.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableSequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import onnx
import onnx.shape_inference
import onnx_ir as ir
from onnx import helper

from onnx_passes.errors import EngineError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.digest import digest, tensor_digest
from onnx_passes.model.inference import infer
from onnx_passes.model.load import root_cause
from onnx_passes.model.ort_sessions import Types, add_barriers
from onnx_passes.model.protos import all_bodies
from onnx_passes.model.tensor_bytes import release_pages
from onnx_passes.model.walk import (
    all_nodes,
    all_tensors,
    graphs_within,
    node_head,
    node_inputs,
    node_outputs,
    shape_fields,
    subgraphs_of,
    value_fields,
    value_name,
)
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.ops.node_queries import draws_without_seed
from onnx_passes.ops.quantization import DequantizeLinear

INLINE_BYTES = 1024
"""Tensors up to this size stay in the protobuf: engines read shapes and axes from there."""


INLINE_INTEGER_BYTES = 65536
"""As INLINE_BYTES, for int32 and int64, which carry shapes, indices and sizes."""


LOCATION = "weights-by-reference"
"""The location declared for tensors left out; no file of that name has content."""


def value_info_into(
    proto: onnx.GraphProto | onnx.FunctionProto,
    value: ir.Value,
    known: dict[Hashable, onnx.TypeProto],
    name: str | None = None,
) -> None:
    """Write the type and shape of a value, if it has any.

    ``known`` holds what was written, by what decides it, and grows.
    """
    if not value.name or (value.type is None and value.shape is None):
        return
    info = proto.value_info.add()
    key = _type_key(value)
    if key in known:  # hardly any value has a type and shape that no other one has
        info.name = name or value.name
        info.type.CopyFrom(known[key])
        return
    ir.serde.serialize_value_into(info, value, name=name or value.name)
    if key is not None:
        known[key] = onnx.TypeProto()
        known[key].CopyFrom(info.type)


def _type_key(value: ir.Value) -> Hashable:
    """Return what decides how a value is written, except its name; None for no tensor."""
    _, type_, shape, doc_string, properties, _ = value_fields(value)
    if type(type_) is not ir.TensorType or properties or doc_string:
        return None
    if shape is None:
        return type_.dtype, type_.denotation
    dims, denotations = shape_fields(shape)
    sizes = tuple([dim if isinstance(dim, int) else (dim.value,) for dim in dims])
    return type_.dtype, type_.denotation, sizes, tuple(denotations)


def is_large(tensor: ir.TensorProtocol) -> bool:
    """Whether a tensor is left out of the protobuf, and passed to engines by reference."""
    if tensor.dtype == ir.DataType.STRING:
        return False  # has no memory layout that could be shared
    is_index = tensor.dtype in (ir.DataType.INT32, ir.DataType.INT64)
    return tensor.nbytes > (INLINE_INTEGER_BYTES if is_index else INLINE_BYTES)


def declare_into(proto: onnx.TensorProto, name: str, tensor: ir.TensorProtocol) -> None:
    """Declare a tensor whose content lies elsewhere."""
    proto.name = name
    proto.data_type = tensor.dtype.value
    proto.dims.extend(tensor.shape.numpy())
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", LOCATION), ("offset", "0"), ("length", str(tensor.nbytes))):
        proto.external_data.add(key=key, value=text)


def inline_into(proto: onnx.TensorProto, name: str | None, tensor: ir.TensorProtocol) -> None:
    """Write a tensor with its content.

    What ``proto`` held is cleared.
    """
    proto.Clear()
    proto.name = name or ""
    proto.data_type = tensor.dtype.value
    proto.dims.extend(tensor.shape.numpy())
    if tensor.dtype == ir.DataType.STRING:
        for text in tensor.numpy().reshape(-1):
            proto.string_data.append(text if isinstance(text, bytes) else str(text).encode())
    else:
        proto.raw_data = tensor.tobytes()


_FIRST_FUNCTION_VALUE_INFO = 10  # IR version; before it, FunctionProto had no value_info


def _definitions(graph: ir.Graph) -> Counter[str]:
    values = [
        *graph.inputs,
        *(v for v in graph.initializers.values() if not v.is_graph_input()),
    ]
    for node in graph.all_nodes():
        values.extend(node.outputs)
        for inner in subgraphs_of(node):
            values.extend((*inner.inputs, *inner.initializers.values()))
    return Counter(value.name for value in values if value.name)


@dataclass
class GraphWriter:
    """Writes one tree of scopes: the main graph with its subgraphs, or a function's body.

    ``main`` is where large tensors go; None inside a function, which has none. ``renamed`` has
    the values of subgraphs that moved under another name, ``used`` the names that nodes read
    and graphs return, and ``types`` what was written, by what decides it.
    """

    main: onnx.GraphProto | None = None
    model: ir.Model | None = None
    weights: dict[str, ir.TensorProtocol] = field(default_factory=dict)
    renamed: dict[ir.Value, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    types: dict[Hashable, onnx.TypeProto] = field(default_factory=dict)

    @classmethod
    def of_model(cls, main: onnx.GraphProto, model: ir.Model) -> GraphWriter:
        """Return the writer for the main graph of a model."""
        return cls(main, model)

    def graph_into(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        """Write a graph and everything below it."""
        self.interface_into(proto, graph)
        for value in graph.initializers.values():
            self.initializer_into(proto, value)
        self.nodes_into(proto, graph)

    def interface_into(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        """Write the name, the inputs and the outputs of a graph."""
        proto.name = graph.name or "graph"
        for value in graph.inputs:
            ir.serde.serialize_value_into(proto.input.add(), value)
        for value in graph.outputs:
            ir.serde.serialize_value_into(proto.output.add(), value)
            self.used.add(str(value.name))

    def initializer_into(self, proto: onnx.GraphProto, value: ir.Value) -> None:
        """Write an initializer, or declare it where its tensor is large.

        One without a tensor is left out.
        """
        tensor = value.const_value
        if tensor is None or self._leave_out(proto, value, tensor):
            return
        if not value.is_graph_input():
            value_info_into(proto, value, self.types)
        inline_into(proto.initializer.add(), value.name, tensor)

    def drop_unused(self) -> None:
        """Take back what nothing uses: engines drop it first, and then miss its place."""
        if self.main is None:
            return
        inputs = {value.name for value in self.main.input}
        for index in reversed(range(len(self.main.initializer))):
            proto = self.main.initializer[index]
            if proto.name in self.used or proto.name not in self.weights:
                continue
            tensor = self.weights.pop(proto.name)
            if proto.name in inputs:  # without a value, it would have to be fed
                inline_into(self.main.initializer[index], proto.name, tensor)
            else:
                del self.main.initializer[index]

    def nodes_into(
        self, proto: onnx.GraphProto | onnx.FunctionProto, nodes: Iterable[ir.Node]
    ) -> None:
        """Write nodes, and what is known of their outputs.

        The nodes are in order.
        """
        for node in nodes:
            if isinstance(proto, onnx.GraphProto) and self._constant_left_out(proto, node):
                continue
            self._node_into(proto, node)
            for value in node.outputs:
                if not value.is_graph_output():
                    value_info_into(proto, value, self.types)

    def _constant_left_out(self, proto: onnx.GraphProto, node: ir.Node) -> bool:
        # To an engine, a Constant node is an initializer.
        if node.op_type != "Constant":
            return False
        value = node.attributes.get("value")
        return (
            node.op_identifier() == ("", "Constant", "")
            and value is not None
            and not value.is_ref()
            and value.type == ir.AttributeType.TENSOR
            and self._leave_out(proto, node.outputs[0], value.value)
        )

    def _leave_out(
        self, proto: onnx.GraphProto, value: ir.Value, tensor: ir.TensorProtocol
    ) -> bool:
        """Declare ``tensor`` in the main graph and keep it beside, if it is large."""
        name = value.name
        if self.main is None or not name or not is_large(tensor):
            return False
        if proto is not self.main:
            # The interface of a subgraph is by position: its values cannot leave it.
            if value.is_graph_input() or value.is_graph_output():
                return False
            name = self._unused_name(name)
            if name != value.name:
                self.renamed[value] = name
        declare_into(self.main.initializer.add(), name, tensor)
        if not value.is_graph_input() and not value.is_graph_output():
            value_info_into(self.main, value, self.types, name)
        self.weights[name] = tensor
        return True

    @cached_property
    def definitions(self) -> Counter[str]:
        """How many values have a name, over the whole tree."""
        return Counter() if self.model is None else _definitions(self.model.graph)

    def _unused_name(self, name: str) -> str:
        # Sibling subgraphs may use one name twice; in the main graph it would be one value.
        if self.definitions[name] == 1:
            return name
        names = (f"{name}_{count}" for count in itertools.count(1))
        unused = next(name for name in names if not self.definitions[name])
        self.definitions[unused] = 1
        return unused

    def _node_into(self, proto: onnx.GraphProto | onnx.FunctionProto, node: ir.Node) -> None:
        renamed = self.renamed
        inputs = [
            "" if value is None else renamed.get(value) or value_name(value) or ""
            for value in node_inputs(node)
        ]
        self.used.update(inputs)
        outputs = [value_name(value) or "" for value in node_outputs(node)]
        while outputs and not outputs[-1]:
            outputs.pop()
        domain, op_type, overload, name, _ = node_head(node)
        written = proto.node.add(
            op_type=op_type,
            domain=domain,
            name=name or "",
            overload=overload,
            input=inputs,
            output=outputs,
        )
        for attribute in node.attributes.data.values():
            self._attribute_into(written.attribute.add(), attribute)

    def _attribute_into(self, proto: onnx.AttributeProto, attribute: ir.Attr) -> None:
        if attribute.is_ref():
            ir.serde.serialize_reference_attribute_into(proto, attribute)
            return
        match attribute.type:
            case ir.AttributeType.GRAPH:
                self.graph_into(proto.g, attribute.as_graph())
            case ir.AttributeType.GRAPHS:
                for graph in attribute.as_graphs():
                    self.graph_into(proto.graphs.add(), graph)
            case ir.AttributeType.TENSOR:
                tensor = attribute.value  # not as_tensor(), which takes 30 us
                inline_into(proto.t, tensor.name, tensor)
            case ir.AttributeType.TENSORS:
                for tensor in attribute.as_tensors():
                    inline_into(proto.tensors.add(), tensor.name, tensor)
            case _:
                ir.serde.serialize_attribute_into(proto, attribute)
                return
        proto.name = attribute.name
        proto.type = onnx.AttributeProto.AttributeType.Name(attribute.type.value)


def function_into(proto: onnx.FunctionProto, function: ir.Function, ir_version: int) -> None:
    """Write a function, all of its tensors in place.

    Only some versions of the IR have a place for the types of its values.
    """
    proto.domain, proto.name = function.domain, function.name
    proto.overload = function.overload
    opsets_into(proto.opset_import, function.opset_imports)
    proto.input.extend(str(value.name) for value in function.inputs)
    proto.output.extend(str(value.name) for value in function.outputs)
    for attribute in function.attributes.values():
        if attribute.value is None:
            proto.attribute.append(attribute.name)
        else:
            ir.serde.serialize_attribute_into(proto.attribute_proto.add(), attribute)
    GraphWriter().nodes_into(proto, function)
    if ir_version < _FIRST_FUNCTION_VALUE_INFO:
        del proto.value_info[:]


def opsets_into(
    proto: MutableSequence[onnx.OperatorSetIdProto], opsets: Mapping[str, int]
) -> None:
    """Write opset imports."""
    proto.extend(
        onnx.OperatorSetIdProto(domain=domain, version=version)
        for domain, version in opsets.items()
    )


T = TypeVar("T")


@dataclass(frozen=True)
class SplitModel:
    """A model without its weights, and the weights by their name in the main graph.

    The model declares them as external data.
    """

    proto: onnx.ModelProto
    weights: dict[str, ir.TensorProtocol]


_KEPT: WeakKeyDictionary[ir.Model, SplitModel | None] = WeakKeyDictionary()
"""Models that nothing changes, with their parts once they are needed."""
_SPLITTING = Lock()


def keep_split(model: ir.Model) -> None:
    """Declare that nothing will change a model, so that it is split only once."""
    _KEPT.setdefault(model, None)


def forget_split(model: ir.Model) -> None:
    """Say that a model may change again, after :func:`keep_split`."""
    _KEPT.pop(model, None)


def split_weights(model: ir.Model) -> SplitModel:
    """Split weights from ``model`` without changing it or copying a large tensor.

    Large tensors of subgraphs move to the main graph, because engines accept outside data only
    there. Where that would change their meaning, and inside functions, they are serialised in
    place. Documentation and metadata, which engines ignore, are dropped. Operators that have a
    body in :mod:`onnx_passes.ops.bodies` get it as a function. A SerdeError, OSError or
    ValueError says what cannot be serialised or read.
    """
    if model not in _KEPT:
        return _split(model)
    with _SPLITTING:  # engines ask on several threads
        kept = _KEPT[model]
        if kept is None:
            kept = _KEPT[model] = _split(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(kept.proto)
    return SplitModel(proto, dict(kept.weights))


def _split(model: ir.Model) -> SplitModel:
    proto = onnx.ModelProto(ir_version=model.ir_version)
    if model.domain:
        proto.domain = model.domain
    opsets_into(proto.opset_import, model.opset_imports)
    writer = GraphWriter.of_model(proto.graph, model)
    writer.graph_into(proto.graph, model.graph)
    writer.drop_unused()
    for function in model.functions.values():
        function_into(proto.functions.add(), function, model.ir_version)
    attach_bodies(proto)
    return SplitModel(proto, writer.weights)


def split_for_engine(
    model: ir.Model, load: Callable[[ir.TensorProtocol], T]
) -> tuple[onnx.ModelProto, dict[str, T]]:
    """Split weights from ``model``, in the form of an engine.

    ``load`` makes the engine's form of a tensor. An EngineError says what cannot be serialised
    or read.
    """
    try:
        split = split_weights(model)
    except (ir.serde.SerdeError, OSError, ValueError, TypeError) as error:
        raise EngineError(f"the model cannot be serialised: {root_cause(error)}") from error
    weights: dict[str, T] = {}
    for name, tensor in split.weights.items():
        try:
            weights[name] = load(tensor)
        except (OSError, ValueError) as error:
            raise EngineError(
                f"the data of weight {name!r} cannot be read: {error}",
                help="keep the external data beside the model that it belongs to",
            ) from error
    return split.proto, weights


def content_digest(model: ir.Model) -> bytes:
    """Return a digest of a model, with its names and the content of its weights.

    Raises ModelError if a weight cannot be read.
    """
    proto, weights = split_for_engine(model, lambda tensor: tensor)
    return digest(
        proto.SerializeToString(deterministic=True),
        tuple((name, tensor_digest(tensor)) for name, tensor in sorted(weights.items())),
    )


LARGE = 100 << 20
"""Bytes of weights from which on engines keep no copies, unless the user asks for them.

Copies of convolutions take more than three times as much: the layout in blocks, and what
normalizations are folded into.
"""


class WeightFolder(NamedTuple):
    """A folder with external data of a model.

    ``size`` counts bytes of numbers of at least 32 bits, because that is what kernels of a CPU
    read.
    """

    path: str
    size: int

    @property
    def is_large(self) -> bool:
        """Whether copies of these weights would take much memory."""
        return self.size > LARGE


EMPTY = WeightFolder(str(Path(__file__).with_name("nothing")), 0)
"""A folder with an empty file of the name under which weights in memory are declared."""


def files_folder(model: ir.Model) -> WeightFolder | None:
    """Return the folder that holds most of a model's external data; None without any.

    Weights that nothing reads do not count: engines do not see them.
    """
    unread = {
        id(value.const_value)
        for value in model.graph.initializers.values()
        if not (value.uses() or value.is_graph_output())
    }
    sizes: Counter[str] = Counter()
    for tensor in all_tensors(model) if sys.byteorder == "little" else ():
        if isinstance(tensor, ir.ExternalTensor) and id(tensor) not in unread:
            sizes[str(Path(tensor.path).resolve().parent)] += max(
                tensor.nbytes, 4 * tensor.size
            )
    return WeightFolder(*sizes.most_common(1)[0]) if sizes else None


def in_folder(tensor: ir.TensorProtocol, folder: WeightFolder | None) -> bool:
    """Whether an engine finds a tensor in a file of that folder; if so, releases its pages."""
    if folder is None or not isinstance(tensor, ir.ExternalTensor):
        return False
    path = Path(tensor.path).resolve()
    if str(path.parent) != folder.path or not path.is_file():
        return False
    release_pages(tensor)
    return True


def locate_files(
    proto: onnx.ModelProto, weights: dict[str, T | ir.TensorProtocol]
) -> dict[str, T]:
    """Say in a protobuf where the tensors among ``weights`` lie, and return the others."""
    others: dict[str, T] = {}
    files: dict[str, ir.ExternalTensor] = {}
    for name, value in weights.items():
        if isinstance(value, ir.ExternalTensor):
            files[name] = value
        else:
            others[name] = value  # type: ignore[assignment]  # a protocol cannot be ruled out
    for initializer in proto.graph.initializer:
        tensor = files.get(initializer.name)
        if tensor is not None:
            del initializer.external_data[:]
            place = (
                ("location", Path(tensor.path).resolve().name),
                ("offset", str(tensor.offset or 0)),
                ("length", str(tensor.nbytes)),
            )
            for key, text in place:
                initializer.external_data.add(key=key, value=text)
    return others


def prevent_integer_packing(proto: onnx.ModelProto) -> None:
    """Let ONNX Runtime make no other layout of integer weights in files.

    Its rule for MatMulNBits copies constants that a node reads beside values in float, so
    these become inputs with a default. Without prepacking that kernel computes what
    DequantizeLinear and MatMul do. Kernels over integers alone, which read a weight as it is,
    stay: their nodes read two DequantizeLinear.
    """
    made = {
        node.output[0]: node.input[0]
        for node in proto.graph.node
        if node.op_type == DequantizeLinear.op_type and not node.domain
    }
    single, several = set[str](), {value.name for value in proto.graph.input}
    for node in proto.graph.node:
        read = {made[name] for name in node.input if name in made}
        (single if len(read) == 1 else several).update(read)
    for tensor in proto.graph.initializer:
        if tensor.external_data and tensor.name in single - several:
            proto.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )


def infer_types(model: ir.Model) -> Types:
    """Return the types that onnx infers, weights left out; functions have none.

    The result is empty if each value has a type, or if onnx cannot infer.
    """
    values = (
        v for graph in graphs_within(model.graph) for node in graph for v in node.outputs
    )
    if all(value.type is not None for value in values if value.name):
        return {}
    try:
        proto = infer(split_weights(model).proto, data_prop=False)
    except (onnx.shape_inference.InferenceError, ir.serde.SerdeError, OSError, ValueError):
        return {}
    found: Types = {}
    graphs = (body for _, body in all_bodies(proto) if isinstance(body, onnx.GraphProto))
    for info in (info for graph in graphs for info in graph.value_info):
        if number := info.type.tensor_type.elem_type:
            found.setdefault(info.name, set()).add(ir.DataType(number))
    return found


def insert_barriers(model: ir.Model) -> ir.Model:
    """Return a model in which ONNX Runtime rounds each value below float32.

    Every reader of a node's result of such a type, in the same graph or a nested one, reads it
    behind two Identity nodes. The result keeps its name, so graph outputs and the interface
    stay as they are, and a value that becomes an output changes no other. Graph inputs,
    initializers and Constants need no barrier: to widen them loses nothing. Values of unknown
    type have one if the model has any value below float32.

    Holds for sessions without graph optimizations, which remove Identity nodes. A model that
    needs no barrier is returned itself, others as a copy that shares tensors.
    """
    return add_barriers(model, infer_types)


def assign_seeds(model: ir.Model, seed: int) -> ir.Model:
    """Return a model whose random operators have seeds of their own.

    A seed follows from the name of the node's first output, so that it stays the same whatever
    is rewritten around the node. ONNX Runtime would otherwise number its generators, and every
    node less shifts those after it. A model whose random operators all have seeds is returned
    itself, others as a copy.
    """
    if not any(map(draws_without_seed, all_nodes(model))):
        return model
    copy = copy_model(model)
    for node in all_nodes(copy):
        if draws_without_seed(node):
            text = f"{seed} {node.outputs[0].name}".encode()
            number = int.from_bytes(hashlib.sha256(text).digest()[:2], "big")
            kind = ir.AttrInt64 if node.op_type == "Dropout" else ir.AttrFloat32
            node.attributes["seed"] = kind("seed", number)
    return copy
