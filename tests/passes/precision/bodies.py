"""Trained networks in the bodies of If and Loop."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, compose, helper, numpy_helper

from onnx_passes.passes.annotation.shape_inference import ShapeInference

FOLDER = Path(__file__).parents[3] / "benchmarks" / "tune"


def network(name, prefix):
    return compose.add_prefix(onnx.load(FOLDER / f"{name}.onnx"), prefix).graph


def body(graph, inputs, outputs, before=(), after=()):
    """Return a network as a body, which reads what it needs from around it."""
    return helper.make_graph(
        [*before, *graph.node, *after], "body", inputs, outputs, list(graph.initializer)
    )


def port(name, kind=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def node(text):
    """Return a node written as ``y = Op(x, ...)``, without attributes."""
    outputs, _, call = text.partition(" = ")
    operator, _, inputs = call.rstrip(")").partition("(")
    return helper.make_node(operator, inputs.split(", "), outputs.split(", "))


def finished(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.checker.check_model(proto, full_check=True)
    model = ir.from_proto(proto)
    ShapeInference().call(model)
    return model


def cascade(limit=1e6):
    """Return a network of 7 layers that adds the scores of a transformer if it is not sure.

    It is sure if its greatest score is over a limit. Its input ``small/image`` is float32
    [batch, 1, 8, 8], its output ``scores`` [batch, 10].
    """
    small, large = network("digits-7", "small/"), network("vit", "large/")
    for inner in large.node:
        for place, name in enumerate(inner.input):
            if name == "large/image":
                inner.input[place] = "small/image"
    shape = ["batch", 10]
    sure = body(
        onnx.GraphProto(),
        [],
        [port("kept", shape=shape)],
        [node("kept = Identity(small/scores)")],
    )
    both = node("both = Add(large/scores, small/scores)")
    unsure = body(large, [], [port("both", shape=shape)], after=[both])
    nodes = [
        *small.node,
        helper.make_node("ReduceMax", ["small/scores"], ["best"], keepdims=0),
        constant("limit", np.float32(limit)),
        node("is_sure = Greater(best, limit)"),
        helper.make_node(
            "If", ["is_sure"], ["scores"], then_branch=sure, else_branch=unsure, name="choose"
        ),
    ]
    return finished(
        nodes,
        [port("small/image", shape=["batch", 1, 8, 8])],
        [port("scores", shape=shape)],
        small.initializer,
    )


def writer(letters=4):
    """Return a decoder that writes letters in a Loop, each after the 63 letters before it.

    Its input ``tokens`` is int64 [batch, 64]; ``written`` is that with the letters at its end,
    and ``scores`` float32 [letters, batch, 96].
    """
    decoder = network("decoder", "net/")
    count, going = port("count", TensorProto.INT64, []), port("going", TensorProto.BOOL, [])
    tokens = port("net/tokens", TensorProto.INT64, ["batch", 64])
    after = [
        constant("last", np.int64(63)),
        helper.make_node("Gather", ["net/scores", "last"], ["each"], axis=1),
        helper.make_node("ArgMax", ["each"], ["letter"], axis=1),
        *(constant(n, np.array([v])) for n, v in (("one", 1), ("axis", 1), ("end", 64))),
        node("rest = Slice(net/tokens, one, end, axis)"),
        helper.make_node("Concat", ["rest", "letter"], ["longer"], axis=1),
        node("goes_on = Identity(going)"),
    ]
    outputs = [
        port("goes_on", TensorProto.BOOL, []),
        port("longer", TensorProto.INT64, ["batch", 64]),
        port("each", shape=["batch", 96]),
    ]
    loop = helper.make_node(
        "Loop",
        ["letters", "", "tokens"],
        ["written", "scores"],
        body=body(decoder, [count, going, tokens], outputs, after=after),
        name="write",
    )
    return finished(
        [constant("letters", np.int64(letters)), loop],
        [port("tokens", TensorProto.INT64, ["batch", 64])],
        [
            port("written", TensorProto.INT64, ["batch", 64]),
            port("scores", shape=["letters", "batch", 96]),
        ],
    )
