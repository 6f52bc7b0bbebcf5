"""Feeds from a seed: random values of every element type, for one run or a run in steps.

In a run in steps, each step reads the states of the last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, ModelError, ReferenceDataError, did_you_mean
from onnx_passes.ops.input_hints import Bound, StaticShape, ValueHint, exactly, static_shape
from onnx_passes.risky_runs import GENERATED, allow, avoided, label
from onnx_passes.runtime.engine_base import Data, Feeds, GeneratedFeeds, Outputs, Session
from onnx_passes.runtime.inputs.concrete_shapes import (
    Concrete,
    ShapeSpecializer,
    Tracer,
    skeleton,
)
from onnx_passes.runtime.inputs.dimensions import (
    Dims,
    SizePlan,
    Symbols,
    check_dims,
    check_memory,
    fits_memory,
    plans,
    symbols_of,
    symbols_of_model,
    too_large,
)

WORDS = ("alpha", "Beta", "gamma delta", "", "1.5", "Ωmega", "zeta")
"""Strings that differ in case, blanks, digits and alphabets."""

_MODERATE = {True: (-10, 10), False: (0, 20)}
_INTEGER_SPREAD = 20
_FLOAT_SPREAD = 2.0
_PIECE = 1 << 20


def draw(
    dtype: ir.DataType,
    shape: tuple[int, ...],
    hint: ValueHint,
    rng: np.random.Generator,
    turn: int = 0,
) -> Array:
    """Draw a tensor.

    Floats are standard normal or uniform between bounds; integers uniform between bounds, of
    moderate size without. A hint for one exact value overrides ``shape``. Single booleans are
    true in even turns, so that samples take both branches.
    """
    if hint.exact is not None:
        return _exact(hint.exact, dtype, shape)
    if dtype == ir.DataType.STRING:
        words = np.asarray(hint.words or WORDS, object)
        return np.asarray(words[rng.integers(0, len(words), shape)], object).reshape(shape)
    if dtype == ir.DataType.BOOL and math.prod(shape) == 1:
        return np.full(shape, turn % 2 == 0)

    def make(part: tuple[int, ...]) -> Array:
        if dtype == ir.DataType.BOOL:
            return rng.integers(0, 2, part)
        if dtype.is_integer():
            return _integers(dtype, part, hint, rng)
        if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
            pair = rng.standard_normal((2, *part))
            return np.asarray(pair[0] + 1j * pair[1])
        return _floats(part, hint, rng)

    laid_out = isinstance(hint.low, np.ndarray) or isinstance(hint.high, np.ndarray)
    if laid_out or hint.distinct is not None:
        return make(shape).astype(dtype.numpy())
    return _narrow(make, shape, dtype)


def uniform(
    dtype: ir.DataType,
    shape: tuple[int, ...],
    low: float,
    high: float,
    rng: np.random.Generator,
) -> Array:
    """Draw a numeric tensor uniform in a range that the user gave; integers inclusive."""

    def make(part: tuple[int, ...]) -> Array:
        if dtype.is_integer() or dtype == ir.DataType.BOOL:
            return rng.integers(int(low), int(high), part, endpoint=True)
        return np.asarray(rng.uniform(low, high, part))

    return _narrow(make, shape, dtype)


def _narrow(
    make: Callable[[tuple[int, ...]], Array], shape: tuple[int, ...], dtype: ir.DataType
) -> Array:
    """Convert what is drawn; of a large tensor in pieces, so that it is never held wide."""
    size = math.prod(shape)
    if size <= _PIECE:
        return np.asarray(make(shape)).astype(dtype.numpy())
    found = np.empty(size, dtype.numpy())
    for start in range(0, size, _PIECE):
        part = found[start : start + _PIECE]
        part[:] = make(part.shape)
    return found.reshape(shape)


def _exact(exact: Array, dtype: ir.DataType, shape: tuple[int, ...]) -> Array:
    values = exact.astype(dtype.numpy())
    if values.size == int(np.prod(shape)):
        return values.reshape(shape)
    return np.full(shape, values) if values.size == 1 else values


def _integers(
    dtype: ir.DataType, shape: tuple[int, ...], hint: ValueHint, rng: np.random.Generator
) -> Array:
    least, most = (int(bound) for bound in (dtype.min, dtype.max))
    if dtype.bitwidth > 8:
        least, most = _MODERATE[least < 0]
    low, high = _bounds(hint, shape, least, most, _INTEGER_SPREAD)
    low, high = np.ceil(low).astype(np.int64), np.floor(high).astype(np.int64)
    high = np.maximum(low, high)
    if (
        hint.distinct is not None
        and (drawn := _distinct(low, high, shape, hint.distinct, rng)) is not None
    ):
        return drawn
    values = np.asarray(rng.integers(low, high, shape, endpoint=True))
    if hint.nonzero:
        values = np.where(values == 0, np.maximum(high, 1), values)
    return values


def _distinct(
    low: Array, high: Array, shape: tuple[int, ...], axis: int, rng: np.random.Generator
) -> Array | None:
    first, count = int(low.max()), int(high.min()) - int(low.max()) + 1
    if not shape or not -len(shape) <= axis < len(shape) or shape[axis] > count:
        return None
    full = list(shape)
    full[axis] = count
    orders = rng.permuted(np.broadcast_to(_along(count, axis, len(shape)), full), axis=axis)
    return first + np.take(orders, range(shape[axis]), axis)


def _along(count: int, axis: int, rank: int) -> Array:
    shape = [1] * rank
    shape[axis] = count
    return np.arange(count).reshape(shape)


def _floats(shape: tuple[int, ...], hint: ValueHint, rng: np.random.Generator) -> Array:
    if hint.bounded:
        low, high = _bounds(hint, shape, -np.inf, np.inf, _FLOAT_SPREAD)
        values = np.asarray(rng.uniform(low, high, shape))
    else:
        values = np.asarray(rng.standard_normal(shape))
    if hint.nonzero:
        values = np.where(np.abs(values) < 0.1, values + np.copysign(0.5, values), values)
    return values


def _bounds(
    hint: ValueHint, shape: tuple[int, ...], least: float, most: float, spread: float
) -> tuple[Array, Array]:
    low, high = _fitting(hint.low, shape, np.maximum), _fitting(hint.high, shape, np.minimum)
    if low is None and high is None:
        return np.asarray(least), np.asarray(most)
    if low is None:
        assert high is not None
        low = np.maximum(high - spread, least) if least <= high.min() else high
    elif high is None:
        high = np.minimum(low + spread, most) if most >= low.max() else low
    return low, high


def _fitting(bound: Bound, shape: tuple[int, ...], strictest: np.ufunc) -> Array | None:
    if bound is None:
        return None
    array = np.asarray(bound, np.float64)
    try:
        np.broadcast_to(array, shape)
    except ValueError:  # the bound is for a layout that the value lost on the way
        return np.asarray(strictest.reduce(array, axis=None))
    return array


Ranges = Mapping[str, tuple[float, float]]

SAMPLES = 3
LARGE = 1 << 17
"""Elements of a sample that make two enough; two pictures of 224 by 224 have more."""
HUGE = 1 << 26
"""Elements of all values of one run that make one sample enough.

