"""Models with one property each: very many nodes, or very many bytes."""

from __future__ import annotations

from collections import deque

import onnx

from benchmarks.models.builder import FLOAT, GraphBuilder

OPSET = 18
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
