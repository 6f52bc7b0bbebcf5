"""Models written by hand: operators as methods, constants from numpy, types inferred.

Each call of an operator is checked against its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import ModelError, UsageError, did_you_mean
from onnx_passes.model.walk import names_in
from onnx_passes.plain import Plain, PlainMapping

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def dtype_of(given: Plain) -> ir.DataType:
    """Return the element type that a numpy type, a name or an onnx-ir type means."""
    if isinstance(given, ir.DataType):
        return given
    if isinstance(given, str) and given.upper() in ir.DataType.__members__:
        return ir.DataType[given.upper()]
    try:
        return ir.DataType.from_numpy(np.dtype(given))
    except (TypeError, ValueError) as error:
        names = [name.lower() for name in ir.DataType.__members__]
        hint = near(str(given), names)
        raise UsageError(f"{given!r} is not an element type", help=hint) from error


def as_array(value: object, dtype: ir.DataType | None = None) -> Array:
    """Return an array; floats become float32 and integers int64 if no type is given."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return array if dtype is None else array.astype(dtype.numpy())
    array = np.asarray(value)
    if dtype is not None:
        return array.astype(dtype.numpy())
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def as_tensor(array: Array, name: str | None = None) -> ir.TensorProtocol:
    """Return an array as a tensor; ``ir.tensor`` makes one of text that cannot be written."""
    texts = array.ravel().tolist() if array.dtype.kind in "OSU" else []
    if not texts or not all(isinstance(text, str | bytes) for text in texts):
        return ir.tensor(array, name=name)
    coded = [text.encode() if isinstance(text, str) else text for text in texts]
    return ir.StringTensor(coded, shape=ir.Shape(array.shape), name=name)


def attribute_of(name: str, value: Plain) -> ir.Attr:
    """Return an attribute; arrays become tensors, and types their numbers."""
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, as_tensor(value))
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    scalar = isinstance(value, type) and issubclass(value, np.generic)
    if scalar or isinstance(value, ir.DataType):
        return ir.AttrInt64(name, int(dtype_of(value)))
    if isinstance(value, tuple):
        value = list(value)
    return ir.convenience.convert_attribute(name, value)


def outputs_of_bodies(op_type: str, attributes: PlainMapping) -> int | None:
    """Return how many outputs an operator has by its bodies."""
    for name, besides in (("then_branch", 0), ("body", 1 if op_type == "Loop" else 0)):
        if isinstance(body := attributes.get(name), ir.Graph):
            return len(body.outputs) - besides  # a Loop keeps its condition to itself
    return None


def count_outputs(
    schema: onnx.defs.OpSchema | None, op_type: str, asked: int | Sequence[str] | None
) -> tuple[int, Sequence[str] | None]:
    """Return how many outputs a node gets, and their names if they were given.

    ``asked`` is the number of outputs, or their names. UsageError if neither it nor the
    operator decides.
    """
    if isinstance(asked, str):
        asked = [asked]
    if isinstance(asked, Sequence):
        return len(asked), asked
    if asked is not None:
        return asked, None
    if schema is None:
        return 1, None
    if schema.min_output == 0 or schema.outputs[-1].option == _VARIADIC:
        raise UsageError(
            f"{op_type} has as many outputs as one wants", help="say how many: outputs=2"
        )
    return schema.min_output, None


def check_call(
    schema: onnx.defs.OpSchema | None, op_type: str, count: int, attributes: Iterable[str]
) -> None:
    """Raise UsageError if inputs or attributes are not those of the operator."""
    if schema is None:
        return
    if not schema.min_input <= count <= schema.max_input:
        wanted = f"{schema.min_input}"
        wanted += "" if schema.max_input == schema.min_input else f" to {schema.max_input}"
        names = ", ".join(i.name for i in schema.inputs)
        raise UsageError(
            f"{op_type} takes {wanted} inputs, not {count}", help=f"they are {names}"
        )
    for name in attributes:
        if name not in schema.attributes:
            raise UsageError(
                f"{op_type} has no attribute {name!r} in opset {schema.since_version}",
                help=near(name, schema.attributes),
            )


def near(name: str, known: Iterable[str]) -> str:
    """Suggest the name that was meant."""
    known = sorted(known)
    listed = f"known: {', '.join(known[:12])}" if known else "there are none"
    return did_you_mean(name, known, listed)


_GRAPH = ir.AttributeType.GRAPH
_LARGEST = 1024
"""Elements of a constant that shapes may depend on."""


