"""Inputs at the boundaries of a model: special values, edges and empty dimensions.

Edges belong to the ordinary samples. Adversarial inputs are those that rewrites forget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, float_limits
from onnx_passes.contracts.scores import kind_of
from onnx_passes.model.walk import all_nodes, captured_values, subgraphs_of
from onnx_passes.ops.input_hints import ValueHint, constant_of, static_shape
from onnx_passes.ops.node_queries import (
    ADDING_UP,
    DROPPING_EQUALS,
    INDEXING,
    LEADING_NOWHERE,
    PICKING,
    RISKY_IF_EMPTY,
    SUMS_OF_NOTHING,
    TAKES_NO_ROWS,
    around,
    breakpoints_of,
    expects_nan,
    steers,
    ties_of,
)
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.risky_runs import INPUTS, label
from onnx_passes.runtime.engine_base import Data, Feeds, GeneratedFeeds
from onnx_passes.runtime.inputs.dimensions import (
    Dims,
    Symbols,
    size_of,
    symbols_of_model,
    totals,
)
from onnx_passes.runtime.inputs.seeded_feeds import (
    EXPENSIVE,
    GeneratedSample,
    Ranges,
    Request,
    elements_of,
)
from onnx_passes.runtime.inputs.size_limits import BEYOND, size_limits, trip_inputs


def steering_inputs(model: ir.Model) -> frozenset[str]:
    """Return the names of the inputs that extreme values are not safe for.

    A shape may come out at terabytes, a loop without an end, and a division of integers by
    zero ends the process on most processors. Arithmetic on the way is followed. The model
    needs the types of its values, as far as they can be inferred.
    """
    found: set[ir.Value] = set()
    nodes = list(model.graph.all_nodes())
    owners = {graph: node for node in nodes for graph in subgraphs_of(node)}
    stack = [(value, False) for node in nodes for value in _steered(node)]
    stack += [(value, True) for node in nodes for value in _repeated(node)]
    while stack:
        value, decisions = stack.pop()
        if value in found:
            continue
        producer = value.producer()
        described = None if producer is None else operator_of(producer)
        bounded = described is not None and value.index() in described.in_range
        bounded |= producer is not None and _wraps(producer)
        if bounded or (_decides(value) and not decisions):
            continue
        found.add(value)
        stack += [(read, decisions) for read in _read_for(value, owners)]
    return frozenset(str(v.name) for v in model.graph.inputs if v in found)


def _wraps(node: ir.Node) -> bool:
    """Whether a node makes small integers of all, by the remainder of a constant."""
    divisor = _fixed_divisor(node) if node.op_type == "Mod" else None
    return divisor is not None and bool(((divisor > 0) & (divisor <= _MOST_WRAPPED)).all())


def _decides(value: ir.Value) -> bool:
    """Whether a value is a truth value, computed element by element: it is always in range."""
    producer = value.producer()
    described = None if producer is None else operator_of(producer)
    return described is not None and described.elementwise and value.dtype is ir.DataType.BOOL


def _steered(node: ir.Node) -> Iterator[ir.Value]:
    described = operator_of(node)
    divides = described is not None and described.divides and not _divides_safely(node)
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        if steers(node, index) or (
            divides and (value.dtype is None or value.dtype.is_integer())
        ):
            yield value


def _divides_safely(node: ir.Node) -> bool:
    """Whether the divisor is known: neither zero nor -1, which the least integer overflows."""
    divisor = _fixed_divisor(node)
    return divisor is not None and not np.isin(divisor, (0, -1)).any()


def _fixed_divisor(node: ir.Node) -> Array | None:
    """Return the second of two operands, if it is a constant that no caller overrides."""
    divisor = node.inputs[1] if len(node.inputs) == 2 else None
    return None if divisor is None or divisor.is_graph_input() else constant_of(divisor)


def _repeated(node: ir.Node) -> Iterator[ir.Value]:
    """Yield what decides whether a loop continues."""
    body = node.attributes.get("body")
    if node.op_type == "Loop" and body is not None and not body.is_ref():
        yield from (value for value in node.inputs[:2] if value is not None)
        yield from body.as_graph().outputs[:1]


def _read_for(value: ir.Value, owners: Mapping[ir.Graph, ir.Node]) -> Iterator[ir.Value]:
    """Yield what a value is computed from, as far as one step goes."""
    node = value.producer()
    if node is None:  # an input, of a body if not of the model
        node = owners.get(value.graph) if isinstance(value.graph, ir.Graph) else None
    if node is not None:
        yield from (read for read in node.inputs if read is not None)
        yield from captured_values(node)
        for graph in subgraphs_of(node):
            yield from graph.outputs


EXTREMES = "extremes"
"""The kind of samples of the least and greatest numbers of a type or a range."""

MOST = 48
"""Greatest number of samples with special values; more inputs then share them."""

_MOST_WRAPPED = 1 << 16
"""The largest divisor whose remainders are safe as sizes and indices."""

_TRIPS, _MOST_TRIPS = 17, 1 << 12
"""Iterations of a loop in a sample: loops are unrolled by 4, 8 or 16; and at most."""
_MOST_DIMS = 8
_MOST_DEFAULTS = 1 << 16
_SIZES = (1, 0)


class AdversarialFeeds(GeneratedFeeds):
    """Feeds that know what is special about them.

    ``kind`` is "NaN", "extremes", "size 0" and such. ``name`` adds who made them, and where:
    "adversarial: NaN in x", or "edge: size 1 of n" among the ordinary ones. What differs on
    drawn values becomes "drawn in x". If the user ``asked`` for them, a model that refuses
    them gets a message.
    """

    def __init__(self, feeds: Feeds, kind: str, where: str, *, asked: bool = True) -> None:
        """Copy feeds, whose arrays are shared."""
        super().__init__(feeds, label(INPUTS, kind))
        self.kind = kind
        maker = "adversarial" if asked else "edge"
        self.name = f"drawn {where}" if kind == RANDOM_VALUES else f"{maker}: {kind} {where}"
        self.asked = asked


def held_on(feeds: Feeds) -> Literal["all", "finite", "none"]:
    """Return which floats a tolerance holds on a sample: not all, if it was asked for.

    Near the greatest number of a type rounding becomes infinity, and of the least ones nothing
    but ties is left. On other samples the original may overflow where a result does not.
    """
    if not isinstance(feeds, AdversarialFeeds) or not feeds.asked:
        return "all"
    if feeds.kind.startswith("size"):
        return "all"
    near = feeds.kind == EXTREMES and any(
        isinstance(data, np.ndarray)
        and kind_of(data.dtype) == "float"
        and bool((np.abs(data) >= float(float_limits(data.dtype).max) / 2).any())
        for data in feeds.values()
    )
    return "none" if near or feeds.kind == "denormals" else "finite"


def is_empty(feeds: Feeds) -> bool:
    """Whether a sample was made up with a size of 0."""
    return isinstance(feeds, AdversarialFeeds) and feeds.kind == "size 0"


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
    the model takes them is for an engine to say. The first sample in ``given`` is the ordinary
    one, else one is generated. No value outside ``ranges`` and no other size of ``dims`` is
    made up. Special values come first. Raises ReferenceDataError as ``generate``.
    """
    asked = Request(model, seed, ranges or {}, dims or {})
    base = base_sample(asked, given)
    if not given and not is_cheap(base):
        symbols = symbols_of_model(model)
        free = [n for n in symbols.open(asked.dims) if symbols.kinds[n] != "spatial"]
        least = asked.sized(dict.fromkeys(free, 1))
        base = base if least is None or not is_cheap(least) else least
    steering = steering_inputs(base.model)
    by_kind: dict[str, dict[str, Data]] = {}
    for name, data in base.feeds.items():
        hint = base.hints.get(name, ValueHint())
        span = asked.ranges.get(name)
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
    return special + list(_sized(asked, given))


