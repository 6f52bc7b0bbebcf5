"""Compare what follows from sizes alone at sizes that no sample has.

Positions, masks and lengths depend on the sizes of inputs and on no data. They are computed
from what the Shapes of a model give, at larger and larger sizes, without the rest of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.node_queries import GIVES_SIZES
from onnx_passes.pipeline.random_values import RandomComparison
from onnx_passes.runtime.engine_base import Data, Feeds
from onnx_passes.runtime.inputs.dimensions import Symbols, symbols_of_model
from onnx_passes.verify.obligations import ObligationPart
from onnx_passes.verify.region import backward_slice, boundary_of

_TRIED = (35, 259, 2051)
"""Sizes, each a little beyond a power of two."""

_MOST = 1 << 22
"""Elements of a value, where two of its dimensions grow, up to which a size is tried."""

Series = tuple[int, ...]
"""What a size is on each sample."""


@dataclass(frozen=True)
class SizeFinding:
    """What larger sizes show of a part.

    ``elements`` counts those compared. Where the sides differ, ``told`` names the size, and
    ``feeds`` are inputs of the model of that size.
    """

    elements: int = 0
    told: str = ""
    feeds: Feeds | None = None


@dataclass(frozen=True)
class SizeComparison:
    """Compares parts of a change at sizes of the inputs that the samples lack."""

    comparison: RandomComparison

    def compare(self, part: ObligationPart) -> SizeFinding | None:
        """Compare a part; None if it depends on data, or on sizes that are not understood."""
        ahead = self._ahead(part)
        read = None if ahead is None else self._sizes_read(part, ahead)
        if ahead is None or not read:
            return None
        rows: list[dict[str, Array]] = []
        tried: list[tuple[Series, int]] = []
        for series, size in self._larger(part, ahead):
            made = {name: self._scaled(name, series, size) for name in read}
            row = {name: array for name, array in made.items() if array is not None}
            if len(row) == len(read):
                rows.append(row)
                tried.append((series, size))
        if not rows:
            return None
        found = self.comparison.run(part, ahead, rows)
        if found is None or found.agrees:
            return None if found is None else SizeFinding(found.elements)
        for row, (series, size) in zip(rows, tried, strict=True):
            found = self.comparison.run(part, ahead, [row])
            if found is not None and not found.agrees:
                names = [name for name, one in self._symbols.items() if one == series]
                told = f"differs where {' and '.join(names)} is {size}"
                return SizeFinding(0, told, self._feeds(series, size))
        return None

    def _ahead(self, part: ObligationPart) -> list[ir.Node] | None:
        """Return the nodes that compute what a part reads from sizes; None for data."""
        sources = self.comparison.sources(part)
        if any(name in self.comparison.varying for name in sources.values()):
            return None
        graph = self.comparison.before.graph
        ahead = backward_slice(sources, graph, self._makers.__contains__)
        giving = {*self._makers.values()}
        ahead = [node for node in ahead if node not in giving]
        made = {str(v.name) for node in ahead for v in node.outputs} | self._makers.keys()
        return ahead if made.issuperset({*sources, *boundary_of(ahead)}) else None

    def _sizes_read(self, part: ObligationPart, ahead: Sequence[ir.Node]) -> list[str]:
        names = {*boundary_of(ahead), *self.comparison.sources(part)} & self._makers.keys()
        return sorted(names) if self.comparison.recorded.holds(names) else []

    def _larger(
        self, part: ObligationPart, ahead: Sequence[ir.Node]
    ) -> Iterator[tuple[Series, int]]:
        """Yield sizes to try: those of a dimension of the inputs, the others as they are."""
        first = self.comparison.recorded.samples[0]
        names = {str(v.name) for node in (*ahead, *part.old) for v in node.outputs}
        most = max((np.size(first[name]) for name in names if name in first), default=1)
        for series in dict.fromkeys(self._symbols.values()):
            for size in _TRIED:
                if most * (size / max(series[0], 1)) ** 2 <= _MOST and size > max(series):
                    yield series, size

    def _scaled(self, name: str, series: Series, size: int) -> Array | None:
        """Return what a Shape gives where a dimension has a size; None if that is untold."""
        recorded = [np.asarray(sample[name]) for sample in self.comparison.recorded.samples]
        if len({array.shape for array in recorded}) > 1:
            return None
        columns = np.stack([array.reshape(-1) for array in recorded], axis=1)
        made = [self._size(tuple(map(int, column)), series, size) for column in columns]
        if None in made:
            return None
        return np.array(made, recorded[0].dtype).reshape(recorded[0].shape)

    def _size(self, one: Series, series: Series, size: int) -> int | None:
        """Return a size where another one is given; None if it follows from none.

        It may be the other one times a number, or with another size or a number added.
        """
        if len({*one}) == 1:
            return one[0]
        others = {*self._symbols.values()} - {series}
        apart = _less(one, series)
        if len({*apart}) == 1 or apart in others:
            return size + apart[0]
        if one in others:
            return one[0]
        if (factor := _times(one, series)) is not None:
            return size * factor
        alone = (_times(one, x) is not None or len({*_less(one, x)}) == 1 for x in others)
        return one[0] if any(alone) else None

    def _feeds(self, series: Series, size: int) -> Feeds | None:
        """Return the first sample, repeated up to a size; None if an input is not a tensor."""
        first, symbols = self.comparison.recorded.samples[0], self._dimensions
        if not symbols.shapes.keys() <= first.keys():
            return None
        sizes: dict[str, int] = {}
        for name, dims in symbols.shapes.items():
            for axis, dim in enumerate(dims):
                if dim in symbols.kinds:
                    known = self._symbols.get(str(dim))
                    now = None if known is None else self._size(known, series, size)
                    sizes[str(dim)] = first[name].shape[axis] if now is None else now
        found: dict[str, Data] = {}
        for name in symbols.shapes:
            array = first[name]
            for axis, wanted in enumerate(symbols.resolve(name, sizes)):
                array = array.take(np.arange(wanted) % max(array.shape[axis], 1), axis)
            found[name] = array
        return found

    @cached_property
    def _dimensions(self) -> Symbols:
        return symbols_of_model(self.comparison.before)

    @cached_property
    def _makers(self) -> dict[str, ir.Node]:
        """The nodes that give sizes, by the names of their results."""
        graph = self.comparison.before.graph
        asked = (n for n in graph if not n.domain and n.op_type in GIVES_SIZES)
        return {str(node.outputs[0].name): node for node in asked}

    @cached_property
    def _symbols(self) -> dict[str, Series]:
        """The dimensions of the inputs that differ from sample to sample."""
        samples = self.comparison.recorded.samples
        found: dict[str, Series] = {}
        for name, dims in self._dimensions.shapes.items():
            for axis, dim in enumerate(dims):
                # What an expression of names gives follows from these.
                if dim in self._dimensions.kinds and all(name in one for one in samples):
                    series = tuple(sample[name].shape[axis] for sample in samples)
                    if len({*series}) > 1:
                        found[str(dim)] = series
        return found


def _less(one: Series, other: Series) -> Series:
    return tuple(a - b for a, b in zip(one, other, strict=True))


def _times(one: Series, other: Series) -> int | None:
    """Return how many times another size one is on each sample; None if that differs."""
    factor = max(one) // max(other)
    return factor if one == tuple(factor * size for size in other) else None
