"""Other inputs for a model that does not run on those that were generated."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.use import Shape, constant_of, static_shape
from onnx_passes.runtime.engine_base import Array, Data, Feeds
from onnx_passes.runtime.inputs.concrete_shapes import Shaping, skeleton
from onnx_passes.runtime.inputs.dims import Dims, Symbols, plans, symbols_of
from onnx_passes.runtime.inputs.memory import fits_memory
from onnx_passes.runtime.inputs.seeded_feeds import Ranges, generate

_MOST_SIZES = 12
"""Sizes that the model shows; each is tried."""
_MOST_SHAPES = 160
"""Choices of sizes that are looked at; those that shape inference accepts come first."""
_MOST_DIMS = 6
_SHOWN = 6
_LARGEST_ENTRY = 32  # of a vector that may become a shape: five of these are 128 MiB
_LONGEST_VECTOR = 8
_SHOWN_BY_VALUE = frozenset({"Reshape", "Expand", "Tile", "ConstantOfShape", "Resize"})
_SHOWN_BY_SHAPE = frozenset({"Add", "Sub", "Mul", "Div", "Where", "Concat", "Expand", "Pow"})

Fill = Callable[[Array], Array]


@dataclass(frozen=True)
class Alternative:
    """How inputs are made up.

    Attributes:
        text: What is special about them: "batch=1, seq=8" or "zeros in indices".
        dims: Sizes of the dynamic dimensions; empty for the usual ones.
        fills: What replaces the values of inputs, by name.
    """

    text: str
    dims: Dims = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)

    def make(
        self,
        model: ir.Model,
        *,
        seed: int,
        samples: int | None,
        ranges: Ranges | None = None,
        dims: Dims | None = None,
    ) -> list[Feeds]:
        """Make up the inputs; arguments are those of ``generate``.

        Args:
            model: The model.
            seed: Seed of the values.
            samples: How many; None for the default.
            ranges: Ranges of values by input.
            dims: Sizes of dynamic dimensions; these win over those of the alternative.
        """
        merged = {**self.dims, **(dims or {})}
        made = generate(model, seed=seed, samples=samples, ranges=ranges, dims=merged)
        return [
            {name: _filled(data, self.fills.get(name)) for name, data in feeds.items()}
            for feeds in made
        ]


def alternatives(
    model: ir.Model,
    *,
    ranges: Ranges | None = None,
    dims: Dims | None = None,
) -> Iterator[Alternative]:
    """Yield other ways to make up inputs, the most likely to run first.

    First come other sizes: all plans of ``generate``, then those that the model shows: static
    sizes of inputs at the same axis, and constants that shapes are made of. Among them those
    come first in which shape inference finds no contradiction. Then come other values:
    shapes that the model declares, zeros, ones and other small numbers.

    Args:
        model: The model; left as it is.
        ranges: Ranges of inputs, whose values stay random.
        dims: Sizes that the user gave; they stay.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    given = dims or {}
    symbols = symbols_of(inputs, model)
    whole = {
        name: tuple(shape)
        for name, shape in given.items()
        if name in symbols.shapes and name not in symbols.kinds and not isinstance(shape, int)
    }
    shaping = Shaping(skeleton(model))
    later: list[Alternative] = []
    sizes = itertools.islice(_distinct(_sizes(model, inputs, symbols, given)), _MOST_SHAPES)
    for chosen in sizes:
        shapes = {name: symbols.resolve(name, chosen) for name in symbols.shapes} | whole
        if not fits_memory(inputs, shapes):
            continue
        own = {name: size for name, size in chosen.items() if name not in given}
        other = Alternative(_text(own), own)
        if shaping.fix(shapes, chosen)[1]:
            yield other
        else:
            later.append(other)
    values = list(_values(model, inputs, ranges or {}))
    ones = {name: 1 for name in symbols.kinds if name not in given}
    yield from later[:_MOST_SIZES]
    yield from values
    yield from later[_MOST_SIZES:]
    if ones:
        for other in values:
            yield Alternative(f"{_text(ones)}, {other.text}", ones, other.fills)


def _distinct(found: Iterable[dict[str, int]]) -> Iterator[dict[str, int]]:
    seen: list[dict[str, int]] = []
    for sizes in found:
        if sizes and sizes not in seen:
            seen.append(sizes)
            yield sizes


def _text(sizes: Mapping[str, int]) -> str:
    words = [f"{name}={size}" for name, size in sizes.items()]
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _sizes(
    model: ir.Model, inputs: list[ir.Value], symbols: Symbols, given: Dims
) -> Iterator[dict[str, int]]:
    """Yield sizes of the dynamic dimensions."""
    usual = [plan.sizes(symbols, given, 0) for plan in plans(symbols)]
    if not usual[0]:
        return
    free = [name for name in symbols.kinds if name not in given]
    fixed = {name: size for name, size in usual[0].items() if name not in free}
    # The usual sizes of further samples can be what runs: all 3 of them were tried.
    yield from usual[1:]
    aligned = _aligned(inputs, symbols)
    yield {**usual[0], **{n: s[0] for n, s in aligned.items() if s}, **fixed}
    for base in (usual[0], dict.fromkeys(symbols.kinds, 1)):
        for name in free[:_MOST_DIMS]:
            for size in aligned.get(name, ()):
                yield {**base, name: size, **fixed}
    shown = _shown(model)
    for size in shown:
        for kind in ("other", "batch", "spatial"):
            own = [name for name in free if symbols.kinds[name] == kind]
            yield {**usual[0], **dict.fromkeys(own, size), **fixed}
            yield {**dict.fromkeys(symbols.kinds, 1), **dict.fromkeys(own, size), **fixed}
        yield {**dict.fromkeys(symbols.kinds, size), **fixed}
    for name in free[:_MOST_DIMS]:
        for size in (1, *shown):
            yield {**usual[0], name: size, **fixed}