def base_sample(asked: Request, given: Sequence[Feeds]) -> GeneratedSample:
    """Return the ordinary sample that others are made from: the first that is given."""
    if not given:
        return asked.make()[0]
    inputs = {str(v.name) for v in asked.model.graph.inputs if not v.is_initializer()}
    names = set(symbols_of_model(asked.model).kinds)
    shapes = {
        name: data.shape
        for name, data in given[0].items()
        if isinstance(data, np.ndarray) and name in inputs - names
    }
    made = Request(asked.model, asked.seed, dims=shapes).make()[0]
    return GeneratedSample(given[0], made.concrete, made.hints)


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


def _sized(asked: Request, given: Sequence[Feeds]) -> Iterator[AdversarialFeeds]:
    symbols = symbols_of_model(asked.model)
    free = symbols.open(asked.dims)
    for name in free[:_MOST_DIMS]:
        for size in _SIZES:
            if given:
                feeds = _cut(given[0], symbols, name, size)
            else:
                made = asked.sized({name: size})
                feeds = None if made is None else made.feeds
            if feeds is not None:
                yield AdversarialFeeds(feeds, f"size {size}", f"of {name}")


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

    Nothing outside ``span`` is yielded, which the user gave. ``steers`` forbids values beyond
    what the hint allows.
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
            EXTREMES,
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
    yield EXTREMES, _alternating(array, real.dtype.type(least), real.dtype.type(most))
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


