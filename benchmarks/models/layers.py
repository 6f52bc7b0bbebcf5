"""Chains of layers whose weights lie in a file, of any size, for passes that change them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

WIDTH = 2048
CHANNELS = 640
OPSET = 18

Layer = Callable[[str, str, str], list[onnx.NodeProto]]
"""Makes the nodes of a layer: from a value, with a weight, to a value."""


def _products(x: str, weight: str, y: str) -> list[onnx.NodeProto]:
    """A product behind the Identity that exporters leave."""
    return [
        helper.make_node("Identity", [x], [f"{y}_same"]),
        helper.make_node("MatMul", [f"{y}_same", weight], [f"{y}_product"], f"{y}_matmul"),
        helper.make_node("Tanh", [f"{y}_product"], [y]),
    ]


def _scaled(x: str, weight: str, y: str) -> list[onnx.NodeProto]:
    """A product times a number."""
    return [
        helper.make_node("MatMul", [x, weight], [f"{y}_product"]),
        helper.make_node("Mul", [f"{y}_product", "scale"], [f"{y}_scaled"]),
        helper.make_node("Tanh", [f"{y}_scaled"], [y]),
    ]


def _turned(x: str, weight: str, y: str) -> list[onnx.NodeProto]:
    """A product with weights that are transposed at each run."""
    return [
        helper.make_node("Transpose", [weight], [f"{weight}_turned"], perm=[1, 0]),
        helper.make_node("MatMul", [x, f"{weight}_turned"], [f"{y}_product"]),
        helper.make_node("Tanh", [f"{y}_product"], [y]),
    ]


def _normalised(x: str, weight: str, y: str) -> list[onnx.NodeProto]:
    """A convolution with a normalisation."""
    row = ["gain", "shift", "mean", "variance"]
    return [
        helper.make_node("Conv", [x, weight], [f"{y}_conv"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", [f"{y}_conv", *row], [f"{y}_norm"]),
        helper.make_node("Relu", [f"{y}_norm"], [y]),
    ]


FORMS: dict[str, tuple[Layer, tuple[int, ...], tuple[int | str, ...]]] = {
    "products": (_products, (WIDTH, WIDTH), ("batch", WIDTH)),
    "scaled": (_scaled, (WIDTH, WIDTH), ("batch", WIDTH)),
    "turned": (_turned, (WIDTH, WIDTH), ("batch", WIDTH)),
    "normalised": (_normalised, (CHANNELS, CHANNELS, 3, 3), ("batch", CHANNELS, 4, 4)),
}
"""Layers by name, with the shape of a weight, and that of input and output."""


def write_layers(
    path: Path, form: str, gigabytes: float, tensors: int | None = None
) -> tuple[int, ...]:
    """Write a chain of layers, and beside it the file of its weights.

    Memory holds one weight at a time. ``x`` and ``y`` are float32, ``v0`` and so on the
    values between layers.

    Args:
        path: Where the ``.onnx`` file goes.
        form: The kind of layer, a key of ``FORMS``.
        gigabytes: Size of the weights in 10^9 bytes.
        tensors: Number of weights, as large as that takes; None for the usual width.

    Returns:
        The shape of a weight, float32.
    """
    layer, dims, ports = FORMS[form]
    if tensors is not None:
        usual, bytes_of_one = dims[0], gigabytes * 1e9 / tensors
        width = round((bytes_of_one / 4 / np.prod(dims[2:], initial=1)) ** 0.5)
        dims = tuple(width if dim == usual else dim for dim in dims)
        ports = tuple(width if dim == usual else dim for dim in ports)
    fan = int(np.prod(dims[1:])) if len(dims) > 2 else dims[0]
    rng = np.random.default_rng(0)
    block = rng.standard_normal(dims, np.float32) * np.float32(fan**-0.5)
    count = max(2, round(gigabytes * 1e9 / block.nbytes))
    nodes: list[onnx.NodeProto] = []
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, dims[:1], np.full(dims[0], number))
        for name, number in (("gain", 1.5), ("shift", 0.1), ("mean", 0.2), ("variance", 2.0))
        if form == "normalised"
    ]
    if form == "scaled":
        weights.append(helper.make_tensor("scale", TensorProto.FLOAT, [], [0.75]))
    with path.with_suffix(".bin").open("wb") as file:
        for index in range(count):
            # A shift makes each weight another one, without drawing gigabytes of numbers.
            np.roll(block, index, axis=1).tofile(file)
            weight = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=dims)
            weight.data_location = TensorProto.EXTERNAL
            place = {"location": path.with_suffix(".bin").name, "length": block.nbytes}
            for key, value in {**place, "offset": index * block.nbytes}.items():
                weight.external_data.add(key=key, value=str(value))
            weights.append(weight)
            source = f"v{index - 1}" if index else "x"
            nodes += layer(source, weight.name, f"v{index}" if index < count - 1 else "y")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ports) for n in ("x", "y")]
    graph = helper.make_graph(nodes, form, ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return dims
