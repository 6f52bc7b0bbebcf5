"""Nodes and constants, written into a graph under names of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.walk import all_graphs
from onnx_passes.plain import PlainMapping
from onnx_passes.surgery.arguments import (
    as_array,
    attribute_of,
    check_call,
    count_outputs,
    dtype_of,
    near,
    outputs_of_bodies,
)
from onnx_passes.surgery.infer import infer_outputs

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
        self._taken = _names(model)
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
        tensor = ir.tensor(array, name=name)
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


def _names(model: ir.Model) -> set[str]:
    names: set[str] = set()
    for graph in all_graphs(model):
        names |= {str(v.name) for v in graph.inputs}
        names |= set(graph.initializers)
        for node in graph:
            names |= {str(v.name) for v in node.outputs if v.name}
            if node.name:
                names.add(node.name)
    return names