LARGE_FLOATS = "large floats"
"""The kind of samples on which results may have lost all digits, as an engine's noise."""

RANDOM_VALUES = "drawn values"
"""The kind of samples that are added for what a change reads."""

_DIGITS = 7
"""How many last digits large integers have: an odd number, so that no pair cancels."""

_NEAR = 2.0**-20
"""What floats of one row are multiplied by."""

_FAR = 100.0
"""What ordinary floats are multiplied by: exp(89) is infinite in float32, exp(709) is
finite in float64."""


def edge_samples(
    model: ir.Model,
    *,
    seed: int = 0,
    ranges: Ranges | None = None,
    dims: Dims | None = None,
    base: GeneratedSample | None = None,
) -> list[AdversarialFeeds]:
    """Make up small inputs at the edges of what a model takes.

    They belong to the ordinary samples where inputs are generated: many rewrites are wrong
    only there, and these cost next to nothing.

    - Dynamic dimensions have size 1, or 0.
    - Floats are multiples of 1/2, with ties, zeros and equal values.
    - Numbers lie on both sides of the breakpoints of what reads them.
    - Floats are large, which exponentials overflow for.
    - Floats that are quantised by a power of two lie half way between two levels.
    - Booleans are negated, and all false. Inputs with a default have another value.
    - Integers are large, of either sign. Indices count from the end, or lead nowhere.
    - Single integers are 0 and 1, and numbers of iterations 17, or beyond what these meet.
    - Rows are those of constants that are subtracted from them.
    - Words are none of those that the model lists, or these with capitals.
    - Numbers are NaN where the model has a place for missing ones.
    - Pictures have odd sizes, and the least that the model takes.

    Values have the sizes of the ordinary sample, or where a run on it is dear, those of the
    first sample of size 1. Infinities, NaN and extremes are for :func:`adversarial`. Inputs
    with a range have no other values, and sizes in ``dims`` stay. ``base`` is the first of the
    ordinary samples, if it is there already.
    """
    shaping = None if base is None else base.concrete.shaping
    asked = Request(model, seed, ranges or {}, dims or {}, shaping)
    sized = list(samples_of_edge_sizes(asked))
    found = [feeds for _, feeds in sized]
    if not any(_has_edges(value) for value in model.graph.inputs):
        return found  # an ordinary sample of a large model takes a while
    base = base or base_sample(asked, ())
    least = [made for made, feeds in sized[:1] if feeds.kind == "size 1"]
    cheap = next(filter(is_cheap, (base, *least)), None)
    return found if cheap is None else found + list(_edge_values(asked, cheap))


