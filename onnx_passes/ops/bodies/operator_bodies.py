"""The body of each operator outside of the standard: those of QONNX and of this package."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from onnx_passes.ops import DOMAIN
from onnx_passes.ops.bodies.attach import BodyCall, Writer, body

QONNX = "qonnx.custom_op.general"
"""The domain of QONNX's operators."""

QONNX_ALIASES = (QONNX, "onnx.brevitas")
"""QONNX's domain under all of its names."""

CHANNELS_LAST = "qonnx.custom_op.channels_last"
"""The domain of Conv, MaxPool and BatchNormalization over channels-last data."""

CUSTOM = DOMAIN
"""The domain of this package's own operators."""

QUANTISERS = frozenset({"IntQuant", "Quant", "BipolarQuant", "FloatQuant", "Trunc"})
"""Operators that round a value to a grid and return it in the original units."""


def is_quantiser(domain: str, op_type: str) -> bool:
    """Whether an operator says at which precision a value is kept."""
    return op_type in QUANTISERS and domain in (*QONNX_ALIASES, CUSTOM)


def round_by(mode: str, to: Writer, x: str) -> str:
    """Round a float32 value to integers, by a mode in any case, or raise ``ValueError``."""
    rule = _MODES.get(mode.upper())
    if rule is None:
        raise ValueError(f"there is no rounding mode {mode!r}")
    return rule(to, x)


def is_rounding_mode(mode: str) -> bool:
    """Whether a name is one of a rounding mode."""
    return mode.upper() in _MODES


def _half_even(to: Writer, x: str) -> str:
    if to.opset >= 11:
        return to.Round(x)
    # Adding 2**23 leaves no bits behind the point; the addition itself rounds half to even.
    size, big = to.Abs(x), to.number(2.0**23)
    rounded = to.Sub(to.Add(size, big), big)
    return to.Mul(_sign(to, x), to.Where(to.Less(size, big), rounded, size))


def _up(to: Writer, x: str) -> str:
    return to.Mul(_sign(to, x), to.Ceil(to.Abs(x)))


def _down(to: Writer, x: str) -> str:
    # numpy's fix: -0 stays -0, which a product with Sign would lose.
    return to.Where(to.Greater(x, to.number(0, x)), to.Floor(x), to.Ceil(x))


def _half_up(to: Writer, x: str) -> str:
    return to.Mul(_sign(to, x), to.Floor(to.Add(to.Abs(x), to.number(0.5, x))))


def _half_down(to: Writer, x: str) -> str:
    return to.Mul(_sign(to, x), to.Ceil(to.Sub(to.Abs(x), to.number(0.5, x))))


def _sign(to: Writer, x: str) -> str:
    return to.Sign(x)


_MODES: dict[str, Callable[[Writer, str], str]] = {
    "ROUND": _half_even,
    "HALF_EVEN": _half_even,
    "CEIL": lambda to, x: to.Ceil(x),
    "FLOOR": lambda to, x: to.Floor(x),
    "UP": _up,
    "DOWN": _down,
    "ROUND_TO_ZERO": _down,
    "HALF_UP": _half_up,
    "HALF_DOWN": _half_down,
}


@body("Im2Col", *QONNX_ALIASES)
def im2col(to: Writer) -> str:
    """Gather the windows of an image ``[N, H, W, C]``: ``[N, oh, ow, kh * kw * C]``.

    qonnx mixes up the images of a batch; here each image has its own rows.
    """
    (x,) = to.inputs
    _, height, width, channels = image_shape(to.call)
    pads = to.call.integers("pad_amount", (0, 0, 0, 0))
    top, left, bottom, right = pads
    if any(pads):
        ends = to.shape(0, top, left, 0, 0, bottom, right, 0)
        x = _padded(to, x, ends, float(to.call.integer("pad_value", 0)))
    rows = _indices(to.call, 0, height + top + bottom)
    columns = _indices(to.call, 1, width + left + right)
    x = to.Gather(x, to.tensor(rows), axis=1)  # [N, oh, kh, W, C]
    x = to.Gather(x, to.tensor(columns), axis=3)  # [N, oh, kh, ow, kw, C]
    x = to.Transpose(x, perm=[0, 1, 3, 2, 4, 5])
    size = rows.shape[1] * columns.shape[1] * channels
    return to.Reshape(x, to.shape(0, rows.shape[0], columns.shape[0], size))