That many values are checked by it. More than that are not kept between checks, so that each
would cost another run.
"""
EXPENSIVE = 1 << 30
"""Scalar operations of one run that make one sample of such sizes enough."""


def generate(
    model: ir.Model,
    *,
    seed: int = 0,
    samples: int | None = None,
    ranges: Ranges | None = None,
    dims: Dims | None = None,
) -> list[Feeds]:
    """Make up inputs that the model can take.

    Values follow from what the graph does with them: indices lie within what they index,
    shapes and axes fit their operator, logarithms get positive numbers. Other floats are
    standard normal, other integers small. Dynamic dimensions differ from sample to sample and
    from each other, where shape inference finds no contradiction. Optionals are filled and
    empty in turn. Inputs with an initializer are left to it. There are 3 samples by default,
    of large inputs 2, and 1 where a run computes more values than are worth keeping; beyond
    the first, none whose run is dear. ``dims`` has sizes by name of a dynamic dimension
    (``x[0]`` names an unnamed one), one or one a sample, or whole shapes by name of an input.
    Raises ReferenceDataError for an input without a type or an argument that does not fit, and
    ModelError for what does not fit into memory.
    """
    return [
        made.feeds
        for made in make_samples(model, seed=seed, samples=samples, ranges=ranges, dims=dims)
    ]


@dataclass(frozen=True)
class GeneratedSample:
    """One sample, and what it was made from."""

    feeds: Feeds
    concrete: Concrete
    hints: Mapping[str, ValueHint]

    @property
    def model(self) -> ir.Model:
        """The model in the shapes of the sample, until that of another one is asked for."""
        return self.concrete.model


def without_crashes(made: Sequence[GeneratedSample]) -> list[Feeds]:
    """Return the feeds of samples, without those on which an engine has ended the process.

    If none is left, all are returned, for others to be tried in their place; where that was in
    vain it is the engine that cannot run the model. A command generates the same samples when
    it is repeated.
    """
    samples = [
        GeneratedFeeds(one.feeds, label(GENERATED, f"sample {place}"))
        for place, one in enumerate(made)
    ]
    found = [feeds for feeds in samples if feeds.may_run]
    if not found and avoided(GENERATED):
        allow(GENERATED)
    return list(found or samples)


def make_samples(
    model: ir.Model,
    *,
    seed: int,
    samples: int | None,
    ranges: Ranges | None = None,
    dims: Dims | None = None,
    shaping: ShapeSpecializer | None = None,
) -> list[GeneratedSample]:
    """Make up inputs as ``generate`` does, with the model and hints that they came from.

    ``shaping`` made other samples of the same model; None for a new one.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    dims, ranges = dims or {}, ranges or {}
    _check_ranges(ranges, inputs)
    symbols = symbols_of(inputs, model)
    whole = symbols.whole(dims)
    check_dims(dims, symbols, whole)
    for value in inputs:
        _check_shape(value, whole.get(str(value.name)))
    shaping = shaping or ShapeSpecializer(skeleton(model))
    shaper = _Shaper(shaping, inputs, symbols, dims, whole)
    made: list[GeneratedSample] = []
    turns = any(not isinstance(size, int) for name, size in dims.items() if name not in whole)
    while len(made) < (_count(dims, made) if samples is None else samples):
        sized = shaper.concrete(len(made))
        if made and samples is None and not turns and sized[0].operations >= EXPENSIVE:
            break
        made.append(_sample(sized, inputs, ranges, seed, len(made)))
    return made