def _edge_values(asked: Request, base: GeneratedSample) -> Iterator[AdversarialFeeds]:
    model, ranges = asked.model, asked.ranges
    steering = steering_inputs(base.model)
    free = {
        name: data
        for name, data in base.feeds.items()
        if isinstance(data, np.ndarray)
        and name not in ranges
        and (name not in base.hints or base.hints[name].empty)
    }
    rng = np.random.default_rng(asked.seed)
    halves = {
        name: _with_zero((rng.integers(-6, 7, array.shape) / 2).astype(array.dtype))
        for name, array in free.items()
        if kind_of(array.dtype) == "float" and array.size > 1 and name not in steering
    }
    far = {
        name: saturating(free[name])
        for name in halves
        if free[name].dtype in (np.float32, np.float64)
    }
    large = {
        name: _alternating_edges(array)
        for name, array in free.items()
        if array.dtype.kind in "iu" and name not in steering
    }
    around_limits = {
        name: around(values, free[name])
        for name, values in _limits(model).items()
        if name in halves or name in large
    }
    limits = [
        {name: arrays[k % len(arrays)] for name, arrays in around_limits.items()}
        for k in range(max(map(len, around_limits.values()), default=0))
    ]
    ties = {
        name: np.resize(numbers, free[name].shape).astype(free[name].dtype)
        for name, numbers in ties_of(_readers(model)).items()
        if name in halves
    }
    counts, conditions = (_read_by_loops(model, index) for index in (0, 1))
    trips = trip_inputs(model)
    counts |= trips
    flags = {
        name: np.logical_not(array)
        for name, array in free.items()
        if array.dtype == np.bool_ and name not in conditions
    }
    off = {name: np.zeros_like(array) for name, array in flags.items() if array.any()}
    # Those may count from the end.
    indexing = _picked_for(model, lambda node: INDEXING.get(node.op_type)) - ranges.keys()
    missing = _picked_for(model, lambda node: 0 if expects_nan(node) else None, keeps_nan=True)
    missing -= ranges.keys()
    nans = {
        name: _scattered(data, np.nan)
        for name, data in base.feeds.items()
        if name in missing and isinstance(data, np.ndarray) and data.size
        if kind_of(data.dtype) == "float"
    }
    indices = {
        name: counted
        for name, data in base.feeds.items()
        if name in indexing and isinstance(data, np.ndarray)
        if (counted := _from_the_end(data, base.hints.get(name, ValueHint()))) is not data
    }
    nowhere = _picked_for(model, lambda node: LEADING_NOWHERE.get(node.op_type))
    outside = {
        name: np.where(np.arange(data.size).reshape(data.shape) % 2, data, size).astype(
            data.dtype
        )
        for name, data in base.feeds.items()
        if name in nowhere - ranges.keys() and isinstance(data, np.ndarray)
        if (size := _indexed(base.hints.get(name, ValueHint()))) is not None
    }
    stopped = {
        name: np.zeros_like(base.feeds[name])
        for name in sorted((conditions & base.feeds.keys()) - ranges.keys())
    }
    none, once = (
        {
            name: np.full_like(data, count)
            for name, data in base.feeds.items()
            if isinstance(data, np.ndarray) and data.size == 1 and data.dtype.kind in "iu"
            if name not in ranges
            and (name in counts or base.hints.get(name, ValueHint()).admits(count))
        }
        for count in (0, 1)
    )
    beyond = (limit.number + BEYOND for limit in size_limits(model))
    most = max((number for number in beyond if number < _MOST_TRIPS), default=_TRIPS)
    cheap = base.concrete.operations * most < EXPENSIVE
    wanted = (trips & base.feeds.keys()) - ranges.keys() if cheap else set()
    many = {name: np.full_like(base.feeds[name], most) for name in wanted}
    rows = {
        name: np.resize(each, free[name].shape).astype(free[name].dtype)
        for name, each in _subtracted(model).items()
        if name in halves and free[name].shape[-1] == each.shape[-1]
    }
    texts = {
        name: (data, words)
        for name, data in base.feeds.items()
        if (words := base.hints.get(name, ValueHint()).words) and isinstance(data, np.ndarray)
    }
    unknown = {name: _with_unknown(*each) for name, each in texts.items()}
    titled = {
        name: np.resize(np.array([word.title() for word in words], object), data.shape)
        for name, (data, words) in texts.items()
    }
    defaults = {
        name: array
        for name, array in other_defaults(model)
        if name not in steering and name not in {*base.feeds, *ranges}
    }
    masks = {
        name: _padded(data)
        for name, data in base.feeds.items()
        if "mask" in name.lower() and isinstance(data, np.ndarray) and name not in ranges
        if data.dtype.kind in "iu" and data.ndim > 1 and data.shape[-1] > 2
    }
    equal = {
        name: np.broadcast_to(data[:1], data.shape).copy()
        for name, data in base.feeds.items()
        if name in _at_one_place(model) - ranges.keys() and isinstance(data, np.ndarray)
        if data.ndim > 0 and data.size
    }
    variants: list[tuple[str, Mapping[str, Data]]] = [
        ("multiples of 1/2" if halves else "padding and holes", halves | masks),
        ("equal indices", equal),
        *(("limits", each) for each in limits),
        ("ties", ties),
        ("values of constants", rows),
        ("other defaults", defaults),
        ("negated", flags),
        ("all false", off),
        ("large integers", large),
        (LARGE_FLOATS, far),
        (LARGE_FLOATS, far | flags if far and flags else {}),  # the other branch overflows
        ("indices from the end", indices),
        ("indices out of range", outside),
        ("count 0", none | stopped),
        ("count 1", once),
        (f"count {most}", many),
        ("unknown words", unknown),
        ("words with capitals", titled),
        ("NaN", nans),
    ]
    for kind, changed in variants:
        if changed:
            where = f"in {', '.join(changed)}"
            yield AdversarialFeeds({**base.feeds, **changed}, kind, where, asked=False)


