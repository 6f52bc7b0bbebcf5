"""What every builder needs: nodes and weights with the names an exporter gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
Port = tuple[str, int, tuple[int | str, ...]]
"""Name, element type and shape of a model's input or output."""


class GraphBuilder:
    """Writes a graph node by node; results are named after the scope and operator."""

    def __init__(self, seed: int) -> None:
        """Start empty, with a generator for the weights."""
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._scopes: list[str] = []
        self._count: Counter[str] = Counter()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix what is built inside with the name of a module."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def node(self, op_type: str, *inputs: str, output: str | None = None, **attrs: Any) -> str:
        """Add a node with one output and return the output's name."""
        stem = "/" + "/".join([*self._scopes, op_type])
        number, self._count[stem] = self._count[stem], self._count[stem] + 1
        name = f"{stem}_{number}" if number else stem
        result = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(op_type, inputs, [result], name, **attrs))
        return result

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Add a Constant node; lists are vectors, numbers scalars."""
        return self.node("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def initializer(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Store a tensor under its name within the scope."""
        full = ".".join([*self._scopes, name])
        self.initializers.append(numpy_helper.from_array(value, full))
        return full

    def normal(self, name: str, *shape: int, mean: float = 0.0, std: float) -> str:
        """Store a float32 tensor of normal values."""
        value = self.rng.standard_normal(shape, np.float32)
        return self.initializer(name, value * np.float32(std) + np.float32(mean))

    def linear(self, x: str, rows: int, columns: int, *, bias: bool = True) -> str:
        """Multiply by a weight that keeps the variance; add a bias with its own node."""
        weight = self.normal("weight", rows, columns, std=rows**-0.5)
        x = self.node("MatMul", x, weight)
        if not bias:
            return x
        # The bias comes first, as exporters write it.
        return self.node("Add", self.normal("bias", columns, std=0.02), x)

    def size(self, x: str, axis: int) -> str:
        """``x.size(axis)`` as a vector of one element: Shape, Gather, Unsqueeze."""
        index, axes = self.constant(axis, np.int64), self.constant([0], np.int64)
        return self.node(
            "Unsqueeze", self.node("Gather", self.node("Shape", x), index, axis=0), axes
        )

    def reshape(self, x: str, sizes: Sequence[str | int]) -> str:
        """Reshape to sizes that are numbers or one-element vectors in the graph."""
        parts = [s if isinstance(s, str) else self.constant([s], np.int64) for s in sizes]
        return self.node("Reshape", x, self.node("Concat", *parts, axis=0))

    def model(
        self, name: str, inputs: Sequence[Port], outputs: Sequence[Port], opset: int
    ) -> onnx.ModelProto:
        """Return the model, checked with shape inference in strict mode."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(*port) for port in inputs],
            [helper.make_tensor_value_info(*port) for port in outputs],
            self.initializers,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=8,
            producer_name=f"benchmarks.models {name}",
        )
        onnx.checker.check_model(model, full_check=True)
        return model
