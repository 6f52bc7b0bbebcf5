"""Search for sizes that a model takes, guided by the nodes that refuse others."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.ops.input_hints import StaticShape, constant_of
from onnx_passes.runtime.inputs.concrete_shapes import Shaping
from onnx_passes.runtime.inputs.dims import Dims, Symbols
from onnx_passes.runtime.inputs.memory import fits_memory
from onnx_passes.runtime.inputs.seeded_feeds import HUGE

Sizes = dict[str, int]

CHECKS = 1200
"""Choices of sizes that shape inference is asked about."""
_MOST_ELEMENTS = 1 << 22
"""Elements of all inputs of a choice."""
_MOST_VARIED = 1 << 16
"""The same of sizes for further samples, which need not be large."""
_MOST_DIMS = 6
_MOST_NUMBERS = 12
_LONGEST_VECTOR = 8
_LARGEST = 1 << 20
_STEPS = 8
"""How often a size is scaled by what a node demands."""
_POWERS = tuple(1 << exponent for exponent in range(18))
_ASKED = {
    "Reshape": re.compile(r"shape:\{(?P<has>[\d,]+)\}, requested shape:\{(?P<wants>[\d,]+)\}"),
    "Gemm": re.compile(r"W: \{(?P<wants>[\d,]+)\} K: (?P<has>\d+) N:(?P<per>\d+)"),
}
_PARTS = ("has", "wants", "per")
_MULTIPLES = (*range(1, 65), *range(72, 513, 8), *range(544, 2049, 32))


@dataclass(frozen=True)
class _Choice:
    """Sizes to try.

    Attributes:
        sizes: By name of a dynamic dimension.
        moved: The dimensions that differ from sizes that were refused.
        steps: How often these were scaled.
    """

    sizes: Sizes
    moved: tuple[str, ...] = ()
    steps: int = 0


@dataclass(frozen=True)
class Refusal:
    """Sizes that a node refuses.

    Attributes:
        place: The number of the node; -1 if it is not known.
        node: Its name and type; "" if it is not known.
        sizes: The first sizes that it refused, by name of a dynamic dimension.
        text: What is wrong, in numbers.
    """

    place: int
    node: str
    sizes: Sizes
    text: str


class SizeSearch:
    """Sizes that a model may take, the next ones chosen by what refused the last.

    Sizes that get further than others, counted in nodes, are the next to change. They change
    to sizes that the refusing node shows, then to powers of two, to sizes that the model shows
    and to multiples.

    Attributes:
        refusals: The nodes that refused, in the order in which they did.
    """

    def __init__(
        self,
        inputs: Sequence[ir.Value],
        symbols: Symbols,
        given: Dims,
        whole: Mapping[str, StaticShape],
        shaping: Shaping,
        usual: Sizes,
    ) -> None:
        """Note what there is to choose.

        Args:
            inputs: The inputs of the model that have no default.
            symbols: Their dynamic dimensions.
            given: Sizes that stay.
            whole: Shapes of inputs that stay.
            shaping: Puts the model in the shapes of a sample.
            usual: The sizes to begin with; some that were refused before are as good.
        """
        self._inputs, self._symbols, self._whole = inputs, symbols, whole
        self._usual, self._most = usual, _MOST_ELEMENTS
        if (shapes := self.shapes(usual, most=HUGE)) is not None:
            self._most = max(self._most, _elements(shapes))
        self._batches = {name for name, kind in symbols.kinds.items() if kind == "batch"}
        self._shaping, self._free = shaping, [n for n in symbols.kinds if n not in given]
        self.refusals: list[Refusal] = []
        self._around: dict[tuple[int, str], Iterator[_Choice]] = {}
        self._soon: deque[_Choice] = deque()
        self._seen: set[tuple[int, ...]] = set()
        self._doubted = {-1}
        self._checks, self._turns, self._vague = 0, 0, False
        self._running = _Choice({})

    @property
    def furthest(self) -> Refusal | None:
        """The last node that refused sizes."""
        return max(self.refusals, key=lambda r: r.place, default=None)

    def shapes(
        self, sizes: Mapping[str, int], *, most: float | None = None
    ) -> dict[str, StaticShape] | None:
        """Return the shapes of all inputs; None if they are too large to try.

        Args:
            sizes: By name of a dynamic dimension.
            most: Elements of all inputs; by default some millions, or those of usual sizes.
        """
        resolve = self._symbols.resolve
        shapes = {name: resolve(name, sizes) for name in self._symbols.shapes}
        shapes |= self._whole
        small = _elements(shapes) <= (self._most if most is None else most)
        return shapes if small and fits_memory(self._inputs, shapes) else None

    def choices(self) -> Iterator[Sizes]:
        """Yield sizes to run; what refuses them is noted by :meth:`refuse` before the next."""
        if self._free:
            self._soon.append(_Choice(self._usual))
        while self._checks < CHECKS and (choice := self._next()) is not None:
            key = tuple(choice.sizes[name] for name in self._symbols.kinds)
            shapes = self.shapes(choice.sizes)
            if key in self._seen or shapes is None:
                continue
            self._seen.add(key)
            self._checks += 1
            fault = self._shaping.fix(shapes, choice.sizes).fault
            if fault is None or fault.doubtful or fault.place in self._doubted:
                self._running = choice
                yield choice.sizes
            else:
                self._note(choice, fault.place, fault.text, fault.factor)

    def refuse(self, sizes: Mapping[str, int], error: EngineError) -> bool:
        """Note that an engine refuses sizes.

        Args:
            sizes: By name of a dynamic dimension.
            error: What it says; its place is that of a node.

        Returns:
            Whether they got further than all others.
        """
        if sizes.keys() != self._symbols.kinds.keys() or not self._free:
            return False
        before = self.furthest
        name = (error.where or "").rpartition("node ")[2]
        place = self._shaping.place_of(name)
        self._vague |= name.startswith("of type ")
        self._seen.add(tuple(sizes[name] for name in self._symbols.kinds))
        shapes = self.shapes(sizes)
        fault = None if shapes is None else self._shaping.fix(shapes, sizes).fault
        node = self._shaping.node(place)
        factor = None if node is None else _factor(node.op_type, error.message)
        if fault is not None and fault.place < place:
            self._doubted.add(fault.place)  # the engine takes what shape inference does not
        elif fault is not None and fault.place == place:
            factor = fault.factor or factor
        running = self._running if self._running.sizes == sizes else _Choice(dict(sizes))
        self._note(running, place, error.message, factor)
        return before is None or self.furthest is not before

    def larger(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yield sizes like some on which the model runs, for other samples.

        Args:
            sizes: The sizes on which it runs.
        """
        first = self.refusals[0].sizes if self.refusals else {}
        moved = [name for name in self._free if sizes[name] != first.get(name)]
        for scale in (2, 1.5, 3):
            other = sizes | {name: math.ceil(sizes[name] * scale) for name in moved}
            shapes = self.shapes(other, most=_MOST_VARIED)
            if other != sizes and shapes is not None:
                fault = self._shaping.fix(shapes, other).fault
                if fault is None or fault.doubtful or fault.place in self._doubted:
                    yield other

    def _next(self) -> _Choice | None:
        if self._soon:
            return self._soon.popleft()
        while self._around:  # the furthest; of nodes without a name, in turn with the last
            last = [*reversed(self._around)]
            self._turns += self._vague
            key = last[0] if self._turns % 2 else max(last, key=lambda key: key[0])
            if (choice := next(self._around[key], None)) is not None:
                return choice
            del self._around[key]
        return None

    def _note(self, choice: _Choice, place: int, text: str, factor: float | None) -> None:
        key = place, re.sub(r"\d+", "#", text)
        if all((r.place, re.sub(r"\d+", "#", r.text)) != key for r in self.refusals):
            refusal = Refusal(place, self._shaping.name_of(place), choice.sizes, text)
            self.refusals.append(refusal)
            self._around[key] = self._neighbours(refusal)
        if factor is None or choice.steps >= _STEPS:
            return
        for names in [choice.moved] if choice.steps else self._groups()[:-1]:
            scale = factor ** (1 / len(names))  # each has its part
            moved = {name: max(1, math.ceil(choice.sizes[name] * scale)) for name in names}
            self._soon.append(_Choice(choice.sizes | moved, names, choice.steps + 1))

    def _groups(self) -> list[tuple[str, ...]]:
        """Return the dimensions that change together: those of a kind, each, and then all."""
        kinds = dict.fromkeys(self._symbols.kinds[name] for name in self._free)
        alike = [tuple(n for n in self._free if self._symbols.kinds[n] == k) for k in kinds]
        alone = [(name,) for name in reversed(self._free[:_MOST_DIMS])]
        return [*dict.fromkeys([*reversed(alike), *alone]), tuple(self._free)]

    def _neighbours(self, refusal: Refusal) -> Iterator[_Choice]:
        node = self._shaping.node(refusal.place)
        near = Counter(map(int, re.findall(r"\d{1,7}", refusal.text)[:_MOST_NUMBERS]))
        if node is not None:
            near.update(_numbers(node))
        others = [*dict.fromkeys(refusal.sizes[n] for n in self._symbols.kinds)][:_MOST_DIMS]
        near.update(one + other for one, other in itertools.combinations(others, 2))
        near.update(others)
        shown = shown_sizes(self._shaping.nodes)
        exact = sorted({n + more for n in near for more in (0, 1) if 0 < n < _LARGEST})
        groups = self._groups()
        counted = [names for names in groups if not self._batches.intersection(names)]
        ladders = [(exact, groups), ((*_POWERS, *shown, *_MULTIPLES), counted)]
        for ladder, chosen in (*ladders, (_POWERS, groups), (_MULTIPLES, groups)):
            for size, names in itertools.product(ladder, chosen):
                yield _Choice(refusal.sizes | dict.fromkeys(names, size), names)


