"""Trained networks in the bodies of If and Loop."""

from pathlib import Path

import onnx
import onnx_ir as ir
from onnx import compose

from onnx_passes.passes.annotation.shape_inference import ShapeInference

FOLDER = Path(__file__).parents[3] / "benchmarks" / "tune"


def network(name, prefix=""):
    return compose.add_prefix(onnx.load(FOLDER / f"{name}.onnx"), prefix).graph


def built(text, **networks):
    """Return a model, with networks in front of the nodes of the graphs of their names."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    graphs = [proto.graph]
    for graph in graphs:
        if inner := networks.get(graph.name):
            nodes = [*inner.node, *graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
            graph.initializer.extend(inner.initializer)
        graphs += [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    onnx.checker.check_model(proto, full_check=True)
    model = ir.from_proto(proto)
    ShapeInference().call(model)
    return model


def cascade(limit=1e6):
    """Return a network of 7 layers that adds the scores of a transformer if it is not sure.

    It is sure if its greatest score is over a limit. Its input ``small/image`` is float32
    [batch, 1, 8, 8], its output ``scores`` [batch, 10].
    """
    large = network("vit", "large/")
    for inner in large.node:
        for place, name in enumerate(inner.input):
            if name == "large/image":
                inner.input[place] = "small/image"
    text = f"""small (float[batch,1,8,8] "small/image") => (float[batch,10] scores) {{
      best = ReduceMax<keepdims = 0>("small/scores")
      limit = Constant<value = float {{{float(limit)}}}>() is_sure = Greater(best, limit)
      [choose] scores = If(is_sure) <
        then_branch = sure () => (float[batch,10] kept) {{ kept = Identity("small/scores") }},
        else_branch = large () => (float[batch,10] both) {{
          both = Add("large/scores", "small/scores") }}> }}"""
    return built(text, small=network("digits-7", "small/"), large=large)


def writer(letters=4):
    """Return a decoder that writes letters in a Loop, each after the 63 letters before it.

    Its input ``tokens`` is int64 [batch, 64]; ``written`` is that with the letters at its end,
    and ``scores`` float32 [letters, batch, 96].
    """
    text = f"""g (int64[batch,64] tokens)
      => (int64[batch,64] written, float[letters,batch,96] scores) {{
      letters = Constant<value = int64 {{{letters}}}>()
      [write] written, scores = Loop(letters, "", tokens) <body = decoder
        (int64 count, bool going, int64[batch,64] "net/tokens")
        => (bool goes_on, int64[batch,64] longer, float[batch,96] each) {{
        last = Constant<value = int64 {{63}}>() each = Gather<axis = 1>("net/scores", last)
        letter = ArgMax<axis = 1>(each) one = Constant<value = int64[1] {{1}}>()
        axis = Constant<value = int64[1] {{1}}>() end = Constant<value = int64[1] {{64}}>()
        rest = Slice("net/tokens", one, end, axis) longer = Concat<axis = 1>(rest, letter)
        goes_on = Identity(going) }}> }}"""
    return built(text, decoder=network("decoder", "net/"))
