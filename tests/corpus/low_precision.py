"""Random models below float32: casts there and back, quantized pairs, integer layers.

Presets run on them; no certificate rests on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from onnx_passes.certifying.models import Recipe, recipes
from onnx_passes.certifying.models.planted.plant import FLOAT, FormBuilder, kind_of, make_step
from onnx_passes.certifying.models.scope import (
    CannotAddNodeError,
    GraphScope,
    KnownValue,
    random_array,
)
from onnx_passes.plain import PlainDict

DOUBLE = TensorProto.DOUBLE
FLOAT16, BFLOAT16 = TensorProto.FLOAT16, TensorProto.BFLOAT16
FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2)
_NEWER = (13, 15, 17, 18, 19, 20, 21, 22, 23, 23, 24, 24)
_WITH_FLOAT8 = (19, 20, 21, 22, 23, 23, 24, 24)


@dataclass(frozen=True)
class Precision:
    """How a model gets parts below float32.

    Steps choose types as if a model were float32. A one-to-one map then says which type a
    value has in the model: with FLOAT for FLOAT16, all forms that steps make are in float16.
    `low` are types in the model that low precision steps cast to. With `emulated`, an operator
    without a kernel for bfloat16 has Casts around it.
    """

    opsets: tuple[int, ...]
    swapped: tuple[tuple[int, int], ...] = ()
    low: tuple[int, ...] = ()
    emulated: bool = False
    quantized: bool = False

    def real(self, dtype: int) -> int:
        """Return the type in the model of one that a step chooses."""
        return dict(self.swapped).get(dtype, dtype)

    def chosen(self, real: int) -> int:
        """Return what a step chooses for a type in the model."""
        return {own: chosen for chosen, own in self.swapped}.get(real, real)

    def array(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return a constant of a step as the model has it; finite numbers stay finite."""
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        real = self.real(dtype)
        if real == dtype:
            return array
        kind = helper.tensor_dtype_to_np_dtype(real)
        if real == FLOAT16:
            most = float(np.finfo(np.float16).max)
            array = np.where(np.isfinite(array), np.clip(array, -most, most), array)
        with np.errstate(over="ignore"):
            return np.asarray(np.asarray(array).astype(kind))


_HALF = ((FLOAT, FLOAT16), (DOUBLE, FLOAT), (FLOAT16, DOUBLE))
_BRAIN = ((FLOAT, BFLOAT16), (BFLOAT16, FLOAT))

PRECISIONS: dict[str, Precision] = {
    "float16": Precision(_NEWER, _HALF, low=(FLOAT, FLOAT, BFLOAT16)),
    "mixed": Precision(
        _NEWER, ((DOUBLE, FLOAT16), (FLOAT16, DOUBLE)), low=(FLOAT16, FLOAT16, BFLOAT16)
    ),
    "bfloat16": Precision(_NEWER, _BRAIN, low=(FLOAT, FLOAT, FLOAT16), emulated=True),
    "bfloat16 parts": Precision(_NEWER, low=(BFLOAT16,)),
    "float8": Precision(_WITH_FLOAT8, low=FLOAT8),
    "float8 of float16": Precision(_WITH_FLOAT8, _HALF, low=FLOAT8),
    "quantized": Precision(_NEWER, quantized=True),
    "quantized float16": Precision(_WITH_FLOAT8, _HALF, quantized=True),
}