def _factor(operator: str, message: str) -> float | None:
    """Return how many times as many elements a node wants, if ONNX Runtime says so."""
    pattern = _ASKED.get(operator)
    found = None if pattern is None else pattern.search(message)
    if found is None:
        return None
    parts = found.groupdict(default="1")
    has, wants, per = (math.prod(map(int, parts.get(n, "1").split(","))) for n in _PARTS)
    return wants / per / has if has and per else None


def _elements(shapes: Mapping[str, StaticShape]) -> int:
    return sum(map(math.prod, shapes.values()))


def shown_sizes(model: ir.Model) -> list[int]:
    """Return sizes that constants, attributes, inputs and outputs show, the frequent first.

    Args:
        model: The model.
    """
    counts: Counter[int] = Counter()
    for port in (*model.graph.inputs, *model.graph.outputs):
        counts.update(_static(port))
    for node in model.graph.all_nodes():
        counts.update(_numbers(node))
    ranked = sorted(counts, key=lambda size: (-counts[size], size))
    return [size for size in ranked if 1 < size < _LARGEST][:_MOST_NUMBERS]


def _numbers(node: ir.Node) -> Iterator[int]:
    """Yield what attributes, small constants and shapes of constants of a node show."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.INT:
            yield attribute.as_int()
        elif attribute.type == ir.AttributeType.INTS:
            yield from attribute.as_ints()[:_LONGEST_VECTOR]
    for value in node.inputs:
        if value is None or ir.convenience.get_const_tensor(value) is None:
            continue
        yield from _static(value)
        if len(value.shape or ()) < 2:
            array = constant_of(value)
            if array is not None and array.dtype.kind == "i" and array.size <= _LONGEST_VECTOR:
                yield from map(int, array.ravel())


def _static(value: ir.Value) -> list[int]:
    return [dim for dim in value.shape or () if isinstance(dim, int)]