def image_shape(call: BodyCall) -> tuple[int | None, int, int, int]:
    """Return an Im2Col's input shape, by attribute or declared; ``ValueError`` if unknown."""
    text = call.text("input_shape", "").strip("() ")
    dims = [int(d) for d in text.split(",") if d.strip()] if text else call.shape(0)
    if dims is None or len(dims) != 4:
        raise ValueError("the shape of the image is not known")
    batch, height, width, channels = dims
    if height is None or width is None or channels is None:
        raise ValueError("the shape of the image is not known")
    return batch, height, width, channels


def _indices(call: BodyCall, axis: int, length: int) -> np.ndarray[tuple[int, ...], np.dtype]:
    """Return the positions of each window's elements, ``[windows, kernel]``."""
    kernel = call.integers("kernel_size", ())[axis]
    stride = call.integers("stride", (1, 1))[axis]
    dilation = call.integers("dilations", (1, 1))[axis]
    count = (length - dilation * (kernel - 1) - 1) // stride + 1
    starts = stride * np.arange(count, dtype=np.int64)
    return starts[:, None] + dilation * np.arange(kernel, dtype=np.int64)[None, :]


def _padded(to: Writer, x: str, ends: str, value: float) -> str:
    if to.opset >= 11:
        return to.Pad(x, ends, to.number(value, x))
    raise ValueError("opsets before 11 pad by an attribute")


@body("Im2Col", CUSTOM)
def gather_windows(to: Writer) -> str:
    """Gather elements of flattened images by indices that were computed before."""
    x, indices = to.inputs
    return to.Gather(to.Flatten(x, axis=1), indices, axis=1)


@body("XnorPopcountMatMul", *QONNX_ALIASES)
def xnor_popcount(to: Writer) -> str:
    """Count equal bits: ``(MatMul(2 a - 1, 2 b - 1) + K) / 2``."""
    one, two = to.number(1), to.number(2)
    a, b = (to.Sub(to.Mul(two, x), one) for x in to.inputs)
    depth = to.Cast(to.Gather(to.Shape(to.inputs[0]), to.integer(-1)), to=1)
    return to.Mul(to.Add(to.MatMul(a, b), depth), to.number(0.5))


@body("Conv", CHANNELS_LAST)
@body("MaxPool", CHANNELS_LAST)
@body("BatchNormalization", CHANNELS_LAST)
def channels_last(to: Writer) -> str:
    """Apply the standard operator between two transpositions.

    The weights of a Conv have their channels last, too.
    """
    rank = _rank(to.call)
    first = [0, rank - 1, *range(1, rank - 1)]
    last = [0, *range(2, rank), 1]
    moved = 2 if to.call.op_type == "Conv" else 1
    inputs = [
        to.Transpose(x, perm=first) if index < moved else x
        for index, x in enumerate(to.inputs)
    ]
    add = getattr(to, to.call.op_type)
    return to.Transpose(add(*inputs, **to.call.attributes), perm=last)


def _rank(call: BodyCall) -> int:
    shapes = [call.shape(i) for i in range(2 if call.op_type == "Conv" else 1)]
    known = next((len(shape) for shape in shapes if shape is not None), None)
    if known is None and "kernel_shape" in call.attributes:
        known = len(call.integers("kernel_shape", ())) + 2
    if known is None:
        raise ValueError("the rank of the data is not known")
    return known


@body("Round", CUSTOM)
def rounding(to: Writer) -> str:
    """Round to integers by a mode of QONNX."""
    return round_by(to.call.text("rounding_mode", "ROUND"), to, to.inputs[0])


