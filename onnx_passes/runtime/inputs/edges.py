"""Inputs at the edges of what a model takes, which belong to its ordinary samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.scores import kind_of
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.input_hints import ValueHint, constant_of
from onnx_passes.ops.node_queries import (
    INDEXING,
    RISKY_IF_EMPTY,
    SUMS_OF_NOTHING,
    around,
    breakpoints_of,
    ties_of,
)
from onnx_passes.runtime.engine_base import Array, Data, Feeds
from onnx_passes.runtime.inputs.adversarial import (
    AdversarialFeeds,
    base_sample,
    make_sized,
    other_defaults,
)
from onnx_passes.runtime.inputs.concrete_shapes import Shaping
from onnx_passes.runtime.inputs.dims import Dims, symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import DEAR, Made, Ranges, elements_of
from onnx_passes.runtime.inputs.steering import steering_inputs

LARGE_FLOATS = "large floats"
"""The kind of samples on which results may have lost all digits, as an engine's noise."""

DRAWN = "drawn values"
"""The kind of samples that are added for what a change reads."""

_DIGITS = 7
"""How many last digits large integers have: an odd number, so that no pair cancels."""

_FAR = 100.0
"""What ordinary floats are multiplied by: exp(89) is infinite in float32, exp(709) is
finite in float64."""