@dataclass
class LowScope(GraphScope):
    """A graph whose types are those of a precision."""

    precision: Precision = PRECISIONS["float16"]

    def inner(self, seed: int, prefix: str, parent: GraphScope | None) -> GraphScope:
        """Return the scope of a body or function, of the same precision."""
        return LowScope(seed, self.opset, parent, self.step, prefix, precision=self.precision)

    @cached_property
    def further(self):
        """The steps of low precision that a model of this kind has."""
        return QUANTIZED_STEPS if self.precision.quantized else NARROW_STEPS

    @cached_property
    def native(self):
        """Nodes of a function have no Casts around them."""
        return self.chosen(FLOAT) if self.precision.emulated else FLOAT

    def real(self, dtype: int) -> int:
        """Return the type in the model of one that a step chooses."""
        return self.precision.real(dtype)

    def chosen(self, real: int) -> int:
        """Return what a step chooses for a type in the model."""
        return self.precision.chosen(real)

    def tensor(self, array, name):
        """Return a constant as the model has it."""
        return super().tensor(self.precision.array(array), name)

    def emit(self, operator, inputs, outputs=1, **attributes):
        """Add a node, if need be in float32 with Casts of bfloat16 around it."""
        try:
            return super().emit(operator, inputs, outputs, **attributes)
        except CannotAddNodeError:
            low, full = self.chosen(BFLOAT16), self.chosen(FLOAT)
            lows = [value for value in inputs if value is not None and value.dtype == low]
            if not (self.precision.emulated and lows):
                raise
        wide = [self._cast(v, low, full) for v in inputs]
        made = super().emit(operator, wide, outputs, **attributes)
        return [v for value in made if (v := self._cast(value, full, low)) is not None]

    def _cast(self, value: KnownValue | None, source: int, target: int) -> KnownValue | None:
        """Add a Cast if a value has the source type."""
        if value is None or value.dtype != source:
            return value
        return super().emit("Cast", [value], to=target)[0]


class LowRecipe(Recipe):
    """A recipe whose `precision` is a name in ``PRECISIONS``."""

    def scope(self, rng: np.random.Generator) -> GraphScope:
        """Return an empty graph of an opset that is drawn."""
        kind = PRECISIONS[str(self.precision)]
        return LowScope(self.seed, int(rng.choice(kind.opsets)), precision=kind)


def low_recipe(recipe: Recipe, precision: str) -> LowRecipe:
    """Return a recipe of the same steps in a low precision."""
    return LowRecipe(recipe.seed, recipe.steps, precision)


def mixed_recipes(count: int, *, seed: int = 0, steps: int = 12) -> Iterator[Recipe]:
    """Yield recipes as ``recipes`` does, every third one of low precision.

    The kinds of ``PRECISIONS`` take turns.
    """
    kinds = list(PRECISIONS)
    for number, recipe in enumerate(recipes(count, seed=seed, steps=steps)):
        turn, place = divmod(number, 3)
        yield low_recipe(recipe, kinds[turn % len(kinds)]) if place == 2 else recipe


def _low(p: FormBuilder) -> int:
    """Return a low type of the model, as steps choose it."""
    return p.scope.chosen(p.choose(*p.scope.precision.low))


def _narrow(p: FormBuilder, x: KnownValue, low: int) -> KnownValue:
    """Cast to a low type; to float8 in any of its two ways."""
    given: PlainDict = {}
    if p.scope.real(low) in FLOAT8:
        given["saturate"] = p.choose(None, 1, 0)
    return p.op("Cast", x, to=low, **given)


def rounded(p: FormBuilder) -> KnownValue:
    """A Cast to a low type and back, with one more such pair behind it at times."""
    x = p.x(rank=1)
    low = _low(p)
    for _ in range(p.choose(1, 1, 2)):
        x = p.cast(_narrow(p, x, low), p.other(x.dtype, x.dtype, TensorProto.DOUBLE))
        low = p.other(low, _low(p))
    return x


def chain(p: FormBuilder) -> KnownValue:
    """Casts one behind another; some lose digits."""
    x = p.x(p.choose(FLOAT, FLOAT, TensorProto.DOUBLE, TensorProto.INT32), rank=1)
    types = [_low(p), p.choose(FLOAT, TensorProto.DOUBLE), _low(p), FLOAT]
    for dtype in types[p.choose(0, 1, 2) :]:
        x = _narrow(p, x, dtype)
    return x


def like(p: FormBuilder) -> KnownValue:
    """A CastLike to a low type and back."""
    x = p.x(rank=1)
    model = p.constant(random_array(p.rng, p.scope.chosen(FLOAT16), ()))
    return p.op("CastLike", p.op("CastLike", x, model), x)