@body("LayoutConverter", CUSTOM)
def layout_converter(to: Writer) -> str:
    """Transpose data whose axes are what ``assumes`` says."""
    return to.Transpose(to.inputs[0], perm=to.call.integers("perm", ()))


@body("Swish", CUSTOM)
@body("Silu", CUSTOM)
def swish(to: Writer) -> str:
    """``x * Sigmoid(alpha * x)``."""
    (x,) = to.inputs
    alpha = to.call.number("alpha", 1.0)
    return to.Mul(x, to.Sigmoid(x if alpha == 1.0 else to.Mul(to.number(alpha, x), x)))


@body("ArgSort", CUSTOM)
def arg_sort(to: Writer) -> str:
    """Indices that sort along ``axis``, the smallest first."""
    (x,) = to.inputs
    axis = to.call.integer("axis", -1)
    count = to.Gather(to.Shape(x), to.shape(axis))
    to.TopK(x, count, axis=axis, largest=0)
    to.nodes[-1].output[:] = ["sorted", "order"]
    return "order"


@body("Any", CUSTOM)
def any_nonzero(to: Writer) -> str:
    """Whether any element is not zero, as a scalar."""
    whole = to.Cast(to.Cast(to.inputs[0], to=TensorProto.INT64), to=TensorProto.BOOL)
    count = to.ReduceSum(to.Cast(whole, to=TensorProto.INT64), keepdims=0)
    return to.Greater(count, to.integer(0))


@body("Log2", CUSTOM)
def log2(to: Writer) -> str:
    """The logarithm to the base 2."""
    (x,) = to.inputs
    return to.Div(to.Log(x), to.Log(to.number(2, x)))


@body("Ulp", CUSTOM)
def ulp(to: Writer) -> str:
    """The distance between neighbouring float32 values at a value; 0 for infinities.

    The exponent is read from the logarithm in double precision. Where the logarithm of a value
    below a power of two rounds up to it, the distance is that of the power.
    """
    (x,) = to.inputs
    size = to.Cast(to.Abs(x), to=TensorProto.DOUBLE)
    ln2 = to.tensor(np.float64(np.log(2.0)))
    least = to.tensor(np.float64(2.0**-126))
    logarithm = to.Floor(to.Div(to.Log(to.Max(size, least)), ln2))
    two = to.tensor(np.float64(2.0))
    bits = to.tensor(np.float64(23.0))
    distance = to.Cast(to.Pow(two, to.Sub(logarithm, bits)), to=TensorProto.FLOAT)
    return to.Where(to.IsInf(x), to.number(0), distance)


@body("LambertW", CUSTOM)
def lambert_w(to: Writer) -> str:
    """The inverse of ``w * exp(w)``, on the branch 0 or -1; NaN where there is none."""
    (x,) = to.inputs
    return _lambert_w(to, x, to.call.integer("k", 0))


def _lambert_w(to: Writer, x: str, branch: int) -> str:
    one, two, e = to.number(1, x), to.number(2, x), to.number(float(np.e), x)
    zero, near = to.number(0, x), to.number(-0.25, x)
    # Around -1 / e the inverse goes like a square root.
    root = to.Sqrt(to.Mul(two, to.Add(to.Mul(e, x), one)))
    close = to.Sub(root, one) if branch == 0 else to.Neg(to.Add(root, one))
    if branch == 0:
        size = to.Log(to.Add(one, to.Max(x, near)))
        far = to.Sub(size, to.Div(to.Mul(size, size), to.Mul(two, to.Add(two, size))))
    else:
        size = to.Log(to.Neg(to.Min(x, to.number(-1e-38, x))))
        far = to.Sub(size, to.Log(to.Neg(size)))
    w = to.Where(to.Less(x, near), close, far)
    if branch == 0:
        tiny = to.Less(to.Abs(x), to.number(1e-3, x))
        w = to.Where(tiny, to.Mul(x, to.Sub(one, x)), w)
    for _ in range(max(to.call.integer("iterations", 8), 8)):
        # Newton's step on w - log(x / w), which does not overflow.
        step = to.Add(one, to.Log(to.Div(x, w)))
        w = to.Mul(to.Div(w, to.Add(one, w)), step)
    limit = to.number(to.call.number("tolerance", 1e-8), x)
    end = to.Abs(to.Add(x, to.number(float(1 / np.e), x)))
    w = to.Where(to.Or(to.Less(end, limit), to.Equal(end, limit)), to.number(-1, x), w)
    return to.Where(to.Equal(x, zero), zero, w) if branch == 0 else w


