"""Random quantised networks: layers as quantisation-aware training exports them to QONNX.

A network is a chain of layers with residual sums, joins and attention. A layer is a linear
operator over quantised weights, then what a float network has there (bias, normalisation,
activation), then a quantiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.ops.bodies.domains import QONNX

INTEGERS = "integers"
"""Key of the metadata of a network whose sums and joins are all of numbers on one grid."""

Array = np.ndarray[Any, np.dtype[Any]]
Draw = np.random.Generator

IR_VERSION = 8
OPSETS = (11, 13, 14, 16, 18, 20)
MODES = (*["ROUND"] * 12, "HALF_UP", "HALF_DOWN", "FLOOR", "CEIL", "DOWN")
"""Rounding modes, those less often whose steps are at integers, where sums of integers are."""

_TO_NEAREST = ("ROUND", "HALF_UP", "HALF_DOWN")
_FLAT = (5, 6)
"""Places of Tanh and Sigmoid among the activations."""

LARGEST = 512
"""Elements of one sample above which a layer makes no more channels."""


class Net:
    """A network under construction, and the value that the next layer reads.

    Attributes:
        value: Name of that value.
        shape: Its shape without the batch: ``[D]``, ``[T, D]`` or ``[C, H, W]``.
        regular: Whether integers suffice for all between its quantisers: what is multiplied
            was quantised, and what is added or joined has one scale.
        flat: Names of what functions make that are flat far from 0.
    """

    def __init__(self, seed: int) -> None:
        """Begin with an input of one of three ranks."""
        self.draw = np.random.default_rng([seed, 2**20])
        self.seed, self.opset = seed, int(self.draw.choice(OPSETS))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        shapes = ((12,), (4, 8), (2, 6, 6), (3, 5, 5))
        self.shape: tuple[int, ...] = shapes[int(self.draw.integers(len(shapes)))]
        self.batch: int | str = "N" if self.draw.random() < 0.5 else 2
        self.value, self.regular = "image", True
        self.flat: set[str] = set()
        self.input = helper.make_tensor_value_info(
            "image", TensorProto.FLOAT, [self.batch, *self.shape]
        )
        self._count = 0

    def begin(self, number: int) -> None:
        """Draw from here on what the step of this number draws."""
        self.draw = np.random.default_rng([self.seed, number])

    def chance(self, share: float) -> bool:
        """Say yes in a share of the cases."""
        return bool(self.draw.random() < share)

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output.

        Args:
            kind: The operator.
            *inputs: Names of its inputs.
            domain: Its domain.
            **attributes: Its attributes.
        """
        self._count += 1
        name = f"{kind}_{self._count}"
        self.nodes.append(
            helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes)
        )
        return name

    def __getattr__(self, kind: str) -> Callable[..., str]:
        """Return what adds a node of an operator, as in ``net.Relu(x)``."""
        if not kind[0].isupper():
            raise AttributeError(kind)
        return partial(self.add, kind)

    def constant(self, array: Any) -> str:
        """Add an initializer of float32, or of int64 if it holds integers."""
        self._count += 1
        array = np.asarray(array)
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        name = f"constant_{self._count}"
        self.constants.append(numpy_helper.from_array(array.astype(kind), name))
        return name

    def along_channels(self, row: Array) -> Array:
        """Return a number for each channel in the shape that broadcasts along them."""
        return row.reshape(-1, 1, 1) if len(self.shape) == 3 else row

    @property
    def channels(self) -> int:
        """Size of the axis of channels."""
        return self.shape[0] if len(self.shape) == 3 else self.shape[-1]

    def scale(self) -> Array:
        """Draw a scale: any number, or a power of two, with which ties occur."""
        if self.chance(0.2):
            return np.asarray(2.0 ** -int(self.draw.integers(0, 5)), np.float32)
        return np.asarray(self.draw.uniform(0.02, 0.6), np.float32)

    def quantise(self, value: str) -> str:
        """Quantise an activation.

        Kernels of Sigmoid and Tanh waver where the function is flat, next to integers at which
        some rounding modes have steps: thresholds there are not found.
        """
        scale = self.constant(self.scale())
        # Sums of integers are often 0, where its step is, but for a term in front.
        if self.chance(0.3 if value.startswith(("Add", "BatchNorm", "image")) else 0.03):
            return self.BipolarQuant(value, scale, domain=QONNX)
        signed = int(self.chance(0.6))
        bits = float(self.draw.integers(2, 6))
        zero = float(self.draw.integers(0, 4)) if not signed and self.chance(0.2) else 0.0
        narrow = int(self.chance(0.2))
        mode = str(self.draw.choice(MODES))
        if value in self.flat and mode not in _TO_NEAREST:
            self.regular = False
        return self.add(
            str(self.draw.choice(["Quant", "Quant", "IntQuant"])),
            *(value, scale, self.constant(zero), self.constant(bits)),
            domain=QONNX,
            signed=signed,
            narrow=narrow,
            rounding_mode=mode,
        )

    def on_one_grid(self, *values: str) -> list[str]:
        """Quantise values alike."""
        parameters = tuple(map(self.constant, (self.scale(), 0.0, 4.0)))
        flags = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
        return [self.Quant(v, *parameters, domain=QONNX, **flags) for v in values]

    def weights(self, shape: Sequence[int], axis: int) -> str:
        """Make quantised weights, with a scale for all or for each place along an axis.

        Args:
            shape: Shape of the weights.
            axis: The axis along which scales may differ.
        """
        array = self.constant(self.draw.normal(0, 0.7, shape))
        scale: Array = np.asarray(self.scale())
        if self.chance(0.4):
            size = [1] * len(shape)
            size[axis] = shape[axis]
            scale = self.draw.uniform(0.05, 0.5, size).astype(np.float32)
        if self.chance(0.2):
            return self.BipolarQuant(array, self.constant(scale), domain=QONNX)
        bits = float(self.draw.integers(2, 7))
        parameters = (self.constant(scale), self.constant(0.0), self.constant(bits))
        flags = {"signed": 1, "narrow": int(self.chance(0.7)), "rounding_mode": "ROUND"}
        return self.Quant(array, *parameters, domain=QONNX, **flags)

    def proto(self) -> onnx.ModelProto:
        """Return the model; its output is the value of the last layer."""
        if not self.nodes:
            self.value = self.Relu(self.value)
        output = helper.make_tensor_value_info(
            self.value, TensorProto.FLOAT, [self.batch, *self.shape]
        )
        graph = helper.make_graph(
            self.nodes, f"network_{self.seed}", [self.input], [output], self.constants
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(QONNX, 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        if self.regular:
            helper.set_model_props(model, {INTEGERS: "between quantisers"})
        return model


def network(seed: int, steps: Sequence[int]) -> onnx.ModelProto:
    """Build a network.

    Args:
        seed: Of all choices.
        steps: Numbers of its layers; any may be left out.
    """
    net = Net(seed)
    if net.chance(0.9):
        net.value = net.quantise(net.value)
    else:
        net.regular = False
    for number in steps:
        net.begin(number)
        _LAYERS[int(net.draw.integers(len(_LAYERS)))](net)
    return net.proto()


def _linear(net: Net) -> None:
    """A layer as networks have most, and its quantiser."""
    net.value = _product(net, net.value)
    net.value = net.quantise(_between(net, net.value))


def _product(net: Net, value: str, *, keep: bool = False) -> str:
    """A Conv of images, a MatMul or Gemm of anything else; ``keep`` keeps the shape."""
    if len(net.shape) == 3:
        return _convolution(net, value, keep)
    size = net.shape[-1] if keep else int(net.draw.choice([4, 8, 10]))
    depth, form = net.shape[-1], net.draw.random()
    if form < 0.25 and len(net.shape) == 1:
        operands = [value, net.weights([size, depth], 0)]
        if net.chance(0.5):
            operands.append(net.constant(net.draw.normal(0, 0.5, size)))
        made = net.Gemm(*operands, transB=1)
    elif form < 0.6:
        turned = net.Transpose(net.weights([size, depth], 0), perm=[1, 0])
        made = net.MatMul(value, turned)
    else:
        made = net.MatMul(value, net.weights([depth, size], 1))
    net.shape = (*net.shape[:-1], size)
    return made


def _convolution(net: Net, value: str, keep: bool) -> str:
    channels, height, width = net.shape
    depthwise = net.chance(0.3)
    kernel = int(net.draw.choice([1, 3])) if min(height, width) >= 3 else 1
    padded = keep or net.chance(0.6)
    stride = 1 if keep or net.chance(0.7) else 2
    wanted = channels if keep or depthwise else int(net.draw.choice([2, 4, 6]))
    weights = net.weights([wanted, 1 if depthwise else channels, kernel, kernel], 0)
    operands = [value, weights]
    if net.chance(0.3):
        operands.append(net.constant(net.draw.normal(0, 0.5, wanted)))
    pad = kernel // 2 if padded else 0
    made = net.Conv(
        *operands,
        kernel_shape=[kernel, kernel],
        pads=[pad] * 4,
        strides=[stride, stride],
        group=channels if depthwise else 1,
    )
    sizes = ((n + 2 * pad - kernel) // stride + 1 for n in (height, width))
    net.shape = (wanted, *sizes)
    return made


def _between(net: Net, value: str) -> str:
    """What stands between a linear operator and its quantiser."""
    count = net.channels
    if net.chance(0.3):
        bias = net.draw.normal(0, 0.5, count)
        value = net.Add(value, net.constant(net.along_channels(bias)))
    if net.chance(0.5) and len(net.shape) != 2:
        gamma = net.draw.normal(0.8, 0.6, count)
        beta, mean = net.draw.normal(0, 0.5, (2, count))
        parts = (gamma, beta, mean, net.draw.uniform(0.3, 3, count))
        value = net.BatchNormalization(value, *map(net.constant, parts))
    elif net.chance(0.3):
        factor = net.draw.normal(0.5, 0.4, count)
        factor = np.where(factor == 0, 1, factor)
        value = net.Mul(value, net.constant(net.along_channels(factor)))
    add = (net.Relu, net.Relu, net.Relu, None, None, net.Tanh, net.Sigmoid, net.LeakyRelu)
    choice = int(net.draw.integers(len(add) + 1))
    if choice == len(add):
        return net.Clip(value, net.constant(-1.0), net.constant(1.0))
    activation = add[choice]
    if activation is None:
        return value
    value = activation(value)
    if choice in _FLAT:
        net.flat.add(value)
    return value


def _residual(net: Net) -> None:
    """A sum of a value and what layers make of it, both on one grid."""
    start = net.value
    inner = net.quantise(_between(net, _product(net, start, keep=True)))
    inner = _product(net, inner, keep=True)
    if net.chance(0.85):
        inner, start = net.on_one_grid(inner, start)
    else:
        net.regular = False
    pair = (inner, start) if net.chance(0.5) else (start, inner)
    net.value = net.quantise(_between(net, net.Add(*pair)))


def _join(net: Net) -> None:
    """Two branches, joined along the channels."""
    start, shape = net.value, net.shape
    if int(np.prod(shape)) * 2 > LARGEST:
        return
    branches = [_product(net, start, keep=True) for _ in range(2)]
    if net.chance(0.8):
        branches = net.on_one_grid(*branches)
    else:
        net.regular, branches = False, [net.quantise(branch) for branch in branches]
    axis = 1 if len(shape) == 3 else len(shape)
    net.value = net.Concat(*branches, axis=axis)
    sizes = list(shape)
    sizes[axis - 1] *= 2
    net.shape = tuple(sizes)


def _pool(net: Net) -> None:
    """A pooling of images; a mean is quantised again."""
    if len(net.shape) != 3 or min(net.shape[1:]) < 2:
        return _move(net)
    choice = int(net.draw.integers(3))
    if choice == 0:
        pooled, sizes = net.GlobalAveragePool(net.value), (1, 1)
    else:
        add = net.MaxPool if choice == 1 else net.AveragePool
        pooled = add(net.value, kernel_shape=[2, 2], strides=[2, 2])
        sizes = (net.shape[1] // 2, net.shape[2] // 2)
    net.shape = (net.shape[0], *sizes)
    net.value = pooled if choice == 1 else net.quantise(pooled)


def _move(net: Net) -> None:
    """Another order of elements, or another shape."""
    if len(net.shape) == 3 and net.chance(0.5):
        net.value = net.Flatten(net.value, axis=1)
        net.shape = (int(np.prod(net.shape)),)
    elif len(net.shape) == 2:
        net.value = net.Transpose(net.value, perm=[0, 2, 1])
        net.shape = net.shape[::-1]
    elif len(net.shape) == 1 and net.shape[0] % 4 == 0:
        target = net.constant(np.array([0, 4, net.shape[0] // 4]))
        net.value = net.Reshape(net.value, target)
        net.shape = (4, net.shape[0] // 4)


def _attention(net: Net) -> None:
    """One head of attention over tokens, with or without a Softmax."""
    if len(net.shape) != 2:
        return _linear(net)
    parts = [net.quantise(_product(net, net.value, keep=True)) for _ in range(3)]
    turned = net.Transpose(parts[1], perm=[0, 2, 1])
    likeness = net.MatMul(parts[0], turned)
    if net.chance(0.6):
        root = net.constant(float(np.sqrt(net.shape[-1])))
        likeness = net.Softmax(net.Div(likeness, root), axis=-1)
        net.regular = False
    net.value = net.quantise(net.MatMul(net.quantise(likeness), parts[2]))


_LAYERS: tuple[Callable[[Net], None], ...] = (
    *[_linear] * 5,
    *[_residual] * 2,
    _join,
    _pool,
    _move,
    _attention,
)
