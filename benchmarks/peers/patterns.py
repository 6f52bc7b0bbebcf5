"""Which operators and chains one result has that another has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx

Chain = tuple[str, ...]


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph and those within its nodes."""
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(attribute.g)
                waiting.extend(attribute.graphs)


def nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return all nodes, those of subgraphs and functions included."""
    found = [node for graph in graphs(model) for node in graph.node]
    return found + [node for function in model.functions for node in function.node]


def histogram(model: onnx.ModelProto) -> Counter[str]:
    """Count nodes by operator."""
    return Counter(node.op_type for node in nodes(model))


def chains(model: onnx.ModelProto, length: int) -> Counter[Chain]:
    """Count paths of this many nodes by their operators; a constant operand is ``(c)``."""
    fixed = {t.name for graph in graphs(model) for t in graph.initializer}
    every = nodes(model)
    fixed |= {out for node in every if node.op_type == "Constant" for out in node.output}
    made = {out: node for node in every for out in node.output}

    def label(node: onnx.NodeProto) -> str:
        return node.op_type + ("(c)" if any(name in fixed for name in node.input) else "")

    paths = [(node,) for node in every if node.op_type != "Constant"]
    for _ in range(length - 1):
        paths = [
            (made[name], *path)
            for path in paths
            for name in dict.fromkeys(path[0].input)
            if name in made and made[name].op_type != "Constant"
        ]
    return Counter(tuple(label(node) for node in path) for path in paths)


def surplus(
    ours: Counter[Chain], theirs: Counter[Chain], most: int
) -> list[tuple[Chain, int]]:
    """Return the chains that ours has more of, the greatest surplus first."""
    return (ours - theirs).most_common(most)