@body("InverseSwish", CUSTOM)
@body("InverseSilu", CUSTOM)
def inverse_swish(to: Writer) -> str:
    """What Swish makes the value of: right of its minimum if ``k`` is 0, left if it is -1."""
    (y,) = to.inputs
    alpha = to.number(to.call.number("alpha", 1.0), y)
    scaled = to.Mul(alpha, y)
    # x * sigmoid(a x) = y  <=>  (a x - a y) exp(a x - a y) = a y exp(-a y)
    w = _lambert_w(to, to.Mul(scaled, to.Exp(to.Neg(scaled))), to.call.integer("k", 0))
    return to.Add(y, to.Div(w, alpha))


_LAYOUT_BY_RANK = {2: "NC", 3: "NWC", 4: "NCHW"}


def channel_axis(call: BodyCall, rank: int | None) -> int | None:
    """Return the axis that MultiThreshold has rows of thresholds for; None if not known."""
    layout = call.text("data_layout", "")
    if not layout:
        if rank is None:
            return None
        layout = _LAYOUT_BY_RANK.get(rank, "")
    return layout.index("C") if "C" in layout else 1


@body("MultiThreshold", *QONNX_ALIASES)
def multi_threshold(to: Writer) -> str:
    """``count(x >= thresholds[channel]) * out_scale + out_bias``."""
    x, thresholds = to.inputs
    shape = to.call.shape(0)
    rank = len(shape) if shape is not None else len(to.call.text("data_layout", "")) or None
    axis = channel_axis(to.call, rank)
    if rank is None or axis is None:
        table = _table_of_any_rank(to, x, thresholds)
    else:
        # [channels, steps] becomes [1, channels, 1, 1, steps] beside [N, C, H, W, 1].
        table = to.unsqueeze(thresholds, [i for i in range(rank) if i != axis])
    steps = to.Cast(to.at_least(to.unsqueeze(x, [-1]), table), to=TensorProto.FLOAT)
    count = to.sum_last(steps, rank)
    scale, bias = to.call.number("out_scale", 1.0), to.call.number("out_bias", 0.0)
    return to.Add(to.Mul(count, to.number(scale)), to.number(bias))


def _table_of_any_rank(to: Writer, x: str, thresholds: str) -> str:
    """Reshape the thresholds by the rank that the value turns out to have."""
    rank = to.Size(to.Shape(x))
    is_three = to.Cast(to.Equal(rank, to.integer(3)), to=TensorProto.INT64)
    axis = to.Add(is_three, to.integer(1))
    behind = to.Sub(to.Sub(rank, axis), to.integer(1))
    ones = [to.Expand(to.shape(1), to.Reshape(count, to.shape(1))) for count in (axis, behind)]
    dims = to.Shape(thresholds)
    channels = to.Gather(dims, to.shape(0))
    levels = to.Gather(dims, to.shape(1))
    return to.Reshape(thresholds, to.Concat(ones[0], channels, ones[1], levels, axis=0))


@body("MultiThreshold", CUSTOM)
def weighted_thresholds(to: Writer) -> str:
    """``sum(weights * (x >= thresholds))`` over the last axis, whatever the layout.

    Thresholds and weights broadcast to the shape of the input with one more axis.
    """
    x, thresholds, weights = to.inputs
    steps = to.Cast(to.at_least(to.unsqueeze(x, [-1]), thresholds), to=TensorProto.FLOAT)
    ranks = [to.call.shape(index) for index in range(3)]
    known = None
    if ranks[0] is not None and ranks[1] is not None and ranks[2] is not None:
        known = max(len(ranks[0]), len(ranks[1]) - 1, len(ranks[2]) - 1)
    return to.sum_last(to.Mul(weights, steps), known)