@dataclass(frozen=True)
class Request:
    """What samples are asked of a model; fields are those of ``make_samples``."""

    model: ir.Model
    seed: int = 0
    ranges: Ranges = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)
    shaping: ShapeSpecializer | None = None

    def make(self, samples: int | None = 1) -> list[GeneratedSample]:
        """Make samples."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return make_samples(samples=samples, **own)

    def sized(self, dims: Dims) -> GeneratedSample | None:
        """Make a sample with some sizes besides; None where they do not fit."""
        sizes = {**self.dims, **dims}
        try:
            (made,) = replace(self, dims=sizes).make()
        except (ModelError, ReferenceDataError):
            return None  # the ordinary sample was made: it is the size that does not fit
        fault = made.concrete.fault
        # Where nothing meets something, ONNX Runtime may give what is left in memory.
        return None if fault and not fault.doubtful and 0 in sizes.values() else made


def elements_of(feeds: Feeds) -> int:
    """Return how many elements the tensors of a sample have."""
    return sum(data.size for data in feeds.values() if isinstance(data, np.ndarray))


def _count(dims: Dims, made: Sequence[GeneratedSample]) -> int:
    """Return how many samples are enough; sizes that the user gave take turns in all."""
    if dims or not made or elements_of(made[0].feeds) < LARGE:
        return SAMPLES
    shapes = [static_shape(value) for node in made[0].model.graph for value in node.outputs]
    computed = sum(math.prod(shape) for shape in shapes if shape is not None)
    return SAMPLES - 2 if computed >= HUGE else SAMPLES - 1


def _check_ranges(ranges: Ranges, inputs: Sequence[ir.Value]) -> None:
    by_name = {str(value.name): value for value in inputs}
    for name, (low, high) in ranges.items():
        value = by_name.get(name)
        if value is None:
            raise ReferenceDataError(
                f"there is no input {name!r} to give a range", help=did_you_mean(name, by_name)
            )
        if value.dtype == ir.DataType.STRING:
            raise ReferenceDataError(f"the input {name!r} holds strings, which have no range")
        if not low <= high:
            raise ReferenceDataError(f"the range of {name!r} is empty: {low} to {high}")
        dtype = value.dtype
        if dtype is not None and dtype.is_integer() and (low < dtype.min or high > dtype.max):
            raise ReferenceDataError(
                f"the range of {name!r}, {low} to {high}, is not within {dtype.name.lower()}",
                help=f"it goes from {dtype.min} to {dtype.max}",
            )


def _check_shape(value: ir.Value, given: StaticShape | None) -> None:
    if value.type is None:
        raise ReferenceDataError(f"the input {value.name!r} has no type")
    if isinstance(value.type, ir.SparseTensorType):
        raise ReferenceDataError(
            f"the input {value.name!r} is a sparse tensor: no values can be made for it",
            help="a run with --no-verify needs none, and its report says so",
        )
    if given is None or value.shape is None:
        return
    fits = len(given) == len(value.shape) and all(
        not isinstance(dim, int) or dim == size
        for dim, size in zip(value.shape, given, strict=True)
    )
    if not fits:
        raise ReferenceDataError(
            f"the shape {list(given)} does not fit input {value.name!r}, {value.shape}"
        )


def _sample(
    sized: tuple[Concrete, Mapping[str, StaticShape]],
    inputs: Sequence[ir.Value],
    ranges: Ranges,
    seed: int,
    sample: int,
) -> GeneratedSample:
    concrete, shapes = sized
    model = concrete.model
    check_memory(model)
    by_name = {value.name: value for value in model.graph.inputs}
    shaping = concrete.shaping
    tracer = shaping.tracer if shaping.shared else Tracer(model)
    feeds: dict[str, Data] = {}
    hints: dict[str, ValueHint] = {}
    for index, value in enumerate(inputs):
        name = str(value.name)
        rng = np.random.default_rng([seed, sample, index])
        hint = tracer.hint(by_name[name], rng)
        if hint.empty:
            hint = hint_of_name(name, value.dtype, shapes[name], rng)
        drawer = _Drawer(shapes[name], hint, ranges.get(name), rng, sample, index)
        feeds[name], hints[name] = drawer.data(value.type), hint
    return GeneratedSample(feeds, concrete, hints)


class _Shaper:
    """Makes models of fixed shapes that shape inference finds nothing wrong with."""

    def __init__(
        self,
        shaping: ShapeSpecializer,
        inputs: Sequence[ir.Value],
        symbols: Symbols,
        dims: Dims,
        whole: Mapping[str, StaticShape],
    ) -> None:
        self._shaping, self._inputs, self._symbols = shaping, inputs, symbols
        self._dims, self._whole = dims, whole
        self._plans = list(plans(symbols))
        self._last: tuple[dict[str, int], Concrete] | None = None

    def concrete(self, sample: int) -> tuple[Concrete, dict[str, StaticShape]]:
        """Return the model of one sample, and the shapes of its inputs by name."""
        first: tuple[Concrete, dict[str, StaticShape], SizePlan] | None = None
        least: dict[str, StaticShape] = {}
        tried: list[dict[str, int]] = []
        for most, plan in itertools.product((HUGE, math.inf), self._plans):
            if most > HUGE and first is not None:
                break
            sizes = plan.sizes(self._symbols, self._dims, sample)
            if sizes in tried:
                continue
            shapes = {n: self._symbols.resolve(n, sizes) for n in self._symbols.shapes}
            shapes |= self._whole
            if not fits_memory(self._inputs, shapes):
                least = shapes  # the last plan is that of the smallest sizes
                continue
            if sum(map(math.prod, shapes.values())) > most:
                continue  # while others are left
            tried.append(sizes)
            if self._last is not None and self._last[0] == sizes:
                return self._last[1], shapes
            concrete = self._shaping.fix(shapes, sizes)
            if concrete.fault is None:
                # What fits one sample mostly fits the next.
                self._plans.insert(0, plan)
                self._last = sizes, concrete
                return concrete, shapes
            first = first or (concrete, shapes, plan)
        if first is None:
            raise too_large(self._inputs, least)
        self._plans = [first[2]]  # nothing fits, nor will it for other sizes
        return first[:2]


class _Drawer:
    """Draws one input, through the optionals and sequences that its tensors are wrapped in."""

    def __init__(
        self,
        shape: StaticShape,
        hint: ValueHint,
        span: tuple[float, float] | None,
        rng: np.random.Generator,
        sample: int,
        index: int,
    ) -> None:
        self.shape, self.hint, self.span, self.rng = shape, hint, span, rng
        # Sequences of one sample are of one length, as operators that zip them demand.
        self.length, self.turn = 3 - sample % 2, sample + index

    def data(self, declared: ir.TypeProtocol | None) -> Data:
        if isinstance(declared, ir.OptionalType):
            empty = self.turn % 2 == 1 and not self.hint.filled
            return None if empty else self.data(declared.elem_type)
        if isinstance(declared, ir.SequenceType):
            return [self.data(declared.elem_type) for _ in range(self.length)]
        assert isinstance(declared, ir.TensorType)
        if self.span is not None:
            return uniform(declared.dtype, self.shape, *self.span, self.rng)
        return draw(declared.dtype, self.shape, self.hint, self.rng, self.turn)


def hint_of_name(
    name: str, dtype: ir.DataType | None, shape: StaticShape, rng: np.random.Generator
) -> ValueHint:
    """Return a padding mask for an input of integers called one, else the empty hint.

    A mask is ones, then zeros: the graph turns it into large negative numbers, and any other
    integers into infinities, beside which nothing shows. ``rng`` decides how much of each row
    the mask keeps.
    """
    is_mask = "mask" in name.lower() and dtype is not None and dtype.is_integer()
    if not is_mask or not shape or not shape[-1]:
        return ValueHint()
    rows, length = shape[:-1], shape[-1]
    kept = rng.integers((length + 1) // 2, length, rows, endpoint=True)
    return exactly(np.arange(length) < kept[..., None])


Feed = Mapping[str, str]
"""For inputs, the outputs of the step before that they read."""


def check_feed(model: ir.Model, feed: Feed) -> None:
    """Check that states can go from outputs to inputs.

    ``feed`` has the output for each input. Raises ReferenceDataError if a name is unknown, or
    types differ.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    outputs = {str(value.name): value for value in model.graph.outputs}
    for name, source in feed.items():
        for word, one, known in (("input", name, inputs), ("output", source, outputs)):
            if one not in known:
                raise ReferenceDataError(
                    f"reference.feed: there is no {word} {one!r}",
                    help=did_you_mean(one, known) + "; write feed: {INPUT: OUTPUT}",
                )
        to, out = inputs[name].dtype, outputs[source].dtype
        if None not in (to, out) and to != out:
            raise ReferenceDataError(
                f"reference.feed: {name!r} is {_word(to)}, and {source!r} is {_word(out)}"
            )


