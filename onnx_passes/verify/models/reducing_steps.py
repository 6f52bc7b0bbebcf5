"""Steps that reduce, normalise, multiply and convolve."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.choosing import axis_of, ranked, static
from onnx_passes.verify.models.inferring import UnfitError
from onnx_passes.verify.models.known_operators import reductions
from onnx_passes.verify.models.known_values import FLOATS, NUMBERS, KnownValue, random_array
from onnx_passes.verify.models.scope import GraphScope

FLOAT = TensorProto.FLOAT


def reduce_(scope: GraphScope, rng: np.random.Generator) -> None:
    """A reduction over some axes, all, or none."""
    # What overflows is not the same on engines: ends of a Slice are not reduced.
    value = scope.pick(lambda v: v.dtype in NUMBERS and v.rank >= 0 and not _is_huge(v))
    operator = str(rng.choice(reductions()))
    count = int(rng.integers(0, value.rank + 1))
    axes = [int(a) for a in rng.choice(max(value.rank, 1), count, replace=False)]
    axes = [a - value.rank if rng.random() < 0.3 else a for a in axes]
    keepdims = int(rng.integers(2)) if rng.random() < 0.7 else None
    if scope.has_attribute(operator, "axes"):
        scope.emit(operator, [value], axes=axes or None, keepdims=keepdims)
        return
    noop = int(rng.integers(2)) if rng.random() < 0.4 else None
    inputs = [value, scope.ints(axes, rng)] if axes or rng.random() < 0.3 else [value]
    scope.emit(operator, inputs, keepdims=keepdims, noop_with_empty_axes=noop)


def _is_huge(value: KnownValue) -> bool:
    integers = value.data is not None and value.data.dtype.kind in "iu"
    return integers and bool(np.any(np.abs(np.asarray(value.data, np.float64)) > 1e9))


def arg(scope: GraphScope, rng: np.random.Generator) -> None:
    """ArgMax or ArgMin."""
    value = ranked(scope, FLOAT, TensorProto.INT32, TensorProto.INT64)
    given: PlainDict = {"axis": axis_of(rng, value.rank)}
    if rng.random() < 0.5:
        given["keepdims"] = int(rng.integers(2))
    if rng.random() < 0.3:
        given["select_last_index"] = int(rng.integers(2))
    if value.shape is None or 0 in value.shape:
        raise UnfitError
    scope.emit(str(rng.choice(["ArgMax", "ArgMin"])), [value], **given)


def softmax(scope: GraphScope, rng: np.random.Generator) -> None:
    """Softmax, its logarithm, or Hardmax."""
    value = ranked(scope, *FLOATS)
    axis = axis_of(rng, value.rank) if rng.random() < 0.8 else None
    operator = str(rng.choice(["Softmax", "LogSoftmax", "Hardmax"], p=[0.6, 0.3, 0.1]))
    scope.emit(operator, [value], axis=axis)


def cumsum(scope: GraphScope, rng: np.random.Generator) -> None:
    """A CumSum in any direction."""
    value = ranked(scope, FLOAT, TensorProto.INT64, TensorProto.INT32)
    axis = scope.constant(np.asarray(axis_of(rng, value.rank), np.int64), rng)
    given = {k: int(rng.integers(2)) for k in ("exclusive", "reverse") if rng.random() < 0.5}
    scope.emit("CumSum", [value, axis], **given)


def topk(scope: GraphScope, rng: np.random.Generator) -> None:
    """The greatest or least elements."""
    value, sizes = static(scope, FLOAT, TensorProto.INT64, least=1)
    axis = axis_of(rng, len(sizes))
    k = scope.ints([int(rng.integers(0, sizes[axis] + 1))], rng)
    largest = int(rng.integers(2)) if rng.random() < 0.5 else None
    scope.emit("TopK", [value, k], outputs=2, axis=axis, largest=largest)


def layer_norm(scope: GraphScope, rng: np.random.Generator) -> None:
    """LayerNormalization over the last dimensions."""
    value, sizes = static(scope, FLOAT, TensorProto.DOUBLE, least=1)
    if scope.opset < 17 or 0 in sizes:
        raise UnfitError
    axis = int(rng.integers(-len(sizes), 0))
    inputs = [value, scope.fresh(rng, [value.dtype], sizes[axis:])]
    if rng.random() < 0.6:
        inputs.append(scope.fresh(rng, [value.dtype], sizes[axis:]))
    given: PlainDict = {} if axis == -1 and rng.random() < 0.5 else {"axis": axis}
    if rng.random() < 0.6:
        given["epsilon"] = float(rng.choice([1e-5, 1e-12, 0.1, 0.0]))
    scope.emit("LayerNormalization", inputs, **given)


def batch_norm(scope: GraphScope, rng: np.random.Generator) -> None:
    """BatchNormalization as inference has it."""
    channels = int(rng.integers(1, 4))
    value = _image(scope, rng, channels)
    scale, bias, mean = (scope.fresh(rng, [FLOAT], (channels,)) for _ in range(3))
    spread = np.abs(random_array(rng, FLOAT, (channels,)).astype(np.float32))
    variance = scope.constant(spread, rng)
    epsilon = float(rng.choice([1e-5, 1e-3, 0.5])) if rng.random() < 0.6 else None
    scope.emit("BatchNormalization", [value, scale, bias, mean, variance], epsilon=epsilon)


def matmul(scope: GraphScope, rng: np.random.Generator) -> None:
    """A MatMul with a constant or an input, vectors and batches among them."""
    value = ranked(scope, FLOAT, TensorProto.DOUBLE, TensorProto.INT32)
    assert value.shape is not None
    inner = value.shape[-1]
    if not isinstance(inner, int) or inner == 0:
        raise UnfitError  # over nothing, ONNX Runtime leaves its output unwritten
    outer = int(rng.integers(1, 4))
    shape = [(inner,), (inner, outer), (inner, outer), (1, inner, outer), (2, inner, outer)]
    other = scope.fresh(rng, [value.dtype], shape[int(rng.integers(len(shape)))])
    scope.emit("MatMul", [value, other])


def gemm(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Gemm with its attributes, some left to their defaults."""
    value = scope.pick(
        lambda v: v.dtype in FLOATS[:2] and v.rank == 2 and v.static is not None
    )
    assert value.static is not None
    if 0 in value.static:
        raise UnfitError
    flip_a, flip_b = (int(rng.integers(2)) for _ in range(2))
    rows, inner = value.static[::-1] if flip_a else value.static
    columns = int(rng.integers(1, 4))
    other = scope.fresh(rng, [value.dtype], (columns, inner) if flip_b else (inner, columns))
    inputs = [value, other]
    if rng.random() < 0.7:
        biases = [(), (columns,), (1, columns), (rows, 1), (rows, columns)]
        inputs.append(scope.fresh(rng, [value.dtype], biases[int(rng.integers(len(biases)))]))
    given: PlainDict = {
        k: float(rng.choice([1.0, 0.5, 2.0, 0.0]))
        for k in ("alpha", "beta")
        if rng.random() < 0.4
    }
    given |= {
        k: v for k, v in (("transA", flip_a), ("transB", flip_b)) if v or rng.random() < 0.2
    }
    scope.emit("Gemm", inputs, **given)