def narrow_moved(p: FormBuilder) -> KnownValue:
    """Operators that move elements, between Casts to a low type and back."""
    batch = p.batch()
    x = p.x(FLOAT, p.choose((batch, 3, 4), (batch, 2, 1)))
    y = _narrow(p, x, _low(p))
    for _ in range(p.choose(1, 2, 3)):
        y = _move(p, y)
    return p.cast(y, x.dtype)


def _move(p: FormBuilder, y: KnownValue) -> KnownValue:
    rank = y.rank
    if rank < 1:
        raise CannotAddNodeError
    operator = p.choose(
        "Transpose", "Transpose", "Reshape", "Identity", "Cast", "Slice", "Concat", "Gather",
        "Unsqueeze", "Flatten",
    )  # fmt: skip
    match operator:
        case "Transpose":
            perm = [int(i) for i in p.rng.permutation(rank)]
            return p.op("Transpose", y, perm=p.other(perm, list(range(rank))))
        case "Reshape":
            return p.op("Reshape", y, p.ints(*p.choose((-1,), (0, -1), (1, -1))))
        case "Cast":
            return p.cast(y, y.dtype)
        case "Slice":
            return p.op(
                "Slice", y, p.ints(0), p.ints(p.choose(2, 2**63 - 1)), p.ints(rank - 1)
            )
        case "Concat":
            return p.op("Concat", *[y] * p.choose(1, 2), axis=p.axis(rank - 1, rank))
        case "Gather":
            return p.op("Gather", y, p.ints(0), axis=p.axis(rank - 1, rank))
        case "Unsqueeze":
            return p.with_axes("Unsqueeze", y, [0])
        case "Flatten":
            return p.op("Flatten", y, axis=1)
    return p.op("Identity", y)


def narrow_stored(p: FormBuilder) -> KnownValue:
    """Weights that are stored in a low type and read in a wider one."""
    x = p.x(FLOAT, (p.batch(), 4))
    flip = p.chance(0.3)
    shape = (3, 4) if flip else (4, 3)
    kind = kind_of(_low(p))
    w = p.cast(p.constant(p.rng.standard_normal(shape).astype(kind)), x.dtype)
    if flip:
        w = p.op("Transpose", w, perm=[1, 0])
    y = p.op("MatMul", x, w)
    if p.chance():
        bias = p.op("Cast", p.constant(p.rng.standard_normal(3).astype(kind)), to=x.dtype)
        y = p.op("Add", y, bias)
    return p.op("Relu", y) if p.chance(0.4) else y


def narrow_layer(p: FormBuilder) -> KnownValue:
    """A layer between Casts: in the low type if it has kernels, else with Casts around."""
    x = p.x(FLOAT, p.choose((p.batch(), 4), (2, p.batch(), 4)))
    low = _low(p)
    y = _narrow(p, x, low)
    native = p.scope.real(low) in (FLOAT, FLOAT16)
    middle = low if native else x.dtype
    for operator in p.choose(("MatMul", "Add", "Relu"), ("Mul", "Add"), ("Sigmoid", "Mul")):
        if not native:
            y = p.cast(y, x.dtype)
        if operator in ("Relu", "Sigmoid"):
            made = p.op(operator, y)
        elif operator == "MatMul":
            made = p.op("MatMul", y, p.weights(4, 4, dtype=middle))
        else:
            made = p.op(operator, y, p.weights(4, dtype=middle))
        y = made if native else _narrow(p, made, low)
    return p.cast(y, x.dtype)


def scaled(p: FormBuilder) -> KnownValue:
    """A QuantizeLinear to float8 and back, per tensor or per axis; weights at times."""
    low = p.choose(*FLOAT8)
    x = p.x(FLOAT, (p.batch(), 4))
    zero = p.constant(np.zeros((), kind_of(low)))
    if p.chance(0.3):
        w = p.constant(p.rng.standard_normal((4, 3)).astype(kind_of(low)))
        return p.op("MatMul", x, p.op("DequantizeLinear", w, p.positive(), zero))
    scale, axis = p.positive(), None
    if p.chance(0.4):
        scale, axis = p.positive(4), p.choose(None, 1, -1)
        zero = p.constant(np.zeros(4, kind_of(low)))
    q = p.op("QuantizeLinear", x, scale, zero, axis=axis, saturate=p.choose(None, 1, 0))
    if p.chance(0.3):
        q = p.op("Identity", q)
    other = p.positive(*scale.static or ())
    return p.op("DequantizeLinear", q, p.other(scale, other), zero, axis=axis)


