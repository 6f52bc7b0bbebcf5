"""The models that faults are planted in: networks, and rows of blocks with rare operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, numpy_helper, parser

from benchmarks.faults.case import Source
from benchmarks.models import llama_decoder, resnet50
from benchmarks.models import transformer as build_transformer
from onnx_passes.arrays import Array
from onnx_passes.runtime.engine_base import Feeds

EXPORTED = Path(__file__).parents[2] / "out" / "networks"
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
SMALL = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100}

TRANSFORMER = Source("transformer", build_transformer, lambda: build_transformer(**SMALL))
LLAMA = Source(
    "llama decoder",
    lambda: llama_decoder(layers=4, hidden=512, heads=8, kv_heads=2, ffn=1024, vocab=1000),
    lambda: llama_decoder(**SMALL, kv_heads=2),
)
RESNET = Source("ResNet-50", resnet50, resnet50)


def source(name: str, text: str, *, opset: str = "20", weights: str = "") -> Source:
    """Make a model from its text.

    Args:
        name: What the table calls the model.
        text: The ONNX text form; IR version and opset may be left out.
        opset: Version of the operator set, if the text does not say it.
        weights: Initializers of random numbers, ``w 8x8 float16``, and numbers, ``c 8.0``.
    """

    def build() -> onnx.ModelProto:
        own = ', "local" : 1' if "local." in text else ""
        header = f'<ir_version: 10, opset_import: ["" : {opset}{own}]> main '
        proto = parser.parse_model(text if text.startswith("<") else header + text)
        for weight in filter(None, weights.split(", ")):
            key, shape, *dtype = weight.split()
            sizes = () if "." in shape else map(int, shape.split("x"))
            data = rnd(*sizes, scale=0.3) if sizes else np.float32(shape)
            data = data.astype(dtype[0] if dtype else np.float32)
            proto.graph.initializer.append(numpy_helper.from_array(data, key))
        return proto

    return Source(name, build, build)


def rnd(*shape: int, scale: float = 1.0, shift: float = 0.0, dtype: Any = np.float32) -> Array:
    """Return normal numbers, the same ones for the same shape."""
    drawn = np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape)
    return np.asarray(drawn * scale + shift, dtype)


def network(name: str, path: str, *, change: str = "") -> Source:
    """Read an exported network, or one of onnx's light models.

    Args:
        name: What the table calls the model.
        path: Name of its file.
        change: What changes the graph, one of ``CHANGES``, and a number for it.
    """

    def build() -> onnx.ModelProto:
        folder = LIGHT if path.startswith("light_") else EXPORTED
        proto = onnx.load(folder / f"{path}.onnx")
        if change:
            how, *numbers = change.split()
            CHANGES[how](proto.graph, *map(float, numbers))
        return proto

    return Source(name, build, build)


def free(graph: GraphProto) -> None:
    """Make height and width of the pictures that a network takes dynamic."""
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 4 and value.name not in {i.name for i in graph.initializer}:
            prefix = "out_" if value in graph.output else ""
            dims[2].dim_param, dims[3].dim_param = f"{prefix}height", f"{prefix}width"


def bounds(graph: GraphProto, high: float) -> None:
    """Add the bounds of a Clip from 0."""
    for name, number in (("bound_0", 0.0), ("bound_1", high)):
        graph.initializer.append(numpy_helper.from_array(np.float32(number), name))


def relus_bounded(graph: GraphProto, high: float) -> None:
    """Make each Relu a Clip from 0 to ``high``."""
    bounds(graph, high)
    for node in graph.node:
        if node.op_type == "Relu":
            node.op_type = "Clip"
            node.input.extend(["bound_0", "bound_1"])


GUARDED = """g (float x) => (float y) {{
  most_{i} = ReduceMax<keepdims = 0>({x}) usual_{i} = Less(most_{i}, bound_1)
  {y} = If(usual_{i}) <
    then_branch = Relu_{i} () => (float[?,?,?,?] Relu_{i}) {{ Relu_{i} = Relu({x}) }},
    else_branch = Clip_{i} () => (float[?,?,?,?] Clip_{i}) {{
      Clip_{i} = Clip({x}, bound_0, bound_1) }}> }}"""


def relus_guarded(graph: GraphProto, high: float) -> None:
    """Make each Relu an If: beyond ``high`` its result is bounded."""
    nodes = list(graph.node)
    del graph.node[:]
    bounds(graph, high)
    for i, node in enumerate(nodes):
        if node.op_type == "Relu":
            text = GUARDED.format(i=i, x=f'"{node.input[0]}"', y=f'"{node.output[0]}"')
            graph.node.extend(parser.parse_graph(text).node)
        else:
            graph.node.append(node)


CHANGES: dict[str, Callable[..., None]] = {
    each.__name__: each for each in (free, relus_bounded, relus_guarded)
}


def blocks(
    name: str,
    body: str,
    *,
    x: str = "float[4,4] x",
    y: str = "float[4,4]",
    constants: str = "",
    count: str = "8",
    odd: str = "",
    opset: str = "20",
) -> Source:
    """Make a model of many equal blocks that all read one input.

    Args:
        name: What the table calls the model.
        body: Text of a block, ``#`` standing for its number; it computes ``y#``.
        x: The inputs.
        y: Type of the outputs.
        constants: Initializers.
        count: Number of blocks.
        odd: What stands in the body of block 5, an arrow, and what stands there instead.
        opset: Version of the operator set.
    """
    texts = [body] * int(count)
    if odd:
        texts[5] = _replaced(body, odd)
    nodes = " ".join(text.replace("#", str(number)) for number, text in enumerate(texts))
    outputs = ", ".join(f"{y} y{number}" for number in range(len(texts)))
    return source(
        name,
        f'<ir_version: 10, opset_import: ["" : {opset}]> '
        f"main ({x}) => ({outputs}) <{constants}> {{ {nodes} }}",
    )


def _replaced(body: str, odd: str) -> str:
    old, new = odd.split(" -> ")
    assert old in body, f"{old!r} is not in {body!r}"
    return body.replace(old, new)


def chain(
    name: str,
    body: str,
    *,
    x: str = "float[4,4] x",
    y: str = "float[4,4]",
    constants: str = "",
    count: str = "6",
    odd: str = "",
) -> Source:
    """Make a model of layers that each read the one before.

    Args:
        name: What the table calls the model.
        body: Text of a layer, ``#`` standing for its number; it computes ``h#`` from ``h@``,
            which is ``x`` in the first.
        x: The input, of the name ``x``.
        y: Type of the one output.
        constants: Initializers.
        count: Number of layers.
        odd: The same in layer 3.
    """
    texts = [body] * int(count)
    if odd:
        texts[3] = _replaced(body, odd)
    layers = []
    for number, text in enumerate(texts):
        before = f"h{number - 1}" if number else "x"
        layers.append(text.replace("h@", before).replace("#", str(number)))
    return source(
        name, f"({x}) => ({y} h{len(texts) - 1}) <{constants}> {{ {' '.join(layers)} }}"
    )


def weights(name: str, *shape: int, seed: int = 0, size: float = 0.5) -> str:
    """Return the text of an initializer of normal float32 numbers.

    Args:
        name: Its name.
        shape: Its shape.
        seed: Of the numbers.
        size: Standard deviation of the numbers.
    """
    values = np.random.default_rng(seed).normal(0, size, shape).ravel()
    listed = ", ".join(f"{value:.3f}" for value in values)
    return f"float[{','.join(map(str, shape))}] {name} = {{{listed}}}"


def overridable(name: str, body: str, value: str) -> Source:
    """Make blocks that read a factor ``k#`` each, an input with a default.

    Args:
        name: What the table calls the model.
        body: Text of a block, from ``x`` and ``k#`` to ``y#``, all but ``k#`` [4,4].
        value: The default.
    """
    knobs = ", ".join(f"float[1] k{n} = {{{value}}}" for n in range(8))

    def build() -> onnx.ModelProto:
        proto = onnx.ModelProto()
        proto.CopyFrom(blocks(name, body, constants=knobs).full())
        for n in range(8):
            port = onnx.helper.make_tensor_value_info(f"k{n}", onnx.TensorProto.FLOAT, [1])
            proto.graph.input.append(port)
        return proto

    return Source(name, build, build)


def feed(**values: object) -> Feeds:
    """Return feeds, float64 as float32."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    return {
        name: array.astype(np.float32) if array.dtype == np.float64 else array
        for name, array in arrays.items()
    }


def bits(*numbers: float) -> str:
    """Write float16 numbers as the text form has them, by their bits."""
    return ", ".join(str(n) for n in np.array(numbers, np.float16).view(np.uint16))


NETWORKS = (TRANSFORMER, LLAMA, RESNET)
