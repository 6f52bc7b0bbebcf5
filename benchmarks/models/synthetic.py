"""Models with one property each: very many nodes, or very many bytes."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.models.builder import FLOAT, GraphBuilder

OPSET = 18
ALIGNMENT = 64 * 1024
"""Offsets into external data are multiples of this, so that any system can map them."""
STEPS = ("Add", "Tanh", "Mul", "Relu", "Identity", "Neg", "Sub", "Abs", "Sigmoid", "Div")
BINARY = {"Add", "Sub", "Mul", "Div"}
_RECENT = 30
_UNARY = ("Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Identity")
_BINARY = ("Add", "Mul", "Sub", "Max")


def chain(nodes: int = 1000, width: int = 8, seed: int = 0) -> onnx.ModelProto:
    """Build one path of exactly ``nodes`` cheap elementwise nodes of ten operators.

    Every tenth is an Identity. ``x`` and ``y`` are float32 [batch,width]. Ten operators, so
    that rules indexed by operator look at a tenth of the nodes each.
    """
    b = GraphBuilder(seed)
    x = "x"
    for number in range(nodes):
        op_type = STEPS[number % len(STEPS)]
        operands = [x]
        if op_type in BINARY:
            operands.append(b.normal(f"c{number}", width, mean=1.5, std=0.1))
        x = b.node(op_type, *operands, output="y" if number == nodes - 1 else None)
    return b.model(
        "chain",
        [("x", FLOAT, ("batch", width))],
        [("y", FLOAT, ("batch", width))],
        OPSET,
    )


def random_graph(nodes: int = 1000, width: int = 8, seed: int = 0) -> onnx.ModelProto:
    """Build a random graph of about ``nodes`` cheap nodes that read recent values.

    One step in ten is a pair of Transposes that cancel out. Values that nothing reads are
    added up at the end. ``x`` and ``y`` are float32 [batch,width].
    """
    b = GraphBuilder(seed)
    values, unread = ["x"], dict[str, None]()

    def read() -> str:
        value = values[-int(b.rng.integers(1, min(len(values), _RECENT) + 1))]
        unread.pop(value, None)
        return value

    while len(b.nodes) < nodes:
        kind = b.rng.random()
        if kind < 0.1:
            x = b.node("Transpose", b.node("Transpose", read(), perm=[1, 0]), perm=[1, 0])
        elif kind < 0.5:
            x = b.node(str(b.rng.choice(_UNARY)), read())
        else:
            constant = kind < 0.65
            other = b.normal(f"c{len(b.nodes)}", width, std=1.0) if constant else read()
            x = b.node("Tanh", b.node(str(b.rng.choice(_BINARY)), read(), other))
        values.append(x)
        unread[x] = None
    left = deque(unread)
    while len(left) > 2:
        left.append(b.node("Add", left.popleft(), left.popleft()))
    b.node("Add", left[0], left[-1], output="y")
    port = ("batch", width)
    return b.model("random_graph", [("x", FLOAT, port)], [("y", FLOAT, port)], OPSET)


def big_external(
    path: Path | str, gigabytes: float = 3.0, width: int = 4096, seed: int = 0
) -> int:
    """Write a chain of MatMul and Tanh whose weights lie beside it, in ``<name>.data``.

    Weights are made and written one at a time, so memory holds ``4 * width**2`` bytes of
    them. ``x`` and ``y`` are float32 [batch,width].

    Args:
        path: Where the ``.onnx`` file goes.
        gigabytes: Size of the weights in 10^9 bytes, rounded to whole matrices, at least one.
        width: Rows and columns of each float32 matrix.
        seed: Of the weights.

    Returns:
        The size of the data file in bytes.
    """
    path = Path(path)
    data = path.with_name(path.name + ".data")
    length = 4 * width * width
    stride = -(-length // ALIGNMENT) * ALIGNMENT
    b = GraphBuilder(seed)
    x, count = "x", max(1, round(gigabytes * 1e9 / length))
    with data.open("wb") as file:
        for number in range(count):
            file.seek(number * stride)
            weight = b.rng.standard_normal((width, width), np.float32)
            weight *= np.float32(width**-0.5)
            file.write(weight.astype("<f4", copy=False).data)
            tensor = TensorProto(
                name=f"weight.{number}",
                dims=[width, width],
                data_type=TensorProto.FLOAT,
                data_location=TensorProto.EXTERNAL,
            )
            for key, value in {
                "location": data.name,
                "offset": number * stride,
                "length": length,
            }.items():
                tensor.external_data.add(key=key, value=str(value))
            b.initializers.append(tensor)
            x = b.node("MatMul", x, tensor.name)
            x = b.node("Tanh", x, output="y" if number == count - 1 else None)
    ports = [
        helper.make_tensor_value_info(name, FLOAT, ["batch", width]) for name in ("x", "y")
    ]
    graph = helper.make_graph(b.nodes, "big_external", ports[:1], ports[1:], b.initializers)
    opset = [helper.make_opsetid("", OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    onnx.checker.check_model(path, full_check=True)
    return data.stat().st_size
