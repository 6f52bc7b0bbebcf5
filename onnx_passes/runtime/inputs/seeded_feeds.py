"""Feeds from a seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ReferenceDataError
from onnx_passes.ops.input_hints import StaticShape, ValueHint, exactly, static_shape
from onnx_passes.risky_runs import GENERATED, allow, label
from onnx_passes.runtime.engine_base import Data, Feeds, MadeUpFeeds
from onnx_passes.runtime.inputs.concrete_shapes import Concrete, Shaping, skeleton
from onnx_passes.runtime.inputs.dims import (
    Dims,
    SizePlan,
    Symbols,
    check_dims,
    plans,
    symbols_of,
)
from onnx_passes.runtime.inputs.memory import check_memory, fits_memory, too_large
from onnx_passes.runtime.inputs.random_values import draw, uniform
from onnx_passes.runtime.inputs.trace import Tracer
from onnx_passes.runtime.interface import did_you_mean

Ranges = Mapping[str, tuple[float, float]]

SAMPLES = 3
LARGE = 1 << 17
"""Elements of a sample that make two enough; two pictures of 224 by 224 have more."""
HUGE = 1 << 26
"""Elements of all values of one run that make one sample enough.

That many values are checked by it. More than that are not kept between checks, so that each
would cost another run.
"""
DEAR = 1 << 30
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
    standard normal, other integers small. Dynamic dimensions differ from sample to sample
    and from each other, where shape inference finds no contradiction. Optionals are filled
    and empty in turn. Inputs with an initializer are left to it.

    Args:
        model: The model; left as it is.
        seed: The same seed gives the same feeds.
        samples: How many feeds; by default 3, of large inputs 2, and 1 where a run computes
            more values than are worth keeping. Beyond the first, none whose run is dear.
        ranges: Least and greatest value, by name of an input.
        dims: Sizes by name of a dynamic dimension (``x[0]`` names an unnamed one), one or
            one a sample; or whole shapes by name of an input.

    Returns:
        The feeds of each sample.

    Raises:
        ReferenceDataError: An input has no type, or an argument does not fit.
        ModelError: The inputs, or a value that the model computes, do not fit into memory.
    """
    return [
        made.feeds
        for made in make_samples(model, seed=seed, samples=samples, ranges=ranges, dims=dims)
    ]


@dataclass(frozen=True)
class Made:
    """One sample, and what it was made from.

    Attributes:
        feeds: The values.
        concrete: The model in the shapes of the sample.
        hints: What the graph says about the values of each input.
    """

    feeds: Feeds
    concrete: Concrete
    hints: Mapping[str, ValueHint]

    @property
    def model(self) -> ir.Model:
        """The model in the shapes of the sample, until that of another one is asked for."""
        return self.concrete.model


def without_crashes(made: Sequence[Made]) -> list[Feeds]:
    """Return the feeds of samples, without those on which an engine has ended the process.

    If none is left, all are returned: it is the engine that cannot run the model.

    Args:
        made: Samples that are generated; a command makes the same when it is repeated.
    """
    samples = [
        MadeUpFeeds(one.feeds, label(GENERATED, f"sample {place}"))
        for place, one in enumerate(made)
    ]
    found = [feeds for feeds in samples if feeds.may_run]
    if not found:
        allow(GENERATED)
    return list(found or samples)


def make_samples(
    model: ir.Model,
    *,
    seed: int,
    samples: int | None,
    ranges: Ranges | None = None,
    dims: Dims | None = None,
    shaping: Shaping | None = None,
) -> list[Made]:
    """Make up inputs as ``generate`` does, and say why they are what they are.

    Args:
        model: The model.
        seed: Seed of the values.
        samples: How many; None for the default, which depends on sizes.
        ranges: Ranges of values by input.
        dims: Sizes of dynamic dimensions, or shapes of inputs.
        shaping: What made other samples of the same model; None for a new one.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    dims, ranges = dims or {}, ranges or {}
    _check_ranges(ranges, inputs)
    symbols = symbols_of(inputs, model)
    whole = {
        name: tuple(shape)
        for name, shape in dims.items()
        if name in symbols.shapes and name not in symbols.kinds and not isinstance(shape, int)
    }
    check_dims(dims, symbols, whole)
    for value in inputs:
        _check_shape(value, whole.get(str(value.name)))
    shaping = shaping or Shaping(skeleton(model))
    shaper = _Shaper(shaping, inputs, symbols, dims, whole)
    made: list[Made] = []
    turns = any(not isinstance(size, int) for name, size in dims.items() if name not in whole)
    while len(made) < (_count(dims, made) if samples is None else samples):
        sized = shaper.concrete(len(made))
        if made and samples is None and not turns and sized[0].operations >= DEAR:
            break
        made.append(_sample(sized, inputs, ranges, seed, len(made)))
    return made


def elements_of(feeds: Feeds) -> int:
    """Return how many elements the tensors of a sample have."""
    return sum(data.size for data in feeds.values() if isinstance(data, np.ndarray))


def _count(dims: Dims, made: Sequence[Made]) -> int:
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
) -> Made:
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
    return Made(feeds, concrete, hints)


class _Shaper:
    """Makes models of fixed shapes that shape inference finds nothing wrong with."""

    def __init__(
        self,
        shaping: Shaping,
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
    integers into infinities, beside which nothing shows.

    Args:
        name: Name of the input.
        dtype: Its element type; None if it is not known.
        shape: The shape of the sample.
        rng: Draws how much of each row the mask keeps.
    """
    is_mask = "mask" in name.lower() and dtype is not None and dtype.is_integer()
    if not is_mask or not shape or not shape[-1]:
        return ValueHint()
    rows, length = shape[:-1], shape[-1]
    kept = rng.integers((length + 1) // 2, length, rows, endpoint=True)
    return exactly(np.arange(length) < kept[..., None])