def _aligned(inputs: list[ir.Value], symbols: Symbols) -> dict[str, list[int]]:
    """Return the static sizes that other inputs have at the axis of a dynamic dimension."""
    found: dict[str, list[int]] = {}
    shapes = [symbols.shapes[str(value.name)] for value in inputs]
    for shape in shapes:
        for axis, name in enumerate(shape):
            if not isinstance(name, str) or name not in symbols.kinds:
                continue
            sizes = found.setdefault(name, [])
            for other in shapes:
                for place in (axis, axis - len(shape)):
                    if -len(other) <= place < len(other) and isinstance(other[place], int):
                        sizes.append(int(other[place]))
    return {n: [s for s in dict.fromkeys(sizes) if s > 0] for n, sizes in found.items()}


def _shown(model: ir.Model) -> list[int]:
    """Return sizes that constants, static inputs and outputs show, the most frequent first."""
    counts: Counter[int] = Counter()
    for port in (*model.graph.inputs, *model.graph.outputs):
        counts.update(_static(port))
    for node in model.graph.all_nodes():
        for index, value in enumerate(node.inputs):
            if value is None or not _is_constant(value):
                continue
            if node.op_type in _SHOWN_BY_VALUE and (index or len(node.inputs) == 1):
                array = constant_of(value)
                if array is not None and array.dtype.kind == "i" and array.ndim == 1:
                    counts.update(int(size) for size in array[:_LONGEST_VECTOR])
            elif node.op_type in _SHOWN_BY_SHAPE:
                counts.update(_static(value))
    ranked = sorted(counts, key=lambda size: (-counts[size], size))
    return [size for size in ranked if size > 1][:_MOST_SIZES]


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is None:
        return value.const_value is not None
    return producer.op_type == "Constant"


def _static(value: ir.Value) -> list[int]:
    return [dim for dim in value.shape or () if isinstance(dim, int)]


def _values(model: ir.Model, inputs: list[ir.Value], ranges: Ranges) -> Iterator[Alternative]:
    """Yield other values."""
    free = [value for value in inputs if value.name not in ranges]
    numbers = [v for v in free if v.dtype is not None and v.dtype.is_integer()]
    vectors = [v for v in numbers if (length := _length(v)) and length <= _LONGEST_VECTOR]
    shapes = [static_shape(v) for v in (*model.graph.outputs, *model.graph.inputs)]
    for value in vectors:
        for shape in dict.fromkeys(shapes):
            if shape and len(shape) == _length(value) and max(shape) <= 1 << 12:
                yield _one(value, f"{list(shape)} as {value.name}", _constant(shape))
    entries = [size for size in (1, 2, *_shown(model)) if size <= _LARGEST_ENTRY]
    for size in dict.fromkeys(entries):
        if vectors:
            fills = {str(v.name): _constant((size,)) for v in vectors}
            yield Alternative(f"{size} everywhere in {_names(vectors)}", {}, fills)
    floats = [v for v in free if v.dtype is not None and v.dtype.is_floating_point()]
    kinds: list[tuple[str, list[ir.Value], Fill]] = [
        ("zeros", numbers, np.zeros_like),
        ("ones", numbers, np.ones_like),
        ("0 and 1 in turn", numbers, lambda a: _counted(a, 2)),
        ("0, 1, 2 ... 7 in turn", numbers, lambda a: _counted(a, 8)),
        ("false", [v for v in free if v.dtype == ir.DataType.BOOL], np.zeros_like),
        ("true", [v for v in free if v.dtype == ir.DataType.BOOL], np.ones_like),
        ("positive numbers", floats, np.abs),
        ("ones", floats, np.ones_like),
        ("zeros", floats, np.zeros_like),
        ("ones", [*numbers, *floats], np.ones_like),
        ("zeros", [*numbers, *floats], np.zeros_like),
    ]
    for text, chosen, fill in kinds:
        if chosen:
            fills = {str(value.name): fill for value in chosen}
            yield Alternative(f"{text} in {_names(chosen)}", {}, fills)


def _one(value: ir.Value, text: str, fill: Fill) -> Alternative:
    return Alternative(text, {}, {str(value.name): fill})


def _names(values: list[ir.Value]) -> str:
    names = [str(value.name) for value in values]
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:3])} ..."


def _length(value: ir.Value) -> int | None:
    shape = static_shape(value)
    return shape[0] if shape is not None and len(shape) == 1 else None


def _constant(entries: Shape) -> Fill:
    return lambda array: np.broadcast_to(np.asarray(entries, array.dtype), array.shape).copy()


def _counted(array: Array, count: int) -> Array:
    return (np.arange(array.size) % count).astype(array.dtype).reshape(array.shape)


def _filled(data: Data, fill: Fill | None) -> Data:
    if fill is None or data is None:
        return data
    if isinstance(data, list):
        return [_filled(item, fill) for item in data]
    return fill(data)