_TO_FIRST, _TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


@body("MaxPoolNHWC", *QONNX_ALIASES)
def max_pool_nhwc(to: Writer) -> str:
    """MaxPool of an image ``[N, H, W, C]``."""
    (x,) = to.inputs
    x = to.MaxPool(to.Transpose(x, perm=_TO_FIRST), **to.call.attributes)
    return to.Transpose(x, perm=_TO_LAST)


@body("QuantAvgPool2d", *QONNX_ALIASES)
def quant_avg_pool(to: Writer) -> str:
    """Sum the integers of each window and drop the lowest bits of the sum."""
    (x,) = to.inputs
    call = to.call
    last = call.text("data_layout", "NCHW") == "NHWC"
    kernel, stride = call.integer("kernel", 1), call.integer("stride", 1)
    x = to.Transpose(x, perm=_TO_FIRST) if last else x
    mean = to.AveragePool(x, kernel_shape=[kernel, kernel], strides=[stride, stride])
    total = to.Mul(mean, to.number(float(kernel * kernel), x))
    # The quotient by a power of two is exact, and its floor is a shift to the right.
    step = to.number(2.0 ** dropped_bits(call), x)
    result = to.Floor(to.Div(round_by("ROUND", to, total), step))
    return to.Transpose(result, perm=_TO_LAST) if last else result


def dropped_bits(call: BodyCall) -> int:
    """Return how many of the lowest bits of the sum QuantAvgPool2d drops."""
    kernel = call.integer("kernel", 1)
    largest: int = (2 ** call.integer("ibits", 1) - 1) * kernel * kernel
    return max(largest.bit_length() - call.integer("obits", 1), 0)


_TRUNC_2_INPUTS = 6


@body("IntQuant", *QONNX_ALIASES)
@body("Quant", *QONNX_ALIASES, CUSTOM)
def int_quant(to: Writer) -> str:
    """``(round(clamp(x / scale + zero)) - zero) * scale``; 1 bit and signed gives -1 or 1.

    The clamp is before the rounding. The number of bits need not be an integer.
    """
    x, scale, zero, bits = to.inputs
    call = to.call
    # The functions of the seed system declare no defaults; QONNX's code has narrow = 1.
    signed, narrow = bool(call.integer("signed", 1)), bool(call.integer("narrow", 1))
    mode = call.text("rounding_mode", "ROUND")
    q = to.Add(to.Div(x, scale), zero)
    level = round_by(mode, to, _clamped(to, q, bits, signed, narrow))
    if signed:
        one = to.number(1, x)
        two_levels = to.Where(to.at_least(q, to.number(0, x)), one, to.Neg(one))
        one_bit = to.Not(to.Or(to.Less(bits, one), to.Less(one, bits)))
        level = to.Where(one_bit, two_levels, level)
    return to.Mul(to.Sub(level, zero), scale)


def _clamped(to: Writer, q: str, bits: str, signed: bool, narrow: bool) -> str:
    """Clamp to the range of an integer; NaN stays, and so does the sign of a zero."""
    one, two = to.number(1, q), to.number(2, q)
    if signed:
        half = to.Pow(two, to.Sub(bits, one))
        high = to.Sub(half, one)
        low = to.Add(to.Neg(half), one) if narrow else to.Neg(half)
    else:
        high = to.Sub(to.Pow(two, bits), two if narrow else one)
        low = to.Mul(to.number(0, q), bits)
    q = to.Where(to.Greater(q, high), high, q)
    return to.Where(to.Less(q, low), low, q)


@body("BipolarQuant", *QONNX_ALIASES)
def bipolar_quant(to: Writer) -> str:
    """``(x >= 0 ? 1 : -1) * scale``."""
    x, scale = to.inputs
    one = to.number(1, x)
    return to.Mul(to.Where(to.at_least(x, to.number(0, x)), one, to.Neg(one)), scale)


