"""Nodes and inputs on which bodies are held against qonnx."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

GENERAL = "qonnx.custom_op.general"
CHANNELS_LAST = "qonnx.custom_op.channels_last"

MODES = ("ROUND", "half_even", "CEIL", "floor", "UP", "Down", "HALF_UP", "half_down")


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes:
        op_type: Its operator.
        inputs: Values of its inputs, in order.
        attributes: Its attributes.
        domain: Its domain.
        version: Version of the domain.
    """

    op_type: str
    inputs: tuple[np.ndarray, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = GENERAL
    version: int = 1


def scalar(value: float) -> np.ndarray:
    """Return a float32 tensor of rank 0."""
    return np.array(value, dtype=np.float32)


def points() -> np.ndarray:
    """Return ties, bounds, zeros, subnormals, infinities and NaN, float32 [1, 2, 32]."""
    ties = np.arange(-8, 8.5, 0.5)
    near = [1.4999999, 2.5000002, -0.49999997, 0.49999997, 7.5000005, -8.500001]
    special = [-0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 3e38, -3e38, 127.5, -128.5]
    spread = np.random.default_rng(0).normal(0, 6, 64)
    return np.float32([*ties, *near, *special, *spread])[:64].reshape(1, 2, 32)


def int_quants() -> Iterator[Case]:
    """1,728 combinations of mode, sign, narrow range, bits, scale and zero point."""
    per_channel = np.float32([[[0.25], [1.5]]])
    grids = (
        (scalar(1), scalar(0)),
        (scalar(0.3), scalar(0)),
        (scalar(0.5), scalar(3)),
        (per_channel, scalar(0)),
        (per_channel, np.float32([[[1], [-2]]])),
        (scalar(7e-3), scalar(0.5)),
    )
    bits = (1, 2, 3, 4, 8, 3.5, 5, 7, 16)
    for mode, signed, narrow, width, (scale, zero) in itertools.product(
        MODES, (0, 1), (0, 1), bits, grids
    ):
        attributes = {"rounding_mode": mode, "signed": signed, "narrow": narrow}
        yield Case("IntQuant", (points(), scale, zero, scalar(width)), attributes)


def float_quants() -> Iterator[Case]:
    """Five formats, with and without saturation, on points around powers of two."""
    powers = np.float32(2.0) ** np.arange(-12, 12, dtype=np.float32)
    beside = [np.nextafter(powers, np.float32(side)) for side in (0, np.inf)]
    drawn = np.random.default_rng(1).normal(0, 20, 256).astype(np.float32)
    x = np.concatenate([powers, *beside, -powers, drawn, points().ravel()])
    formats = ((4, 3, 7, 448), (5, 2, 15, 57344), (2, 1, 1, 6), (3, 2, 3, 28), (2, 3, 1, 7.5))
    flags = ({}, {"saturation": 0, "has_inf": 1}, {"saturation": 0, "has_nan": 1})
    for (exponent, mantissa, bias, largest), flag, mode in itertools.product(
        formats, flags, ("ROUND", "FLOOR")
    ):
        inputs = (x, scalar(0.7), *map(scalar, (exponent, mantissa, bias, largest)))
        attributes = {"has_inf": 0, "has_nan": 0, "has_subnormal": 0, "saturation": 1}
        yield Case("FloatQuant", inputs, {**attributes, **flag, "rounding_mode": mode})


def truncs() -> Iterator[Case]:
    """Both versions of Trunc."""
    x = np.round(np.clip(points(), -1e6, 1e6) * 4) / 4
    for mode, scale, zero, kept in itertools.product(MODES[:6], (1, 0.25), (0, 2), (4, 5)):
        inputs = (x, scalar(scale), scalar(zero), scalar(8), scalar(kept))
        yield Case("Trunc", inputs, {"rounding_mode": mode})
    for mode, signed, narrow, zero, step in itertools.product(
        MODES[:5], (0, 1), (0, 1), (0, 4), (4, 0.5, 8.3)
    ):
        inputs = (x, scalar(0.25), scalar(zero), scalar(8), scalar(step), scalar(4))
        attributes = {"rounding_mode": mode, "signed": signed, "narrow": narrow}
        yield Case("Trunc", inputs, attributes, version=2)


def thresholds() -> Iterator[Case]:
    """MultiThreshold in every layout, shared thresholds and per channel."""
    draw = np.random.default_rng(2)
    shapes = {
        "": [(2, 3), (2, 4, 3), (2, 3, 4, 5), (1, 3, 2, 2, 2)],
        "NC": [(4, 3)],
        "NWC": [(2, 4, 3)],
        "NCW": [(2, 3, 4)],
        "NCHW": [(2, 3, 4, 5)],
        "NHWC": [(2, 4, 5, 3)],
    }
    for layout, (channels, scale, bias) in itertools.product(
        shapes, ((3, 1.0, 0.0), (1, 0.5, -2.0))
    ):
        for shape in shapes[layout]:
            table = np.sort(draw.integers(-3, 4, (channels, 7)), axis=1).astype(np.float32)
            x = draw.integers(-4, 5, shape).astype(np.float32)
            attributes = {"out_dtype": "UINT4", "out_scale": scale, "out_bias": bias}
            if layout:
                attributes["data_layout"] = layout
            yield Case("MultiThreshold", (x, table), attributes)


def others() -> Iterator[Case]:
    """BipolarQuant, windows, pooling and the channels-last domain."""
    draw = np.random.default_rng(3)
    yield Case("BipolarQuant", (points(), scalar(0.3)))
    image = draw.integers(-8, 8, (2, 6, 7, 3)).astype(np.float32)
    for pads, stride, dilations in (
        ((0, 0, 0, 0), (1, 1), (1, 1)),
        ((1, 2, 0, 1), (2, 1), (1, 2)),
    ):
        attributes = {
            "kernel_size": (3, 2),
            "stride": stride,
            "pad_amount": pads,
            "dilations": dilations,
            "input_shape": "(1, 6, 7, 3)",
        }
        yield Case("Im2Col", (image[:1],), attributes)  # qonnx mixes up a batch
    pool = {"kernel_shape": (2, 3), "strides": (2, 2), "pads": (0, 1, 0, 1)}
    yield Case("MaxPoolNHWC", (image,), pool)
    counts = draw.integers(0, 16, (2, 8, 8, 4)).astype(np.float32)
    for layout, signed in itertools.product(("NCHW", "NHWC"), (0, 1)):
        attributes = {"stride": 2, "kernel": 3, "ibits": 4, "obits": 4, "signed": signed}
        yield Case(
            "QuantAvgPool2d", (counts - 8 * signed,), {**attributes, "data_layout": layout}
        )
    bits = [draw.integers(0, 2, shape).astype(np.float32) for shape in ((4, 9), (9, 5))]
    yield Case("XnorPopcountMatMul", tuple(bits))
    weight = draw.integers(-3, 4, (4, 3, 3, 3)).astype(np.float32)
    conv = {
        "kernel_shape": (3, 3),
        "strides": (1, 2),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "group": 1,
    }
    yield Case("Conv", (image, weight), conv, CHANNELS_LAST)
    yield Case(
        "MaxPool",
        (image,),
        {**pool, "kernel_shape": (2, 2), "pads": (0, 0, 0, 0)},
        CHANNELS_LAST,
    )
    norm = [np.float32(draw.uniform(0.5, 2, 3)) for _ in range(4)]
    yield Case("BatchNormalization", (image, *norm), {}, CHANNELS_LAST)


GROUPS = {
    "int_quant": int_quants,
    "float_quant": float_quants,
    "trunc": truncs,
    "thresholds": thresholds,
    "others": others,
}
