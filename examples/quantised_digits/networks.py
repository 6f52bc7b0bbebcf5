"""Quantised networks that read 8x8 images of digits, as Brevitas modules.

Each takes float32 ``[n, 1, 8, 8]`` with ink in [0, 1] and returns scores ``[n, 10]``.
"""

from __future__ import annotations

import torch
from brevitas import nn as qnn
from brevitas import quant
from torch import Tensor, nn

CLASSES = 10


def bits(width: int, *, channels: bool = False) -> dict[str, object]:
    """Return the weight quantiser of a layer.

    Args:
        width: Bits; 1 for weights that are -1 or 1.
        channels: Whether each output channel has a scale of its own.
    """
    if width == 1:
        return {"weight_quant": quant.SignedBinaryWeightPerTensorConst}
    kind = quant.Int8WeightPerChannelFloat if channels else quant.Int8WeightPerTensorFloat
    return {"weight_quant": kind, "weight_bit_width": width}


def signed(width: int) -> nn.Module:
    """Quantise an activation to signed integers; 1 bit gives -1 and 1."""
    if width == 1:
        return qnn.QuantIdentity(quant.SignedBinaryActPerTensorConst)
    return qnn.QuantIdentity(quant.Int8ActPerTensorFloat, bit_width=width)


def relu(width: int) -> nn.Module:
    """Apply Relu and quantise to unsigned integers."""
    return qnn.QuantReLU(quant.Uint8ActPerTensorFloat, bit_width=width)


class Perceptron(nn.Sequential):
    """Three hidden layers; weights and activations have the same number of bits."""

    def __init__(self, width: int, hidden: int = 96) -> None:
        """Make the layers of ``width`` bits."""
        layers: list[nn.Module] = [nn.Flatten(), signed(8)]
        size = 64
        for _ in range(3):
            layers += [
                qnn.QuantLinear(size, hidden, bias=False, **bits(width)),
                nn.BatchNorm1d(hidden),
                signed(width),
            ]
            size = hidden
        layers += [qnn.QuantLinear(size, CLASSES, bias=True, **bits(max(width, 2)))]
        super().__init__(*layers)


class Separable(nn.Sequential):
    """Depthwise and pointwise convolutions, weights of 4 bits with a scale per channel."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__(
            qnn.QuantIdentity(quant.Uint8ActPerTensorFloat),
            *self._convolution(1, 16, 3),
            *self._convolution(16, 16, 3, groups=16),
            *self._convolution(16, 32, 1),
            nn.MaxPool2d(2),
            *self._convolution(32, 32, 3, groups=32),
            *self._convolution(32, 32, 1),
            nn.Flatten(),
            qnn.QuantLinear(512, CLASSES, bias=True, **bits(4, channels=True)),
        )

    def _convolution(
        self, inputs: int, outputs: int, size: int, groups: int = 1
    ) -> list[nn.Module]:
        weights = bits(4, channels=True)
        convolution = qnn.QuantConv2d(
            inputs,
            outputs,
            size,
            padding=size // 2,
            groups=groups,
            bias=False,
            **weights,
        )
        return [convolution, nn.BatchNorm2d(outputs), relu(4)]


class Block(nn.Module):
    """Two convolutions beside a shortcut; both branches are quantised on one grid."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """Make the layers; a shortcut that changes sizes is a convolution."""
        super().__init__()
        self.first = self._convolution(inputs, outputs, 3, stride)
        self.relu = relu(4)
        self.second = self._convolution(outputs, outputs, 3, 1)
        self.shortcut = (
            self._convolution(inputs, outputs, 1, stride)
            if stride > 1 or inputs != outputs
            else nn.Identity()
        )
        self.grid = signed(4)
        self.end = relu(4)

    def forward(self, x: Tensor) -> Tensor:
        """Add both branches."""
        y = self.second(self.relu(self.first(x)))
        return self.end(self.grid(y) + self.grid(self.shortcut(x)))

    def _convolution(self, inputs: int, outputs: int, size: int, stride: int) -> nn.Module:
        convolution = qnn.QuantConv2d(
            inputs, outputs, size, stride, padding=size // 2, bias=False, **bits(3)
        )
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Residual(nn.Sequential):
    """Three residual blocks, weights of 3 bits and activations of 4."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__(
            signed(8),
            qnn.QuantConv2d(1, 16, 3, padding=1, bias=False, **bits(3)),
            nn.BatchNorm2d(16),
            relu(4),
            Block(16, 16, 1),
            Block(16, 32, 2),
            Block(32, 32, 1),
            nn.AvgPool2d(4),
            nn.Flatten(),
            signed(8),
            qnn.QuantLinear(32, CLASSES, bias=True, **bits(4)),
        )


class Attention(nn.Module):
    """One head of attention over the rows of an image, then a mean over the rows."""

    def __init__(self, size: int = 32, rows: int = 8) -> None:
        """Make the layers; tokens have ``size`` numbers."""
        super().__init__()
        self.size = size
        self.pixels = signed(8)
        self.embed = qnn.QuantLinear(rows, size, bias=True, **bits(4))
        self.place = nn.Parameter(0.1 * torch.randn(rows, size))
        self.tokens = signed(4)
        self.query, self.key, self.value = (
            qnn.QuantLinear(size, size, bias=False, **bits(4)) for _ in range(3)
        )
        self.grids = nn.ModuleList(signed(4) for _ in range(3))
        self.weights = qnn.QuantIdentity(quant.Uint8ActPerTensorFloat, bit_width=4)
        self.mixed = signed(4)
        self.project = qnn.QuantLinear(size, size, bias=True, **bits(4))
        self.hidden = relu(4)
        self.scores = qnn.QuantLinear(size * rows, CLASSES, bias=True, **bits(4))

    def forward(self, images: Tensor) -> Tensor:
        """Let each row look at all rows."""
        x = self.tokens(self.embed(self.pixels(images.flatten(1, 2))) + self.place)
        layers = (self.query, self.key, self.value)
        query, key, value = (
            grid(layer(x)) for grid, layer in zip(self.grids, layers, strict=True)
        )
        likeness = torch.matmul(query, key.transpose(1, 2)) / self.size**0.5
        weights = self.weights(torch.softmax(likeness, -1))
        mixed = self.mixed(torch.matmul(weights, value))
        hidden = self.hidden(self.project(mixed))
        return self.scores(hidden.flatten(1))


NETWORKS = {
    "mlp_1w1a": lambda: Perceptron(1),
    "mlp_2w2a": lambda: Perceptron(2),
    "cnn_w4a4": Separable,
    "residual_w3a4": Residual,
    "attention_w4a4": Attention,
}
"""A function that makes each network, untrained."""