@body("FloatQuant", *QONNX_ALIASES)
def float_quant(to: Writer) -> str:
    """Round to a small floating-point format, with or without saturation.

    The grid is ``2 ** max(floor(log2(|x / scale| + tiny)) - mantissa, 1 - bias - mantissa)``.
    The logarithm is rounded to float32: a value an ulp below a power of two has its grid.
    """
    x, scale, exponent, mantissa, bias, largest = to.inputs
    call = to.call
    x = to.Div(x, scale)
    one, two = to.number(1, x), to.number(2, x)
    tiny = to.number(float(np.finfo(np.float32).tiny), x)
    wide = to.Cast(to.Add(to.Abs(x), tiny), to=TensorProto.DOUBLE)
    ln2 = to.tensor(np.float64(np.log(2.0)))
    logarithm = to.Cast(to.Div(to.Log(wide), ln2), to=TensorProto.FLOAT)
    least = to.Sub(to.Sub(one, bias), mantissa)
    power = to.Sub(to.Floor(logarithm), mantissa)
    power = to.Where(to.Less(power, least), least, power)
    grid = to.Pow(two, power)
    rounded = to.Mul(grid, round_by(call.text("rounding_mode", "ROUND"), to, to.Div(x, grid)))
    # The format's largest value: a mantissa of ones at the highest exponent.
    top = to.Sub(to.Sub(to.Pow(two, exponent), one), bias)
    ones = to.Sub(two, to.Pow(two, to.Neg(mantissa)))
    bound = to.Min(to.Mul(ones, to.Pow(two, top)), largest)
    above, below = to.Greater(rounded, bound), to.Less(rounded, to.Neg(bound))
    result = to.Where(above, bound, to.Where(below, to.Neg(bound), rounded))
    if not call.integer("saturation", 1):
        result = _unsaturated(to, rounded, result, above, below)
    return to.Mul(result, scale)


def _unsaturated(to: Writer, rounded: str, clamped: str, above: str, below: str) -> str:
    infinity, nan = to.number(np.inf, rounded), to.number(np.nan, rounded)
    if to.call.integer("has_inf", 0):
        return to.Where(above, infinity, to.Where(below, to.Neg(infinity), clamped))
    if to.call.integer("has_nan", 0):
        return to.Where(to.Or(above, below), nan, clamped)
    raise ValueError("without saturation, a format has infinities or NaN")


@body("Trunc", *QONNX_ALIASES)
def trunc(to: Writer) -> str:
    """Drop the lowest bits of an integer; version 1 has five inputs and version 2 has six."""
    if to.call.inputs == _TRUNC_2_INPUTS:
        return _trunc_2(to)
    x, scale, zero, bits, kept = to.inputs
    y = round_by("ROUND", to, to.Add(to.Div(x, scale), zero))
    y = to.Div(y, to.Pow(to.number(2, x), to.Sub(bits, kept)))
    y = round_by(to.call.text("rounding_mode", "FLOOR"), to, y)
    return to.Mul(to.Sub(y, zero), scale)


def _trunc_2(to: Writer) -> str:
    x, scale, zero, _, out_scale, bits = to.inputs
    call = to.call
    y = round_by("ROUND", to, to.Add(to.Div(x, scale), zero))
    wide = to.Cast(to.Div(out_scale, scale), to=TensorProto.DOUBLE)
    ln2 = to.tensor(np.float64(np.log(2.0)))
    logarithm = to.Cast(to.Div(to.Log(wide), ln2), to=TensorProto.FLOAT)
    step = to.Pow(to.number(2, x), round_by("ROUND", to, logarithm))
    signed, narrow = bool(call.integer("signed", 1)), bool(call.integer("narrow", 0))
    y = _clamped(to, to.Div(y, step), bits, signed, narrow)
    y = round_by(call.text("rounding_mode", "FLOOR"), to, y)
    return to.Mul(to.Sub(y, to.Div(zero, step)), out_scale)
