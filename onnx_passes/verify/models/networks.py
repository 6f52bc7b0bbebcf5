"""Random quantised networks: layers as quantisation-aware training exports them to QONNX.

A network is a chain of layers with residual sums, joins and attention. A layer is a linear
operator over quantised weights, then what a float network has there (bias, normalisation,
activation), then a quantiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from onnx_passes.verify.models.net import INTEGERS, SHAPES, Net

_RANKS = {"attention": 2}
"""Ranks of inputs without the batch, by form; all others are of images."""

_FLAT = (5, 6)
"""Places of Tanh and Sigmoid among the activations."""

LARGEST = 512
"""Elements of one sample above which a layer makes no more channels."""


def network(seed: int, steps: Sequence[int], form: str | None = None) -> onnx.ModelProto:
    """Build a network.

    Args:
        seed: Of all choices.
        steps: Numbers of its layers; any may be left out.
        form: Name of the layer in ``FORMS`` that every second step makes; None for any.
    """
    rank = None if form is None else _RANKS.get(form, 3)
    net = Net(seed, [shape for shape in SHAPES if rank in (None, len(shape))])
    if net.chance(0.9):
        net.value = net.quantise(net.value)
    else:
        net.regular = False
    for number in steps:
        net.begin(number)
        if form is not None and number % 2 == 0:
            FORMS[form](net)
        else:
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


def _mean(net: Net) -> None:
    """A mean of images, which is quantised again: over square windows, or a near miss."""
    if len(net.shape) != 3 or min(net.shape[1:]) < 2:
        return _linear(net)
    channels, height, width = net.shape
    style = net.draw.random()
    if style < 0.3 and height == width:
        net.value, net.shape = _mean_of_image(net), (channels, 1, 1)
    elif style < 0.4:
        net.value, net.shape = net.GlobalAveragePool(net.value), (channels, 1, 1)
    else:
        side = int(net.draw.integers(2, min(height, width, 3) + 1))
        kernel = [side, side - (side > 1 and net.chance(0.1))]
        step = int(net.draw.integers(1, side + 1))
        pad = int(net.chance(0.1))
        net.value = net.AveragePool(
            net.value, kernel_shape=kernel, strides=[step, step], pads=[pad] * 4
        )
        sizes = zip((height, width), kernel, strict=True)
        net.shape = (channels, *((size + 2 * pad - k) // step + 1 for size, k in sizes))
    net.value = net.quantise(_between(net, net.value) if net.chance(0.5) else net.value)


def _mean_of_image(net: Net) -> str:
    """A ReduceMean over rows and columns, or over one of them."""
    axes = [2, 3] if net.chance(0.5) else [-1, -2]
    if net.opset < 18:
        return net.ReduceMean(net.value, axes=axes, keepdims=1)
    return net.ReduceMean(net.value, net.constant(np.array(axes)), keepdims=1)


def _turn(net: Net) -> None:
    """Elementwise operators and a quantiser between two Transposes, the second optional."""
    if len(net.shape) != 3:
        return _linear(net)
    value = _product(net, net.value)
    count = net.channels
    value = net.Transpose(value, perm=[0, 2, 3, 1])
    if net.chance(0.5):
        value = net.Add(value, net.constant(net.draw.normal(0, 0.5, count)))
    if net.chance(0.5):
        factor = net.draw.normal(0.5, 0.4, count)
        value = net.Mul(value, net.constant(np.where(factor == 0, 1, factor)))
    if net.chance(0.5):
        value = net.Relu(value)
    net.value = net.Transpose(net.quantise(value), perm=[0, 3, 1, 2])


FORMS: dict[str, Callable[[Net], None]] = {
    "attention": _attention,
    "mean": _mean,
    "turn": _turn,
}
"""Layers that networks are asked to have, by name."""

__all__ = ["FORMS", "INTEGERS", "Net", "network"]
