"""Chains of layers whose weights lie in a file, of any size, for passes that change them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
from onnx import TensorProto, helper

WIDTH = 2048
CHANNELS = 640
OPSET = 18

NORM = "{y}_conv, gain, shift, mean, variance"
FORMS: dict[str, tuple[str, tuple[int, ...], tuple[int | str, ...]]] = {
    # A product behind the Identity that exporters leave.
    "products": (
        "{y}_same = Identity({x}) [{y}_matmul] {y}_product = MatMul({y}_same, {weight}) "
        "{y} = Tanh({y}_product)",
        *((WIDTH, WIDTH), ("batch", WIDTH)),
    ),
    # A product times a number.
    "scaled": (
        "{y}_product = MatMul({x}, {weight}) {y}_scaled = Mul({y}_product, scale) "
        "{y} = Tanh({y}_scaled)",
        *((WIDTH, WIDTH), ("batch", WIDTH)),
    ),
    # A product with weights that are transposed at each run.
    "turned": (
        "{weight}_turned = Transpose<perm = [1, 0]>({weight}) "
        "{y}_product = MatMul({x}, {weight}_turned) {y} = Tanh({y}_product)",
        *((WIDTH, WIDTH), ("batch", WIDTH)),
    ),
    # A convolution with a normalisation.
    "normalised": (
        "{y}_conv = Conv<pads = [1, 1, 1, 1]>({x}, {weight}) "
        f"{{y}}_norm = BatchNormalization({NORM}) {{y}} = Relu({{y}}_norm)",
        *((CHANNELS, CHANNELS, 3, 3), ("batch", CHANNELS, 4, 4)),
    ),
}
"""The nodes of a layer by name, with the shape of a weight, and that of input and output."""


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
            names = {"x": source, "y": f"v{index}" if index < count - 1 else "y"}
            text = layer.format(weight=weight.name, **names)
            nodes += onnx.parser.parse_graph(f"g () => () {{ {text} }}").node
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ports) for n in ("x", "y")]
    graph = helper.make_graph(nodes, form, ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return dims
