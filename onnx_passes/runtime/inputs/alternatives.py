"""Other inputs for a model that does not run on those that were generated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.ops.input_hints import StaticShape, static_shape
from onnx_passes.runtime.engine_base import Array, Data, Feeds
from onnx_passes.runtime.inputs.concrete_shapes import Shaping, skeleton
from onnx_passes.runtime.inputs.dims import Dims, Symbols, plans, symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import SAMPLES, Ranges, make_samples
from onnx_passes.runtime.inputs.size_search import Sizes, SizeSearch, shown_sizes

_MOST_IN_VAIN = 48
"""Choices of sizes after which other values are tried, if none got further than the last."""
_MOST_LATER = 12
_MOST_DIMS = 6
_SHOWN = 6
_LARGEST_ENTRY = 32  # of a vector that may become a shape: five of these are 128 MiB
_LONGEST_VECTOR = 8

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
        shaping: Shaping | None = None,
    ) -> list[Feeds]:
        """Make up the inputs; arguments are those of ``make_samples``.

        Args:
            model: The model.
            seed: Seed of the values.
            samples: How many; None for the default.
            ranges: Ranges of values by input.
            dims: Sizes of dynamic dimensions; these win over those of the alternative.
            shaping: What made other samples of the same model; None for a new one.
        """
        merged = {**self.dims, **(dims or {})}
        made = make_samples(
            model, seed=seed, samples=samples, ranges=ranges, dims=merged, shaping=shaping
        )
        return [
            {n: _filled(data, self.fills.get(n)) for n, data in one.feeds.items()}
            for one in made
        ]


class Alternatives:
    """Other ways to make up inputs, the most likely to run first.

    First come other sizes: all plans of ``generate``, static sizes of inputs at the same axis,
    then those of :class:`SizeSearch`. Sizes in which shape inference finds no contradiction
    come before others. Then come other values: shapes that the model declares, zeros, ones and
    other small numbers.

    Attributes:
        shaping: Puts the model in the shapes of a sample.
        search: The search for sizes.
    """

    def __init__(self, model: ir.Model, *, ranges: Ranges, dims: Dims) -> None:
        """Note what there is to choose.

        Args:
            model: The model; left as it is.
            ranges: Ranges of inputs, whose values stay random.
            dims: Sizes that the user gave; they stay.
        """
        self._model, self._ranges, self._given = model, ranges, dims
        self._inputs = [value for value in model.graph.inputs if not value.is_initializer()]
        self._symbols = symbols = symbols_of(self._inputs, model)
        whole = {
            name: tuple(shape)
            for name, shape in dims.items()
            if name in symbols.shapes
            and name not in symbols.kinds
            and not isinstance(shape, int)
        }
        self.shaping = Shaping(skeleton(model))
        self._usual = [plan.sizes(symbols, dims, 0) for plan in plans(symbols)]
        self.search = SizeSearch(
            self._inputs, symbols, dims, whole, self.shaping, self._usual[0]
        )
        self._in_vain = 0

    def __iter__(self) -> Iterator[Alternative]:
        """Yield ways; :meth:`refuse` says of each that it failed before the next."""
        later: list[Alternative] = []
        for sizes in self._sizes():
            shapes = self.search.shapes(sizes)
            if shapes is None:
                continue
            if self.shaping.fix(shapes, sizes).fault is None:
                yield self._of(sizes)
            else:
                later.append(self._of(sizes))
        searched = map(self._of, self.search.choices())
        while self._in_vain < _MOST_IN_VAIN and (other := next(searched, None)) is not None:
            yield other
        values = list(_values(self._model, self._inputs, self._ranges))
        yield from later[:_MOST_LATER]
        yield from values
        yield from searched
        yield from later[_MOST_LATER:]
        if ones := {name: 1 for name in self._symbols.kinds if name not in self._given}:
            for other in values:
                yield Alternative(f"{_text(ones)}, {other.text}", ones, other.fills)

    def refuse(self, other: Alternative, error: EngineError) -> None:
        """Note that a model does not run on inputs.

        Args:
            other: How they are made up.
            error: What the engine says.
        """
        if not other.fills:
            further = self.search.refuse(self._settled(other), error)
            self._in_vain = 0 if further else self._in_vain + 1

    def vary(self, found: Alternative, runs: Callable[[Alternative], bool]) -> Alternative:
        """Give further samples sizes of their own, where a model runs on these.

        Args:
            found: What the model runs on.
            runs: Whether it runs on others.
        """
        if found.fills or not self.search.refusals:
            return found
        others = map(self._of, self.search.larger(self._settled(found)))
        taken = list(itertools.islice(filter(runs, others), SAMPLES - 1))
        choices = [self._settled(one) for one in (found, *taken)]
        turns = {name: [sizes[name] for sizes in choices] for name in found.dims}
        text = {n: " or ".join(map(str, dict.fromkeys(turn))) for n, turn in turns.items()}
        return Alternative(_text(text), turns) if taken else found

    def _of(self, sizes: Sizes) -> Alternative:
        own = {name: size for name, size in sizes.items() if name not in self._given}
        return Alternative(_text(own), own)

    def _settled(self, other: Alternative) -> Sizes:
        """Return the sizes of the first sample, those that the user gave among them."""
        own = {n: size for n, size in self._given.items() if n in self._symbols.kinds}
        return {n: s if isinstance(s, int) else s[0] for n, s in {**own, **other.dims}.items()}

    def _sizes(self) -> list[Sizes]:
        """Return sizes of the dynamic dimensions: of all plans, and of other inputs."""
        free = [name for name in self._symbols.kinds if name not in self._given]
        if not free:
            return []
        fixed = {name: size for name, size in self._usual[0].items() if name not in free}
        aligned = _aligned(self._inputs, self._symbols)
        first = {name: sizes[0] for name, sizes in aligned.items() if sizes}
        found = [*self._usual[1:], {**self._usual[0], **first, **fixed}]
        for base in (self._usual[0], dict.fromkeys(self._symbols.kinds, 1)):
            for name in free[:_MOST_DIMS]:
                found += [{**base, name: size, **fixed} for size in aligned.get(name, ())]
        return [sizes for place, sizes in enumerate(found) if sizes not in found[:place]]


def _text(sizes: Mapping[str, int | str]) -> str:
    words = [f"{name}={size}" for name, size in sizes.items()]
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


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
    entries = [size for size in (1, 2, *shown_sizes(model)) if size <= _LARGEST_ENTRY]
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


def _constant(entries: StaticShape) -> Fill:
    return lambda array: np.broadcast_to(np.asarray(entries, array.dtype), array.shape).copy()


def _counted(array: Array, count: int) -> Array:
    return (np.arange(array.size) % count).astype(array.dtype).reshape(array.shape)


def _filled(data: Data, fill: Fill | None) -> Data:
    if fill is None or data is None:
        return data
    if isinstance(data, list):
        return [_filled(item, fill) for item in data]
    return fill(data)