def infer_outputs(node: ir.Node, schema: onnx.defs.OpSchema, model: ir.Model) -> None:
    """Note types and shapes at the outputs of a node, as far as the schema knows them.

    If the bodies of an If agree, theirs are noted. Opsets and IR version of the model count.
    ModelError if the inputs do not fit the operator.
    """
    bodies = [a.as_graph() for a in node.attributes.values() if a.type == _GRAPH]
    if bodies:
        _copy_types(node, bodies)
        return
    types, data = {}, {}
    for value in node.inputs:
        if value is None or value.name is None:
            continue
        if value.type is None:
            return
        types[value.name] = ir.serde.serialize_value(value).type
        tensor = None if value.is_graph_input() else ir.convenience.get_const_tensor(value)
        if tensor is not None and tensor.size <= _LARGEST:
            data[value.name] = ir.serde.serialize_tensor(tensor)
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            ir.serde.serialize_node(node),
            types,
            data,
            opset_imports=[
                onnx.helper.make_opsetid(domain, version)
                for domain, version in model.graph.opset_imports.items()
            ],
            ir_version=model.ir_version or onnx.IR_VERSION,
        )
    except (
        onnx.checker.ValidationError,  # of types that the operator does not take
        onnx.shape_inference.InferenceError,
        RuntimeError,
    ) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            f"{node.op_type} cannot take these inputs: {reason}",
            where=node.name,
            help="; ".join(_describe(v) for v in node.inputs if v is not None) or None,
        ) from error
    for output in node.outputs:
        proto = found.get(str(output.name))
        if proto is not None:
            noted = ir.serde.deserialize_type_proto_for_type(proto)
            if noted is not None:
                output.type = noted
            shape = ir.serde.deserialize_type_proto_for_shape(proto)
            if shape is not None:
                output.shape = shape


def _copy_types(node: ir.Node, bodies: list[ir.Graph]) -> None:
    if node.op_type != "If" or node.domain != "":
        return  # what repeats stacks and carries: only the whole model shows that
    for output, *given in zip(node.outputs, *(body.outputs for body in bodies), strict=False):
        if len({v.type for v in given}) == 1:
            output.type = given[0].type
        if len({str(v.shape) for v in given}) == 1:
            output.shape = given[0].shape


def _describe(value: ir.Value) -> str:
    return f"{value.name} is {value.type}{'' if value.shape is None else value.shape}"


Operand: TypeAlias = (
    "ir.Value | np.ndarray[Any, Any] | np.generic | float | int | bool | Sequence[Any] | None"
)


class NodeWriter:
    """Writes nodes and constants into a graph, each checked and under a free name.

    Attributes:
        model: The model, at any time.
        graph: The graph that is written into: the model's, or a subgraph.
    """

    def __init__(self, model: ir.Model) -> None:
        """Write behind what the model holds."""
        self.model = model
        self.graph = model.graph
        self._place: tuple[ir.Node, bool] | None = None
        self._taken = names_in(model)
        self._counts: dict[str, int] = {}

    def constant(
        self, value: Operand, name: str | None = None, dtype: object = None
    ) -> ir.Value:
        """Add an initializer.

        Args:
            value: An array, a number or a list.
            name: Its name; by default one that is free.
            dtype: Its type; by default the array's, float32 for floats and int64 for integers.

        Raises:
            UsageError: The name is taken.
        """
        array = as_array(value, None if dtype is None else dtype_of(dtype))
        name = self.name("constant") if name is None else self._claim(name)
        tensor = as_tensor(array, name)
        made = ir.Value(name=name, const_value=tensor)
        made.type, made.shape = ir.TensorType(tensor.dtype), ir.Shape(array.shape)
        self.graph.register_initializer(made)
        return made

    def name(self, stem: str) -> str:
        """Return a name that nothing in the model has, and take it."""
        while True:
            count = self._counts[stem] = self._counts.get(stem, -1) + 1
            name = f"{stem}_{count}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def add(
        self,
        op_type: str,
        inputs: Sequence[Operand],
        attributes: PlainMapping,
        *,
        domain: str = "",
        outputs: int | Sequence[str] | None = None,
        name: str | None = None,
    ) -> ir.Value | tuple[ir.Value, ...]:
        """Write a node; the methods of :attr:`op` are this.

        Args:
            op_type: The operator.
            inputs: Values, arrays, numbers; None for an input left out.
            attributes: By name; arrays become tensors.
            domain: Of the operator.
            outputs: How many, or their names; by default as many as the operator must have.
            name: Name of the node.

        Raises:
            UsageError: There is no such operator or attribute in the opset.
            ModelError: Types or shapes do not fit the operator.
        """
        schema = self._schema(op_type, domain)
        check_call(schema, op_type, len(inputs), attributes)
        if outputs is None and domain == "":
            outputs = outputs_of_bodies(op_type, attributes)
        count, names = count_outputs(schema, op_type, outputs)
        made: list[ir.Value] = []
        node: ir.Node | None = None
        try:
            node = ir.Node(
                domain,
                op_type,
                self._values(inputs, made),
                [attribute_of(n, v) for n, v in attributes.items() if v is not None],
                num_outputs=count,
                name=name or self.name(op_type.lower()),
            )
            for index, output in enumerate(node.outputs):
                stem = f"{op_type.lower()}_out"
                output.name = self._claim(names[index]) if names else self.name(stem)
            if schema is not None:
                infer_outputs(node, schema, self.model)
        except Exception:
            # A node that is not written leaves nothing behind.
            if node is not None:
                for index in range(len(node.inputs)):
                    node.replace_input_with(index, None)
            for value in made:
                del self.graph.initializers[str(value.name)]
            raise
        self._insert(node)
        return node.outputs[0] if count == 1 else tuple(node.outputs)

    def _insert(self, node: ir.Node) -> None:
        if self._place is None:
            self.graph.append(node)
            return
        place, after = self._place
        if after:
            self.graph.insert_after(place, node)
            self._place = (node, True)
        else:
            self.graph.insert_before(place, node)

    def _values(
        self, inputs: Sequence[Operand], made: list[ir.Value]
    ) -> list[ir.Value | None]:
        """Return a value for each input; numbers get the type of a value beside them."""
        beside = next((v.dtype for v in inputs if isinstance(v, ir.Value) and v.dtype), None)
        values: list[ir.Value | None] = []
        for given in inputs:
            if given is None or isinstance(given, ir.Value):
                values.append(given)
                continue
            number = isinstance(given, int | float) and not isinstance(given, bool)
            made.append(self.constant(given, dtype=beside if number else None))
            values.append(made[-1])
        return values

    def _schema(self, op_type: str, domain: str) -> onnx.defs.OpSchema | None:
        version = self.model.graph.opset_imports.get(domain)
        if domain not in ("", "ai.onnx.ml", "ai.onnx.preview.training") or version is None:
            return None
        if onnx.defs.has(op_type, version, domain):
            schema = onnx.defs.get_schema(op_type, version, domain)
            if not schema.deprecated:
                return schema
        known = {s.name for s in onnx.defs.get_all_schemas() if s.domain == domain}
        if op_type in known:
            newest = onnx.defs.get_schema(op_type, domain)
            when = "is gone from" if newest.deprecated else "does not exist yet in"
            raise UsageError(
                f"{op_type} {when} opset {version}",
                help=f"it is there since opset {newest.since_version}",
            )
        raise UsageError(f"there is no operator {op_type!r}", help=near(op_type, known))

    def _claim(self, name: str) -> str:
        if name in self._taken:
            raise UsageError(f"the name {name!r} is taken", help="choose another")
        self._taken.add(name)
        return name


