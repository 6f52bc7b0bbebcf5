"""Inputs that rewrites forget: special values, and empty and single dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, float_limits
from onnx_passes.errors import ModelError, ReferenceDataError
from onnx_passes.ops.input_hints import ValueHint
from onnx_passes.risky_runs import INPUTS, label
from onnx_passes.runtime.engine_base import Data, Feeds, MadeUpFeeds
from onnx_passes.runtime.inputs.concrete_shapes import Shaping
from onnx_passes.runtime.inputs.dims import Dims, Symbols, symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import Made, Ranges, make_samples
from onnx_passes.runtime.inputs.steering import steering_inputs

MOST = 48
"""Greatest number of samples with special values; more inputs then share them."""

_MOST_DIMS = 8
_MOST_DEFAULTS = 1 << 16
_SIZES = (1, 0)


class AdversarialFeeds(MadeUpFeeds):
    """Feeds that know what is special about them.

    Attributes:
        kind: "NaN", "extremes", "size 0", ...
        name: The kind and where it is: "adversarial: NaN in x".
        asked: Whether the user asked for them, and gets a message if the model does not take
            them.
    """

    def __init__(self, feeds: Feeds, kind: str, where: str, *, asked: bool = True) -> None:
        """Copy feeds, whose arrays are shared."""
        super().__init__(feeds, label(INPUTS, kind))
        self.kind, self.name = kind, f"adversarial: {kind} {where}"
        self.asked = asked


def name_of(feeds: Feeds) -> str | None:
    """Return the name of a sample that has one."""
    return feeds.name if isinstance(feeds, AdversarialFeeds) else None


def adversarial(
    model: ir.Model,
    given: Sequence[Feeds] = (),
    *,
    seed: int = 0,
    ranges: Ranges | None = None,
    dims: Dims | None = None,
) -> list[AdversarialFeeds]:
    """Make up inputs that are hard to be right on.

    Each takes an ordinary sample and puts special values into one input, or into all: zeros,
    the extremes of the element type, NaN, infinities, -0 and denormals. Indices get the ends
    of their range. What decides a shape, a position by arithmetic, a loop or a division of
    integers stays ordinary. Floats also get a mean far from their spread, and inputs with a
    default another value than that. Others have a dynamic dimension of size 1 or 0. Whether
    the model takes them is for an engine to say.

    Args:
        model: The model; left as it is.
        given: The user's samples; the first is the ordinary one, which is generated otherwise.
        seed: As for ``generate``.
        ranges: As for ``generate``; no value outside is made up.
        dims: As for ``generate``; no other size of these dimensions is made up.

    Returns:
        The feeds, those with special values first.

    Raises:
        ReferenceDataError: As ``generate``.
    """
    ranges, dims = ranges or {}, dims or {}
    base = base_sample(model, given, seed, ranges, dims)
    steering = steering_inputs(base.model)
    by_kind: dict[str, dict[str, Data]] = {}
    for name, data in base.feeds.items():
        hint = base.hints.get(name, ValueHint())
        span = ranges.get(name)
        for kind, changed in _variants(data, hint, span, steers=name in steering):
            by_kind.setdefault(kind, {})[name] = changed
    special = list(_special(base.feeds, by_kind))
    overridden = {
        name: array
        for name, array in other_defaults(model)
        if name not in steering and name not in base.feeds
    }
    if overridden:
        feeds = {**base.feeds, **overridden}
        special.append(
            AdversarialFeeds(feeds, "other defaults", f"in {', '.join(overridden)}")
        )
    return special + list(_sized(model, given, seed, ranges, dims))


def base_sample(
    model: ir.Model, given: Sequence[Feeds], seed: int, ranges: Ranges, dims: Dims
) -> Made:
    """Return the ordinary sample that others are made from: the first that is given.

    Args:
        model: The model.
        given: Samples of the user, arrays by name; empty for none.
        seed: Seed of a generated one.
        ranges: Ranges of values by input.
        dims: Sizes of dynamic dimensions.
    """
    if not given:
        return make_samples(model, seed=seed, samples=1, ranges=ranges, dims=dims)[0]
    inputs = {str(v.name) for v in model.graph.inputs if not v.is_initializer()}
    names = set(symbols_of([v for v in model.graph.inputs if v.name in inputs], model).kinds)
    shapes = {
        name: data.shape
        for name, data in given[0].items()
        if isinstance(data, np.ndarray) and name in inputs - names
    }
    made = make_samples(model, seed=seed, samples=1, dims=shapes)[0]
    return Made(given[0], made.concrete, made.hints)


def _variants(
    data: Data, hint: ValueHint, span: Span | None, *, steers: bool
) -> Iterator[tuple[str, Data]]:
    if isinstance(data, list):
        if data and all(isinstance(item, np.ndarray) for item in data):
            each = [dict(_variants(item, hint, span, steers=steers)) for item in data]
            for kind in dict.fromkeys(kind for found in each for kind in found):
                yield kind, [f.get(kind, d) for f, d in zip(each, data, strict=True)]
    elif data is not None:
        yield from variants(data, hint, span, steers=steers)


def _special(
    ordinary: Feeds, by_kind: Mapping[str, Mapping[str, Data]]
) -> Iterator[AdversarialFeeds]:
    # Together for each kind, as for Inf - Inf; then one by one, while that is not too many.
    single = [(kind, n) for kind, changed in by_kind.items() for n in changed]
    for kind, changed in by_kind.items():
        if len(changed) > 1:
            yield AdversarialFeeds({**ordinary, **changed}, kind, "in every input")
    room = MOST - sum(len(changed) > 1 for changed in by_kind.values())
    for kind, name in single[:room]:
        feeds = {**ordinary, name: by_kind[kind][name]}
        yield AdversarialFeeds(feeds, kind, f"in {name}")


def other_defaults(model: ir.Model) -> Iterator[tuple[str, Array]]:
    """Yield other values for inputs that an initializer gives a default."""
    for value in model.graph.inputs:
        tensor = value.const_value if value.is_initializer() else None
        if tensor is None or tensor.size > _MOST_DEFAULTS:
            continue
        if tensor.dtype.is_floating_point():
            array = tensor.numpy()
            moved = (array + array.dtype.type(1)).astype(array.dtype)
            yield str(value.name), np.asarray(moved)
        elif tensor.dtype == ir.DataType.BOOL:
            yield str(value.name), np.asarray(np.logical_not(tensor.numpy()))


def _sized(
    model: ir.Model, given: Sequence[Feeds], seed: int, ranges: Ranges, dims: Dims
) -> Iterator[AdversarialFeeds]:
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    symbols = symbols_of(inputs, model)
    settled = {n for shape in map(symbols.shapes.get, dims) for n in shape or ()}
    free = [name for name in symbols.kinds if name not in {*dims, *settled}]
    for name in free[:_MOST_DIMS]:
        for size in _SIZES:
            if given:
                feeds = _cut(given[0], symbols, name, size)
            else:
                made = make_sized(model, seed, ranges, {**dims, name: size})
                feeds = None if made is None else made.feeds
            if feeds is not None:
                yield AdversarialFeeds(feeds, f"size {size}", f"of {name}")


def make_sized(
    model: ir.Model, seed: int, ranges: Ranges, dims: Dims, shaping: Shaping | None = None
) -> Made | None:
    """Make a sample with some sizes; None where they do not fit.

    Args:
        model: The model.
        seed: Seed of the values.
        ranges: Ranges of values by input.
        dims: Sizes of dynamic dimensions.
        shaping: What made other samples of the same model; None for a new one.
    """
    try:
        return make_samples(
            model, seed=seed, samples=1, ranges=ranges, dims=dims, shaping=shaping
        )[0]
    except (ModelError, ReferenceDataError):
        return None  # the ordinary sample was made: it is the size that does not fit


def _cut(feeds: Feeds, symbols: Symbols, name: str, size: int) -> Feeds | None:
    """Take the first entries along a dimension; None where it is part of an expression."""
    found = dict(feeds)
    for key, data in feeds.items():
        shape = symbols.shapes.get(key, ())
        if any(isinstance(dim, str) and dim != name and name in dim for dim in shape):
            return None
        if name not in shape:
            continue
        if not isinstance(data, np.ndarray):
            return None
        place = tuple(slice(size) if dim == name else slice(None) for dim in shape)
        found[key] = data[place]
    return found


Span = tuple[float, float]

_ONE_IN = 16
_OFFSET = 0.4
_FLOATS = {
    "zeros": 0.0,
    "NaN": float("nan"),
    "Inf": float("inf"),
    "-Inf": float("-inf"),
    "-0": -0.0,
}


def variants(
    array: Array, hint: ValueHint, span: Span | None, *, steers: bool
) -> Iterator[tuple[str, Array]]:
    """Yield arrays of the same type and shape with special values, and what to call them.

    Args:
        array: An ordinary value of the input, of any shape and type.
        hint: What the graph says about its values.
        span: The range that the user gave; nothing outside of it is yielded.
        steers: Whether values beyond what the hint allows are not safe.
    """
    if not array.size or hint.exact is not None or hint.distinct is not None:
        return
    if array.dtype.kind in "OSUT":
        if not hint.words:
            yield "empty strings", np.full_like(array, "")
        return
    dtype = ir.DataType.from_numpy(array.dtype)
    if dtype == ir.DataType.BOOL:
        if span is None and not steers:
            yield "true", np.ones_like(array)
            yield "false", np.zeros_like(array)
    elif dtype.is_integer():
        yield from _integers(array, dtype, hint, span, steers=steers)
    elif not steers:
        yield from _floats(array, dtype, span)


def _integers(
    array: Array, dtype: ir.DataType, hint: ValueHint, span: Span | None, *, steers: bool
) -> Iterator[tuple[str, Array]]:
    low, high = int(dtype.min), int(dtype.max)
    if span is not None:
        low, high = int(np.ceil(span[0])), int(np.floor(span[1]))
    elif hint.bounded:
        ordinary = array.astype(np.int64)
        low = int(ordinary.min()) if hint.low is None else int(np.ceil(np.max(hint.low)))
        high = int(ordinary.max()) if hint.high is None else int(np.floor(np.min(hint.high)))
    elif steers:
        return
    if low > high:
        return
    if low <= 0 <= high and not hint.nonzero:
        yield "zeros", np.zeros_like(array)
    if not (hint.nonzero and 0 in (low, high)):
        yield (
            "extremes",
            _alternating(array, dtype.numpy().type(low), dtype.numpy().type(high)),
        )


def _floats(
    array: Array, dtype: ir.DataType, span: Span | None
) -> Iterator[tuple[str, Array]]:
    low, high = span or (-np.inf, np.inf)
    real = array.real if array.dtype.kind == "c" else array
    info = float_limits(real.dtype)
    for kind, value in _FLOATS.items():
        special = np.asarray(value).astype(real.dtype)
        if not _is(special, kind) or (span is not None and not low <= value <= high):
            continue
        whole = kind in ("zeros", "-0")
        yield kind, np.full_like(array, special) if whole else _scattered(array, special)
    least = max(float(info.min), low)
    most = min(float(info.max), high)
    yield "extremes", _alternating(array, real.dtype.type(least), real.dtype.type(most))
    tiny = real.dtype.type(info.smallest_subnormal)
    if low <= tiny <= high:
        other = -tiny if low <= -tiny else tiny
        yield "denormals", _alternating(array, tiny, other)
    # A mean far greater than the spread, and small enough that no honest sum loses the spread.
    offset = (array + real.dtype.type(2.0 ** round(_OFFSET * info.nmant))).astype(array.dtype)
    wide = offset.real.astype(np.float64)
    if low <= wide.min() and wide.max() <= high:
        yield "big mean", offset


def _is(special: Array, kind: str) -> bool:
    """Whether the type has the value at all."""
    wide = special.astype(np.float64)
    match kind:
        case "NaN":
            return bool(np.isnan(wide))
        case "Inf" | "-Inf":
            return bool(np.isinf(wide))
    return bool(wide == 0 and np.signbit(wide) == (kind == "-0"))


def _alternating(array: Array, one: object, other: object) -> Array:
    found = np.full_like(array, one)
    found.reshape(-1)[1::2] = other
    return found


def _scattered(array: Array, special: object) -> Array:
    # One infinity reaches everything that a sum over it goes into: the rest shall still show.
    found = np.array(array)
    found.reshape(-1)[::_ONE_IN] = special
    return found