def _with_zero(array: Array) -> Array:
    """Set the last element to 0, which a small array may lack; of several rows the first."""
    flat = array.reshape(-1)
    if array.ndim > 1 and array.shape[-1] < array.size:
        flat[: array.shape[-1]] = 0  # what is added to a norm shows there
    flat[-1] = 0
    return array


def _with_unknown(array: Array, words: Sequence[str]) -> Array:
    """Replace each second text by one that is longer than all known words."""
    found = array.copy()
    found.reshape(-1)[::2] = "?" * (1 + max(map(len, words)))
    return found


def _padded(array: Array) -> Array:
    """Return a mask with padding on the left of each other row, and a hole in the others."""
    found = np.ones_like(array)
    rows = found.reshape(-1, array.shape[-1])
    rows[::2, 0] = 0
    rows[1::2, array.shape[-1] // 2] = 0
    return found


def saturating(array: Array) -> Array:
    """Return floats 100 times as large; the largest and the least reach that in size.

    The last of several rows is small. In the others the largest number is the last, and the
    first one half of it: where both saturate, the first is a maximum.
    """
    found = array.astype(np.float64) * _FAR
    flat = found.reshape(-1)
    row = next((size for size in array.shape[::-1] if size > 1), 1)
    large = flat[:-row] if row < array.size and array.ndim > 1 else flat
    if row > 2:
        each = large.reshape(-1, row)
        most = np.maximum(each.max(axis=1), _FAR)
        each[np.arange(len(each)), each.argmax(axis=1)] = each[:, -1]
        each[:, 0], each[:, -1] = most / 2, most
    high, low = large.argmax(), large.argmin()
    large[high], large[low] = max(large[high], _FAR), min(large[low], -_FAR)
    flat[len(large) :] *= _NEAR
    return found.astype(array.dtype)


def _alternating_edges(array: Array) -> Array:
    """Return large integers of a type, with last digits that a float loses; signs take turns.

    The least integer has no absolute value: right rewrites of signs are wrong there.
    """
    info = np.iinfo(array.dtype)
    found = np.full_like(array, info.max)
    flat = found.reshape(-1)
    flat -= (np.arange(array.size) % _DIGITS).astype(array.dtype)
    flat[1::2] = np.negative(flat[1::2]) if info.min else 0
    flat[2::4] -= (
        flat[2::4] // 3
    )  # a product wraps around, and to another number than its half
    return found


def _picked_for(
    model: ir.Model, place: Callable[[ir.Node], int | None], *, keeps_nan: bool = False
) -> set[str]:
    """Return the names of inputs whose elements nodes read at a place; None for others.

    With ``keeps_nan`` they may be computed from, element by element.
    """
    found = set()
    for node in all_nodes(model):
        index = place(node)
        value = None if index is None else _picked(node.inputs[index], keeps_nan=keeps_nan)
        found |= set() if value is None else {str(value.name)}
    return found


def _picked(value: ir.Value | None, *, keeps_nan: bool = False) -> ir.Value | None:
    """Return the input that a value has elements of; None if it is computed otherwise."""
    while value is not None and not value.is_graph_input():
        maker = value.producer()
        if maker is None:
            return None
        moves = maker.op_type in PICKING and not maker.domain
        if keeps_nan and (operator := operator_of(maker)) is not None:
            moves |= operator.elementwise
        read = (v for v in maker.inputs if v is None or constant_of(v) is None)
        value = next(read, None) if moves else None
    return value


def _subtracted(model: ir.Model) -> dict[str, Array]:
    """Return the rows of constants from which inputs are subtracted, or the other way round.

    A distance is zero there, and what is left of its terms where these are expanded is not.
    """
    found: dict[str, Array] = {}
    for node in all_nodes(model):
        if node.op_type != "Sub" or node.domain:
            continue
        for one, other in (node.inputs, node.inputs[::-1]):
            held = constant_of(other)
            value = None if held is None else _picked(one)
            if held is not None and value is not None and held.size > 1:
                found.setdefault(str(value.name), held.reshape(-1, held.shape[-1]))
    return found


def _at_one_place(model: ir.Model) -> set[str]:
    """Return the names of indices that may be equal, since what they lead to adds up."""
    found, other = set[str](), set[str]()
    for node in all_nodes(model):
        adds = node.attributes.get_string("reduction", "none") != "none"
        if node.op_type in ADDING_UP and len(node.inputs) > 1:
            (found if adds else other).add(str(node.inputs[1] and node.inputs[1].name))
    return found - other


def _indexed(hint: ValueHint) -> int | None:
    """Return the size of what all indices lead to, as far as it is one number."""
    if hint.high is None or not np.all(np.equal(hint.high, np.max(hint.high))):
        return None
    return int(np.max(hint.high)) + 1


def _from_the_end(array: Array, hint: ValueHint) -> Array:
    """Let every second index count from the end; return the array itself if none can."""
    size, kind = _indexed(hint), array.dtype.kind
    if size is None or kind in "bu" or (kind == "i" and -size < np.iinfo(array.dtype).min):
        return array
    found = np.array(array)
    flat = found.reshape(-1)
    flat[::2] = np.where(flat[::2] >= 0, flat[::2] - size, flat[::2])
    return found


def _has_edges(value: ir.Value) -> bool:
    """Whether an input may have other values that are worth a sample."""
    dims = [] if value.shape is None else list(value.shape)
    if value.is_initializer() or value.dtype is None or value.dtype == ir.DataType.BOOL:
        return True
    numeric = value.dtype.is_floating_point() or value.dtype.is_integer()
    if numeric or value.dtype is ir.DataType.STRING:
        return math.prod(dim for dim in dims if isinstance(dim, int)) <= SMALL
    return False


def _read_by_loops(model: ir.Model, index: int) -> set[str]:
    """Return the names of what loops read as one of their operands."""
    read = (n.inputs[index] for n in all_nodes(model) if n.op_type == "Loop" and not n.domain)
    return {str(value.name) for value in read if value is not None}


def _limits(model: ir.Model) -> dict[str, list[float]]:
    """Return the breakpoints of what reads the inputs, by the names of the inputs."""
    found = breakpoints_of(_readers(model))
    names = [str(value.name) for value in model.graph.inputs]
    return {name: found[name] for name in names if any(found.get(name, ()))}


def _readers(model: ir.Model) -> list[ir.Node]:
    """Return the nodes that read the inputs, each once."""
    found = (node for value in model.graph.inputs for node in value.consumers())
    return list(dict.fromkeys(found))


_MOST_ALONE = 3
_ODD = (37, 43)
"""Height and width of a picture that no stride divides."""
_LEAST = (1, 2, 4, 8, 16, 32)
"""Heights and widths that are tried until a model takes one."""
SMALL = 1 << 16
"""Elements up to which a sample of edge sizes costs little."""


def is_small(feeds: Feeds) -> bool:
    """Whether a sample of edge values is small, by its number of elements."""
    return elements_of(feeds) <= SMALL


def is_cheap(made: GeneratedSample) -> bool:
    """Whether a sample of edge values costs little."""
    return is_small(made.feeds) and made.concrete.operations < EXPENSIVE


def samples_of_edge_sizes(
    asked: Request,
) -> Iterator[tuple[GeneratedSample, AdversarialFeeds]]:
    """Yield inputs whose dynamic dimensions all have size 1, some of size 0, and a large one.

    The large one is beyond the largest integer that sizes meet, if it costs little. Pictures
    keep their sizes there, and are odd in one of their own. Each comes with what it was made
    from.
    """
    symbols = symbols_of_model(asked.model)
    open_names = symbols.open(asked.dims)
    spatial = [name for name in open_names if symbols.kinds[name] == "spatial"]
    free = [name for name in open_names if name not in spatial]
    if spatial:
        made = asked.sized(dict.fromkeys(free, 1) | dict(zip(spatial, cycle(_ODD))))
        if made is not None and is_cheap(made):
            where = f"of {', '.join(spatial)}"
            yield made, AdversarialFeeds(made.feeds, "odd sizes", where, asked=False)
        for size in _LEAST:
            made = asked.sized(dict.fromkeys(free, 1) | dict.fromkeys(spatial, size))
            if made is not None and made.concrete.fits:
                if is_cheap(made):
                    where = f"of {', '.join(spatial)}: {size}"
                    yield made, AdversarialFeeds(made.feeds, "small sizes", where, asked=False)
                break
    if not free:
        return
    plans = [(1, free)]
    if len({frozenset(shape) & frozenset(free) for shape in symbols.shapes.values()}) > 1:
        # One input may broadcast.
        plans += [(1, [name]) for name in free[:_MOST_ALONE] if [name] != free]
    plans += [(0, [name]) for name in free[:_MOST_ALONE]]
    for size, names in plans:
        made = asked.sized(dict.fromkeys(names, size))
        # The first may be dear: others of the same sizes are not made.
        if made is None or not (is_cheap(made) or (names is free and is_small(made.feeds))):
            continue
        if size == 0 and not _takes_nothing(made):
            continue
        where = f"of {', '.join(names)}"
        yield made, AdversarialFeeds(made.feeds, f"size {size}", where, asked=False)
    yield from samples_beyond_limits(asked)


def samples_beyond_limits(
    asked: Request,
) -> Iterator[tuple[GeneratedSample, AdversarialFeeds]]:
    """Yield inputs with sizes beyond the largest integers that sizes meet, if cheap.

    All dimensions that may meet one are beyond it at once, or each by itself.
    """
    limits = size_limits(asked.model)
    symbols = symbols_of_model(asked.model)
    sums = totals(dict.fromkeys(symbols.kinds, 1), asked.dims)  # they follow from others
    free = [
        name
        for name in symbols.open(asked.dims)
        if symbols.kinds[name] != "spatial" and name not in sums
    ]
    named = {limit.dim for limit in limits}
    targets = [name for name in free if name in named] if named <= {*free} else free
    numbers = sorted({limit.number for limit in limits}, reverse=True)
    reached = dict.fromkeys(targets, 0)
    for names in (targets, *([name] for name in targets[:_MOST_ALONE])):
        for number in numbers:
            if number <= min((reached[name] for name in names), default=number):
                break
            sizes = {**dict.fromkeys(free, 1), **dict.fromkeys(names, number + BEYOND)}
            shapes = (
                [size_of(dim, sizes) or 1 for dim in shape]
                for shape in symbols.shapes.values()
            )
            if sum(map(math.prod, shapes)) > SMALL:
                continue
            made = asked.sized(sizes)
            if made is not None and is_cheap(made):
                reached |= dict.fromkeys(names, number)
                kind, where = f"sizes over {number}", f"of {', '.join(names)}"
                feeds = _with_equal_rows(asked.model, symbols, made.feeds, names)
                yield made, AdversarialFeeds(feeds, kind, where, asked=False)
            break


def _with_equal_rows(
    model: ir.Model, symbols: Symbols, feeds: Feeds, names: Iterable[str]
) -> Feeds:
    """Repeat half of the rows along some dimensions, where a model drops what it has twice."""
    if not any(node.op_type in DROPPING_EQUALS for node in all_nodes(model)):
        return feeds
    found = dict(feeds)
    for key, data in feeds.items():
        axes = [a for a, dim in enumerate(symbols.shapes.get(key, ())) if dim in {*names}]
        if isinstance(data, np.ndarray) and axes:
            size = data.shape[axes[0]]
            found[key] = data.take(np.arange(size) % -(-size // 2), axes[0])
    return found


def _takes_nothing(made: GeneratedSample) -> bool:
    """Whether an empty sample does not put the engine's process at risk.

    A division of integers by a size does that, recurrent kernels do without a row, and
    kernels outside the standard are unknown. What the mean or the maximum of nothing is, the
    standard leaves open.
    """
    model = made.concrete.model
    return all(
        node.domain == ""
        and (node.op_type not in RISKY_IF_EMPTY or _lacks_rows_only(node))
        and (not node.op_type.startswith("Reduce") or _sums_nothing(node))
        for node in all_nodes(model)
        if node.op_identifier() not in model.functions
    )


def _lacks_rows_only(node: ir.Node) -> bool:
    """Whether what a risky node reads and makes has elements, or lacks no more than rows.

    The integers that divide may be sizes of nothing.
    """
    operator = operator_of(node)
    if operator is not None and operator.divides and not _divides_safely(node):
        return all(v is not None and _is_float(v) for v in node.inputs)
    values = (v for v in (*node.inputs, *node.outputs) if v is not None)
    first = 1 if node.op_type in TAKES_NO_ROWS else 0
    shapes = map(static_shape, values)
    return all(shape is not None and 0 not in shape[first:] for shape in shapes)


def _is_float(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


def _sums_nothing(node: ir.Node) -> bool:
    """Whether it is known what a reduction gives of no element.

    ONNX Runtime reduces no axis of an empty tensor that is counted from the end.
    """
    if node.op_type not in SUMS_OF_NOTHING:
        return False
    axes: Iterable[int] = node.attributes.get_ints("axes", ())
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        known = constant_of(node.inputs[1])
        if known is None:
            return False
        axes = known.ravel().tolist()
    return all(axis >= 0 for axis in axes)