def run_steps(
    session: Session, steps: int, feed: Feed, inputs: Callable[[int, Feeds], Feeds]
) -> tuple[list[Feeds], list[Outputs]]:
    """Run a model step by step; return the feeds and the outputs of each step.

    ``inputs`` returns the inputs of a step from its number and its states; step 0 has no
    states. An EngineError has the number of its step.
    """
    fed: list[Feeds] = []
    found: list[Outputs] = []
    for step in range(steps):
        states = {name: found[-1][source] for name, source in feed.items()} if found else {}
        fed.append({**inputs(step, states), **states})
        try:
            found.append(session.run(fed[-1]))
        except EngineError as error:
            error.message = f"step {step} does not run: {error.message}"
            raise
    return fed, found


def generated_steps(
    model: ir.Model, first: Feeds, *, seed: int, ranges: Ranges | None = None
) -> Callable[[int, Feeds], Feeds]:
    """Return what makes up the inputs of each step, in sizes that fit its states.

    A dynamic dimension of a state has the size that the state has, wherever its name stands;
    other dimensions stay what they are at the first step. ``first`` are the inputs of the
    first step with its states, made from the same seed.
    """
    symbols = symbols_of_model(model)

    def sizes(feeds: Feeds) -> dict[str, int]:
        return {
            dim: size
            for name, value in feeds.items()
            if name in symbols.shapes and isinstance(value, np.ndarray)
            for dim, size in zip(symbols.shapes[name], value.shape, strict=False)
            if isinstance(dim, str) and dim in symbols.kinds
        }

    def make(step: int, states: Feeds) -> Feeds:
        if not step:
            return first
        dims = sizes(first) | sizes(states)
        (made,) = generate(model, seed=seed + step, samples=1, ranges=ranges, dims=dims)
        return made

    return make