def scaled_if_float8(p: FormBuilder) -> KnownValue:
    """As :func:`scaled`, in models that have float8."""
    if not set(p.scope.precision.low) & set(FLOAT8):
        raise CannotAddNodeError
    return scaled(p)


NARROW_STEPS = (
    *(
        make_step(form, sealed=False)
        for form in (rounded, rounded, chain, like, narrow_moved, narrow_moved)
    ),
    *(
        make_step(form, sealed=True)
        for form in (narrow_stored, narrow_layer, narrow_layer, scaled_if_float8)
    ),
)


_BYTES: tuple[int, ...] = (TensorProto.INT8, TensorProto.UINT8)
_MORE: tuple[int, ...] = (
    TensorProto.INT16,
    TensorProto.UINT16,
    TensorProto.INT4,
    TensorProto.UINT4,
)
_FOUR_BITS: tuple[int, ...] = (TensorProto.INT4, TensorProto.UINT4)
_LIMITS: dict[int, tuple[int, int]] = {
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT8: (0, 255),
    TensorProto.INT16: (-32768, 32767),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
}
_WITH_INT4 = 21


@dataclass(frozen=True)
class _Grid:
    """The numbers that a quantized tensor represents. No `axis` means one scale."""

    scale: KnownValue
    zero: KnownValue | None
    axis: int | None
    dtype: int


def _grid(p, dtype, channels=None, axis=None):
    low, high = _LIMITS[dtype]
    sizes = () if channels is None else (channels,)
    scale = p.constant((p.rng.uniform(2, 6, sizes) / (high - low)).astype(np.float32))
    if dtype in (TensorProto.UINT8, TensorProto.INT8) and p.chance(0.15):
        if dtype == TensorProto.UINT8:
            return _Grid(scale, None, axis, dtype)
        zero = np.zeros(sizes)
    else:
        middle = (low + high + 1) // 2
        zero = np.full(sizes, middle) + p.rng.integers(-3, 4, sizes) * p.choose(0, 1)
    return _Grid(scale, p.constant(zero.astype(kind_of(dtype))), axis, dtype)


def _dtype(p: FormBuilder) -> int:
    wide = p.scope.opset >= _WITH_INT4 and p.chance(0.35)
    return p.choose(*(_MORE if wide else _BYTES))


def _quantize(p: FormBuilder, x: KnownValue, grid: _Grid) -> KnownValue:
    inputs = [x, grid.scale] if grid.zero is None else [x, grid.scale, grid.zero]
    return p.op("QuantizeLinear", *inputs, axis=grid.axis)


def _dequantize(p: FormBuilder, q: KnownValue, grid: _Grid, **given: object) -> KnownValue:
    inputs = [q, grid.scale] if grid.zero is None else [q, grid.scale, grid.zero]
    return p.op("DequantizeLinear", *inputs, axis=grid.axis, **given)


def _through(p: FormBuilder, x: KnownValue, grid: _Grid | None = None) -> KnownValue:
    grid = grid or _grid(p, p.choose(*_BYTES))
    return _dequantize(p, _quantize(p, x, grid), grid)


def pair(p: FormBuilder) -> KnownValue:
    """A pair on any value, per tensor or per axis; twice at times, or with another scale."""
    x = p.x(FLOAT, p.choose((p.batch(), 4), (p.batch(), 4, 3)))
    dtype = _dtype(p)
    grid = _grid(p, dtype)
    if p.chance(0.35):
        grid = _grid(p, dtype, 4, p.choose(1, 1 - x.rank))
    q = _quantize(p, x, grid)
    if grid.axis is None and dtype in _BYTES and p.chance(0.3):
        q = p.op("Reshape", q, p.ints(0, -1))
    y = _dequantize(p, q, p.other(grid, _grid(p, dtype)))
    return _through(p, y, p.other(grid, None)) if p.chance(0.3) else y