def edge_samples(
    model: ir.Model,
    *,
    seed: int = 0,
    ranges: Ranges | None = None,
    dims: Dims | None = None,
    base: Made | None = None,
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
    - Integers are large, of either sign. Indices count from the end.
    - Single integers, such as numbers of iterations, are 0 and 1.

    Values have the sizes of the ordinary sample, or where a run on it is dear, those of the
    first sample of size 1. Infinities, NaN and extremes are for :func:`adversarial`.

    Args:
        model: The model; left as it is.
        seed: As for ``generate``.
        ranges: As for ``generate``; inputs with one have no other values.
        dims: As for ``generate``; no other size of these dimensions is made up.
        base: The first of the ordinary samples, if it is there already.
    """
    ranges, dims = ranges or {}, dims or {}
    shaping = None if base is None else base.concrete.shaping
    sized = list(samples_of_edge_sizes(model, seed, ranges, dims, shaping))
    found = [feeds for _, feeds in sized]
    if not any(_has_edges(value) for value in model.graph.inputs):
        return found  # an ordinary sample of a large model takes a while
    base = base or base_sample(model, (), seed, ranges, dims)
    least = [made for made, feeds in sized[:1] if feeds.kind == "size 1"]
    cheap = next(filter(is_cheap, (base, *least)), None)
    return found if cheap is None else found + list(_edge_values(model, seed, ranges, cheap))


def _edge_values(
    model: ir.Model, seed: int, ranges: Ranges, base: Made
) -> Iterator[AdversarialFeeds]:
    steering = steering_inputs(base.model)
    free = {
        name: data
        for name, data in base.feeds.items()
        if isinstance(data, np.ndarray)
        and name not in ranges
        and (name not in base.hints or base.hints[name].empty)
    }
    rng = np.random.default_rng(seed)
    halves = {
        name: _with_zero((rng.integers(-6, 7, array.shape) / 2).astype(array.dtype))
        for name, array in free.items()
        if kind_of(array.dtype) == "float" and array.size > 1 and name not in steering
    }
    far = {
        name: _far(free[name])
        for name in halves
        if free[name].dtype in (np.float32, np.float64)
    }
    large = {
        name: _alternating(array)
        for name, array in free.items()
        if array.dtype.kind in "iu" and array.size > 1 and name not in steering
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
    flags = {
        name: np.logical_not(array)
        for name, array in free.items()
        if array.dtype == np.bool_ and name not in conditions
    }
    off = {name: np.zeros_like(array) for name, array in flags.items() if array.any()}
    indexing = _indices(model) - ranges.keys()
    indices = {
        name: _from_the_end(data, base.hints.get(name, ValueHint()))
        for name, data in base.feeds.items()
        if name in indexing and isinstance(data, np.ndarray)
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
    defaults = {
        name: array
        for name, array in other_defaults(model)
        if name not in steering and name not in {*base.feeds, *ranges}
    }
    variants: list[tuple[str, Mapping[str, Data]]] = [
        ("multiples of 1/2", halves),
        *(("limits", each) for each in limits),
        ("ties", ties),
        ("other defaults", defaults),
        ("negated", flags),
        ("all false", off),
        ("large integers", large),
        (LARGE_FLOATS, far),
        ("indices from the end", indices),
        ("count 0", none | stopped),
        ("count 1", once),
    ]
    for kind, changed in variants:
        if changed:
            where = f"in {', '.join(changed)}"
            yield AdversarialFeeds({**base.feeds, **changed}, kind, where, asked=False)


def _with_zero(array: Array) -> Array:
    """Set the last element to 0, which a small array may lack."""
    array.reshape(-1)[-1] = 0
    return array


def _far(array: Array) -> Array:
    """Return floats 100 times as large; the largest and the least reach that in size."""
    found = array.astype(np.float64) * _FAR
    flat = found.reshape(-1)
    high, low = flat.argmax(), flat.argmin()
    flat[high], flat[low] = max(flat[high], _FAR), min(flat[low], -_FAR)
    return found.astype(array.dtype)


def _alternating(array: Array) -> Array:
    """Return large integers of a type, with last digits that a float loses; signs take turns.

    The least integer has no absolute value: right rewrites of signs are wrong there.
    """
    info = np.iinfo(array.dtype)
    found = np.full_like(array, info.max)
    flat = found.reshape(-1)
    flat -= (np.arange(array.size) % _DIGITS).astype(array.dtype)
    flat[1::2] = np.negative(flat[1::2]) if info.min else 0
    return found


def _indices(model: ir.Model) -> set[str]:
    """Return the names of inputs that are indices which may count from the end."""
    inputs = set(model.graph.inputs)
    read = (n.inputs[INDEXING[n.op_type]] for n in all_nodes(model) if n.op_type in INDEXING)
    return {str(value.name) for value in read if value is not None and value in inputs}


def _from_the_end(array: Array, hint: ValueHint) -> Array:
    """Let every second index count from the end, where the size is known."""
    if hint.high is None or not np.all(np.equal(hint.high, np.max(hint.high))):
        return array
    found = np.array(array)
    flat = found.reshape(-1)
    flat[::2] = np.where(flat[::2] >= 0, flat[::2] - (int(np.max(hint.high)) + 1), flat[::2])
    return found


def _has_edges(value: ir.Value) -> bool:
    """Whether an input may have other values that are worth a sample."""
    dims = [] if value.shape is None else list(value.shape)
    if value.is_initializer() or value.dtype is None or value.dtype == ir.DataType.BOOL:
        return True
    if value.dtype.is_floating_point() or value.dtype.is_integer():
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
SMALL = 1 << 16
"""Elements up to which a sample of edge sizes costs little."""


def is_small(feeds: Feeds) -> bool:
    """Whether a sample of edge values is small, by its number of elements."""
    return elements_of(feeds) <= SMALL


def is_cheap(made: Made) -> bool:
    """Whether a sample of edge values costs little."""
    return is_small(made.feeds) and made.concrete.operations < DEAR


def samples_of_edge_sizes(
    model: ir.Model, seed: int, ranges: Ranges, dims: Dims, shaping: Shaping | None = None
) -> Iterator[tuple[Made, AdversarialFeeds]]:
    """Yield inputs whose dynamic dimensions all have size 1, and one of size 0.

    Sizes of pictures stay as they are. Each comes with what it was made from.

    Args:
        model: The model.
        seed: Of the elements.
        ranges: Ranges of inputs by name.
        dims: Sizes of dynamic dimensions that stay.
        shaping: What made other samples of the same model; None for a new one.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    symbols = symbols_of(inputs, model)
    settled = {n for shape in map(symbols.shapes.get, dims) for n in shape or ()}
    free = [
        name
        for name, kind in symbols.kinds.items()
        if kind != "spatial" and name not in {*dims, *settled}
    ]
    if not free:
        return
    plans = [(1, free)]
    if len({frozenset(shape) & frozenset(free) for shape in symbols.shapes.values()}) > 1:
        plans += [(1, [name]) for name in free[:_MOST_ALONE]]  # one input may broadcast
    if _takes_nothing(model):
        plans.append((0, free[:1]))
    for size, names in plans:
        sizes = {**dims, **dict.fromkeys(names, size)}
        made = make_sized(model, seed, ranges, sizes, shaping)
        # The first may be dear: others of the same sizes are not made.
        if made is None or not (is_cheap(made) or (names is free and is_small(made.feeds))):
            continue
        where = f"of {', '.join(names)}"
        yield made, AdversarialFeeds(made.feeds, f"size {size}", where, asked=False)


def _takes_nothing(model: ir.Model) -> bool:
    """Whether an engine can be given an empty input without the risk that it ends the process.

    A division of integers by a size does that, and kernels outside the standard are unknown.
    What the mean or the maximum of nothing is, the standard leaves open.
    """
    return all(
        node.domain == ""
        and node.op_type not in RISKY_IF_EMPTY
        and (not node.op_type.startswith("Reduce") or _sums_nothing(node))
        for node in all_nodes(model)
        if node.op_identifier() not in model.functions
    )


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