def given_steps(samples: Sequence[Feeds]) -> Callable[[int, Feeds], Feeds]:
    """Return what takes the inputs of each step from given samples, which take turns."""
    return lambda step, states: samples[step % len(samples)]


def _word(dtype: ir.DataType | None) -> str:
    return "of no type" if dtype is None else dtype.name.lower()


def describe_feeds(feeds: Feeds) -> dict[str, str]:
    """Return element type, shape and range of every feed.

    By name, for example "float32[1,3,224,224] in [-3.1, 2.9]".
    """
    return {name: describe(data) for name, data in feeds.items()}


def describe(data: Data) -> str:
    """Return element type, shape and range of one value."""
    if data is None:
        return "empty optional"
    if isinstance(data, list):
        items = sorted({describe_type(item) for item in data})
        return f"sequence of {len(data)}" + (f": {', '.join(items)}" if items else "")
    text = describe_type(data)
    finite = _finite(data)
    if finite is None or not finite.size:
        return text
    return f"{text} in [{finite.min():.3g}, {finite.max():.3g}]"


def describe_type(data: Data) -> str:
    """Return element type and shape, without looking at the elements."""
    if not isinstance(data, np.ndarray):
        return describe(data)
    kind = "string" if data.dtype.kind in "OSUT" else str(data.dtype)
    return f"{kind}[{','.join(map(str, data.shape))}]"


def _finite(array: Array) -> Array | None:
    if array.dtype.kind in "OSUTc":
        return None
    dtype = ir.DataType.from_numpy(array.dtype)
    wide: Array = (
        array.astype(np.float64) if dtype.is_floating_point() else array.astype(object)
    )
    return wide[np.isfinite(wide)] if dtype.is_floating_point() else wide
