"""Models written by hand: operators as methods, constants from numpy, types as one goes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.surgery.arguments import dtype_of
from onnx_passes.surgery.node_writer import NodeWriter, Operand

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
            close = difflib.get_close_matches(name, self._layers, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise AttributeError(f"no layer {name!r} is registered{hint}", name=name, obj=self)
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