def quantized_moved(p: FormBuilder) -> KnownValue:
    """Operators that move or clip elements, before, between or behind a pair."""
    x = p.x(FLOAT, (p.batch(), 2, 4, 4))
    grid = _grid(p, p.choose(*_BYTES))
    place = p.choose("before", "between", "behind", "all")
    if place in ("before", "all"):
        x = _move_quantized(p, x)
    x = _through(p, x, grid)
    if place in ("between", "all"):
        x = _through(p, _move_quantized(p, x), p.other(grid, None))
    return _move_quantized(p, x) if place == "behind" else x


def _move_quantized(p: FormBuilder, x: KnownValue) -> KnownValue:
    if x.rank < 2:
        raise CannotAddNodeError
    match p.choose("Relu", "Clip", "Transpose", "Reshape", "MaxPool", "Concat", "Flatten"):
        case "Relu":
            return p.op("Relu", x)
        case "Clip":
            if p.scope.has_attribute("Clip", "min"):
                return p.op("Clip", x, min=0.0, max=6.0)
            return p.op("Clip", x, p.scalar(0.0, x), p.scalar(6.0, x))
        case "Transpose":
            return p.op("Transpose", x, perm=[int(i) for i in p.rng.permutation(x.rank)])
        case "Reshape":
            return p.op("Reshape", x, p.ints(0, -1))
        case "MaxPool":
            return p.op("MaxPool", x, kernel_shape=[2, 2], strides=p.choose(None, [2, 2]))
        case "Concat":
            return p.op("Concat", x, x, axis=p.axis(1, x.rank))
    return p.op("Flatten", x, axis=p.choose(1, 2))