def conv(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Conv or ConvTranspose of two dimensions with odd attributes."""
    group = int(rng.choice([1, 1, 2]))
    channels = group * int(rng.integers(1, 3))
    value = _image(scope, rng, channels)
    transposed = rng.random() < 0.25
    made = group * int(rng.integers(1, 3))
    kernel = [int(k) for k in rng.integers(1, 4, 2)]
    sizes = (channels, made // group) if transposed else (made, channels // group)
    weights = scope.fresh(rng, [FLOAT], (*sizes, *kernel))
    inputs = [value, weights]
    if rng.random() < 0.5:
        inputs.append(scope.fresh(rng, [FLOAT], (made,)))
    given = _windows(rng, transposed=transposed)
    given["group"] = group if group > 1 or rng.random() < 0.3 else None
    if rng.random() < 0.6:
        given["kernel_shape"] = kernel
    scope.emit("ConvTranspose" if transposed else "Conv", inputs, **given)


def pool(scope: GraphScope, rng: np.random.Generator) -> None:
    """A pooling of two dimensions with odd attributes."""
    value = _image(scope, rng, int(rng.integers(1, 4)))
    if rng.random() < 0.2:
        scope.emit(str(rng.choice(["GlobalAveragePool", "GlobalMaxPool"])), [value])
        return
    operator = str(rng.choice(["MaxPool", "AveragePool"]))
    given = _windows(rng, transposed=False)
    given["kernel_shape"] = [int(k) for k in rng.integers(2, 4, 2)]
    if operator == "AveragePool":
        given.pop("dilations", None)
        given["count_include_pad"] = int(rng.integers(2)) if rng.random() < 0.5 else None
    given["ceil_mode"] = int(rng.integers(2)) if rng.random() < 0.3 else None
    scope.emit(operator, [value], **given)


def einsum(scope: GraphScope, rng: np.random.Generator) -> None:
    """A contraction by equation."""
    value, sizes = static(scope, FLOAT, least=2)
    if len(sizes) != 2 or 0 in sizes:
        raise UnfitError
    other = scope.fresh(rng, [FLOAT], (sizes[1], int(rng.integers(1, 4))))
    equation = str(rng.choice(["ij,jk->ik", "ij,jk->ki", "ij,jk->j", "ij,jk"]))
    scope.emit("Einsum", [value, other], equation=equation)


def dropout(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Dropout as inference has it."""
    value = scope.pick_type(*FLOATS)
    if rng.random() < 0.5:
        scope.emit("Dropout", [value], outputs=int(rng.integers(1, 3)))
        return
    ratio = scope.constant(np.asarray(rng.choice([0.0, 0.5]), np.float32), rng)
    off = scope.constant(np.asarray(False), rng)
    scope.emit("Dropout", [value, ratio, off])


def _image(scope: GraphScope, rng: np.random.Generator, channels: int) -> KnownValue:
    def fits(value: KnownValue) -> bool:
        shape = value.shape
        return (
            value.dtype == FLOAT
            and shape is not None
            and len(shape) == 4
            and (shape[1] == channels and all(isinstance(d, int) and d > 2 for d in shape[2:]))
        )

    if rng.random() < 0.6:
        try:
            return scope.pick(fits)
        except UnfitError:
            pass
    batch = "N" if rng.random() < 0.5 else int(rng.integers(1, 3))
    return scope.fresh(rng, [FLOAT], (batch, channels, *map(int, rng.integers(4, 7, 2))))


def _windows(rng: np.random.Generator, *, transposed: bool) -> PlainDict:
    given: PlainDict = {}
    if rng.random() < 0.4:
        given["strides"] = [int(s) for s in rng.integers(1, 3, 2)]
    if rng.random() < 0.2:
        given["dilations"] = [int(d) for d in rng.integers(1, 3, 2)]
    style = rng.random()
    if style < 0.4:
        given["pads"] = [int(p) for p in rng.integers(0, 2, 4)]
    elif style < 0.6 and not transposed:
        given["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        given.pop("dilations", None)
    return given


STEPS = (
    reduce_, reduce_, arg, softmax, cumsum, topk, layer_norm, batch_norm, matmul, matmul, gemm,
    conv, conv, pool, einsum, dropout,
)  # fmt: skip
"""Steps of this file, the common ones more than once."""