Written: TypeAlias = Any
"""A value or a tuple of values: the operator decides, which no type checker sees."""
Layer: TypeAlias = Callable[..., Written]
Dims: TypeAlias = "Sequence[int | str | None] | None"

OPSET = 21
"""The opset of a new model, where none is asked for."""


class Builder(NodeWriter):
    """Writes nodes into a new model, or into one that is there.

        b = Builder()
        x = b.input("x", np.float32, ("N", 3, 224, 224))
        y = b.op.Relu(b.op.Conv(x, weights, strides=[2, 2]))
        b.output(y, "y")
        model = b.model

    An operator takes values, numpy arrays and numbers, and returns its output, or a tuple of
    them. Numbers get the type of the values beside them. Each node is checked against the
    operator's schema in the model's opset when it is written, and its outputs get types and
    shapes. Names are generated where none are given.

    Attributes:
        model: The model, at any time.
        graph: The graph that is written into: the model's, or a subgraph.
    """

    _layers: ClassVar[dict[str, Layer]] = {}

    def __init__(
        self,
        model: ir.Model | None = None,
        *,
        opset: int = OPSET,
        ir_version: int = 10,
        name: str = "graph",
        opsets: Mapping[str, int] | None = None,
    ) -> None:
        """Begin a model, or continue one.

        Args:
            model: The model to write into; it is changed in place.
            opset: Version of the standard operators of a new model.
            ir_version: IR version of a new model.
            name: Name of the graph of a new model.
            opsets: Versions of other domains of a new model.

        Raises:
            UsageError: There is no such opset.
        """
        if model is None:
            newest = onnx.defs.onnx_opset_version()
            if not 1 <= opset <= newest:
                raise UsageError(f"there is no opset {opset}", help=f"the newest is {newest}")
            imports = {"": opset, **(opsets or {})}
            graph = ir.Graph([], [], nodes=[], opset_imports=imports, name=name)
            model = ir.Model(graph, ir_version=ir_version)
        super().__init__(model)

    @property
    def op(self) -> Operators:
        """The standard operators, as methods."""
        return Operators(self, "")

    def domain(self, name: str, version: int = 1) -> Operators:
        """Return the operators of another domain as methods; it is imported if it is not.

        Args:
            name: The domain.
            version: Its opset version, if it is not imported yet.
        """
        self.model.graph.opset_imports.setdefault(name, version)
        return Operators(self, name)

    @classmethod
    def register(cls, name: str) -> Callable[[Layer], Layer]:
        """Make a function a method of every builder; it gets the builder first.

        Raises:
            UsageError: A builder has something of that name already.
        """

        def add(layer: Layer) -> Layer:
            if hasattr(cls, name) or not name.isidentifier():
                raise UsageError(
                    f"{name!r} cannot be the name of a layer", help="choose another identifier"
                )
            cls._layers[name] = layer
            return layer

        return add

    def __getattr__(self, name: str) -> Layer:
        """Return a registered layer, with this builder as its first argument."""
        layer = type(self)._layers.get(name)
        if layer is None:
            told = f"no layer {name!r} is registered; {did_you_mean(name, self._layers)}"
            raise AttributeError(told, name=name, obj=self)
        return lambda *args, **kwargs: layer(self, *args, **kwargs)

    def input(
        self,
        name: str,
        dtype: object = np.float32,
        shape: Dims = None,
        *,
        doc: str | None = None,
    ) -> ir.Value:
        """Add an input.

        Args:
            name: Its name.
            dtype: A numpy or onnx-ir type.
            shape: Sizes, names of dynamic dimensions, None for unnamed ones; None for an
                unknown rank.
            doc: Its documentation.

        Raises:
            UsageError: The name is taken.
        """
        self._claim(name)
        value = ir.Value(
            name=name,
            type=ir.TensorType(dtype_of(dtype)),
            shape=None if shape is None else ir.Shape(list(shape)),
            doc_string=doc,
        )
        self.graph.inputs.append(value)
        return value

    def output(
        self,
        value: ir.Value,
        name: str | None = None,
        dtype: object = None,
        shape: Dims = None,
    ) -> ir.Value:
        """Make a value an output, under a name of its own if one is given.

        An input, an initializer or another output goes through an Identity, so that it keeps
        its own name.

        Args:
            value: The value.
            name: What callers call it.
            dtype: Its type, if no schema says it, behind operators of other domains.
            shape: Its dimensions, likewise.

        Raises:
            UsageError: The name is taken.
        """
        if name is not None and name != value.name:
            self._claim(name)
            fixed = value.is_graph_input() or value.is_initializer() or value.is_graph_output()
            if fixed or value.producer() is None:
                value = self.op.Identity(value)
            value.name = name
        if dtype is not None:
            value.type = ir.TensorType(dtype_of(dtype))
        if shape is not None:
            value.shape = ir.Shape(list(shape))
        self.graph.outputs.append(value)
        return value

    def subgraph(self, body: Layer, *inputs: tuple[str, object, Dims]) -> ir.Graph:
        """Write the body of an If, Loop or Scan, and return it for the attribute.

            b.op.If(condition, then_branch=b.subgraph(lambda b: b.op.Relu(x)), ...)

        Args:
            body: Gets a builder of the body and its inputs; returns the outputs. Values from
                around may be read.
            inputs: Name, type and shape of each input of the body.
        """
        inner = Builder(self.model)
        inner.graph = ir.Graph([], [], nodes=[], name=self.name("body"))
        inner._taken, inner._counts = self._taken, self._counts
        found = body(inner, *(inner.input(*given) for given in inputs))
        for value in found if isinstance(found, tuple | list) else (found,):
            inside = value.graph is inner.graph and not value.is_initializer()
            inner.graph.outputs.append(value if inside else inner.op.Identity(value))
        return inner.graph

    def before(self, node: ir.Node) -> Builder:
        """Return a builder that writes in front of a node."""
        return self._at(node, after=False)

    def after(self, node: ir.Node) -> Builder:
        """Return a builder that writes behind a node."""
        return self._at(node, after=True)

    def _at(self, node: ir.Node, *, after: bool) -> Builder:
        graph = node.graph
        if not isinstance(graph, ir.Graph):
            raise UsageError(f"the node {node.name!r} is in no graph")
        made = Builder(self.model)
        made.graph, made._place = graph, (node, after)
        made._taken, made._counts = self._taken, self._counts
        return made


class Operators:
    """The operators of a domain as methods of a builder."""

    def __init__(self, builder: Builder, domain: str) -> None:
        """Keep the builder."""
        self._builder, self._domain = builder, domain

    def __getattr__(self, op_type: str) -> Callable[..., Written]:
        """Return a function that writes a node of an operator."""
        if op_type.startswith("_"):
            raise AttributeError(op_type)

        def write(
            *inputs: Operand,
            outputs: int | Sequence[str] | None = None,
            name: str | None = None,
            **attributes: object,
        ) -> Written:
            return self._builder.add(
                op_type, inputs, attributes, domain=self._domain, outputs=outputs, name=name
            )

        return write