def _weights(p: FormBuilder, *shape: int, axis: int, dtype: int | None = None) -> KnownValue:
    """Return weights that are stored quantized: per tensor, per axis, or in blocks."""
    dtype = dtype or p.choose(*_BYTES)
    low, high = _LIMITS[dtype]
    stored = p.constant(p.rng.integers(low, high + 1, shape).astype(kind_of(dtype)))
    if dtype in _FOUR_BITS and shape[0] % 2 == 0 and p.chance():
        sizes = (shape[0] // 2, *shape[1:])
        scale = p.constant((p.rng.uniform(2, 6, sizes) / (high - low)).astype(np.float32))
        zero = p.constant(np.full(sizes, (low + high + 1) // 2).astype(kind_of(dtype)))
        return p.op("DequantizeLinear", stored, scale, zero, axis=0, block_size=2)
    per_axis = p.chance()
    grid = _grid(p, dtype, shape[axis], axis) if per_axis else _grid(p, dtype)
    return _dequantize(p, stored, grid)


def quantized_layer(p: FormBuilder) -> KnownValue:
    """A layer between pairs, as exporters of quantized models write it."""
    operator = p.choose("MatMul", "Gemm", "Conv", "Add", "Mul", "MaxPool", "AveragePool")
    if operator in ("Conv", "MaxPool", "AveragePool"):
        x = _through(p, p.x(FLOAT, (p.batch(), 2, 5, 5)))
    else:
        x = _through(p, p.x(FLOAT, (p.batch(), 4)))
    match operator:
        case "MatMul":
            y = p.op("MatMul", x, _weights(p, 4, 3, axis=1))
        case "Gemm":
            flip = int(p.chance())
            shape = (3, 4) if flip else (4, 3)
            w = _weights(p, *shape, axis=1 - flip)
            y = p.op("Gemm", x, w, *_bias(p, 3), transB=flip)
        case "Conv":
            y = p.op("Conv", x, _weights(p, 3, 2, 3, 3, axis=0), *_bias(p, 3))
        case "Add" | "Mul":
            other = _through(p, p.x(FLOAT, x.shape)) if p.chance() else _weights(p, 4, axis=0)
            y = p.op(operator, x, other)
        case _:
            y = p.op(operator, x, kernel_shape=[2, 2])
    if p.chance(0.4):
        y = p.op("Relu", y)
    return _through(p, y) if p.chance(0.7) else y


def _bias(p: FormBuilder, size: int) -> Sequence[KnownValue]:
    if p.chance():
        return []
    stored = p.constant(p.rng.integers(-500, 500, size).astype(np.int32))
    scale = p.constant(p.rng.uniform(1e-3, 2e-3, size).astype(np.float32))
    return [p.op("DequantizeLinear", stored, scale, axis=p.other(0, None))]


def dynamic(p: FormBuilder) -> KnownValue:
    """A layer on integers, whose input is quantized by its own range."""
    deep = p.chance(0.4)
    x = p.x(FLOAT, (p.choose(1, 2), 2, 5, 5) if deep else (p.batch(), 4))
    q, scale, zero = p.nodes("DynamicQuantizeLinear", x, outputs=3)
    shape = (3, 2, 3, 3) if deep else (4, 3)
    kind = kind_of(p.choose(*_BYTES))
    w = p.constant((p.rng.integers(-40, 40, shape) + 40 * (kind.kind == "u")).astype(kind))
    w_zero = p.constant(np.asarray(40 * (kind.kind == "u"), kind))
    whole = p.op("ConvInteger" if deep else "MatMulInteger", q, w, zero, w_zero)
    factor = p.op("Mul", scale, p.constant(np.asarray(0.02, np.float32)))
    y = p.op("Mul", p.cast(whole, x.dtype), factor)
    return p.op("Add", y, p.weights(*((3, 1, 1) if deep else (3,)))) if p.chance() else y


def integer(p: FormBuilder) -> KnownValue:
    """A QLinearMatMul or QLinearConv between a QuantizeLinear and its inverse."""
    deep = p.chance()
    x = p.x(FLOAT, (p.choose(1, 2), 2, 5, 5) if deep else (p.choose(2, 3), 4))
    outer, inner = _pairs_of_types(p)
    a, b, c = (_zeroed(p, dtype) for dtype in (outer, inner, outer))
    q = _quantize(p, x, a)
    low, high = _LIMITS[inner]
    shape = (3, 2, 3, 3) if deep else (4, 3)
    w = p.constant(p.rng.integers(low, high + 1, shape).astype(kind_of(inner)))
    operands = [q, a.scale, a.zero, w, b.scale, b.zero, c.scale, c.zero]
    if deep:
        bias = [p.constant(p.rng.integers(-500, 500, 3).astype(np.int32))]
        y = p.op("QLinearConv", *operands, *(bias if p.chance() else []))
    else:
        y = p.op("QLinearMatMul", *operands)
    return _dequantize(p, y, c)


def _pairs_of_types(p: FormBuilder) -> tuple[int, int]:
    signed, unsigned = _BYTES
    return p.choose((signed, signed), (unsigned, signed), (unsigned, unsigned))


def _zeroed(p: FormBuilder, dtype: int) -> _Grid:
    grid = _grid(p, dtype)
    if grid.zero is not None:
        return grid
    return _Grid(grid.scale, p.constant(np.zeros((), kind_of(dtype))), None, dtype)


def quantized_stored(p: FormBuilder) -> KnownValue:
    """Weights that are stored in eight or four bits, and read in floats."""
    x = p.x(FLOAT, (p.batch(), 4))
    four = p.scope.opset >= _WITH_INT4 and p.chance(0.6)
    w = _weights(p, 4, 3, axis=1, dtype=p.choose(*(_FOUR_BITS if four else _BYTES)))
    if p.chance(0.2):
        w = p.op("Transpose", p.op("Transpose", w, perm=[1, 0]), perm=[1, 0])
    y = p.op("MatMul", x, w)
    return p.op("Add", y, p.weights(3)) if p.chance() else y


QUANTIZED_STEPS = (
    *(make_step(form, sealed=False) for form in (pair, pair, quantized_moved)),
    *(
        make_step(form, sealed=True)
        for form in (
            *(quantized_moved, quantized_layer, quantized_layer, quantized_layer),
            *(quantized_layer, dynamic, dynamic, integer, quantized_stored),
        )
    ),
)
