"""Search for inputs on which a model runs, once it did not run on those generated for it.

Sizes are searched first, guided by the nodes that refuse others; then other values are tried.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, ModelError, OnnxPassesError, ReferenceDataError
from onnx_passes.ops.input_hints import StaticShape, constant_of, static_shape
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs, Session, label_of_feeds
from onnx_passes.runtime.inputs.boundary_values import (
    AdversarialFeeds,
    adversarial,
    base_sample,
    edge_samples,
    is_cheap,
)
from onnx_passes.runtime.inputs.concrete_shapes import ShapeSpecializer, skeleton
from onnx_passes.runtime.inputs.dimensions import Dims, Symbols, fits_memory, plans, symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import HUGE, SAMPLES, Ranges, Request

Sizes = dict[str, int]

CHECKS = 1200
"""Choices of sizes that shape inference is asked about."""
_MOST_ELEMENTS = 1 << 22
"""Elements of all inputs of a choice."""
_MOST_VARIED = 1 << 16
"""The same of sizes for further samples, which need not be large."""
_MOST_DIMS = 6
_MOST_ALONE = 3
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
    """Sizes to try, by name of a dynamic dimension.

    ``moved`` dimensions differ from sizes that were refused; these were scaled ``steps``
    times.
    """

    sizes: Sizes
    moved: tuple[str, ...] = ()
    steps: int = 0


@dataclass(frozen=True)
class Refusal:
    """Sizes that a node refuses.

    ``place`` is the number of the node, -1 if not known, and ``node`` its name and type, "" if
    not known. ``sizes`` are the first that it refused.
    """

    place: int
    node: str
    sizes: Sizes
    text: str


class SizeSearch:
    """Sizes that a model may take, the next ones chosen by what refused the last.

    Sizes that get further than others, counted in nodes, are the next to change. They change
    to sizes that the refusing node shows, then to powers of two, to sizes that the model shows
    and to multiples. ``refusals`` has the nodes in the order in which they refused.
    """

    def __init__(
        self,
        inputs: Sequence[ir.Value],
        symbols: Symbols,
        given: Dims,
        whole: Mapping[str, StaticShape],
        shaping: ShapeSpecializer,
        usual: Sizes,
    ) -> None:
        """Note what there is to choose.

        Sizes in ``given`` and shapes in ``whole`` stay. The search begins with ``usual``.
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

        ``most`` is in elements of all inputs; by default some millions, or those of usual
        sizes.
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
        """Note that an engine refuses sizes; return whether they got further than others."""
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
        """Yield sizes like some on which the model runs, for other samples."""
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
        shown = shown_sizes(self._shaping.nodes)
        # Where a process ended nothing is known, and each trial may be the last.
        blind = [] if near else sorted(shown, reverse=True)
        others = [*dict.fromkeys(refusal.sizes[n] for n in self._symbols.kinds)][:_MOST_DIMS]
        near.update(one + other for one, other in itertools.combinations(others, 2))
        near.update(others)
        exact = sorted({n + more for n in near for more in (0, 1) if 0 < n < _LARGEST})
        groups = self._groups()
        counted = [names for names in groups if not self._batches.intersection(names)]
        known = (blind, counted or groups), (exact, groups)
        guessed = ((*_POWERS, *shown, *_MULTIPLES), counted), (_POWERS, groups)
        for ladder, chosen in (*known, *guessed, (_MULTIPLES, groups)):
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
    """Return sizes that constants, attributes, inputs and outputs show, the frequent first."""
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


_MOST_IN_VAIN = 48
"""Choices of sizes after which other values are tried, if none got further than the last."""
_MOST_LATER = 12
_SHOWN = 6
_LARGEST_ENTRY = 32  # of a vector that may become a shape: five of these are 128 MiB

Fill = Callable[[Array], Array]


@dataclass(frozen=True)
class Alternative:
    """How inputs are made up.

    ``text`` names them: "batch=1, seq=8" or "zeros in indices". No ``dims`` are the usual
    ones.
    """

    text: str
    dims: Dims = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)

    def make(self, asked: Request, samples: int | None) -> list[Feeds]:
        """Make up the inputs; sizes that are asked for win over those of the alternative."""
        made = replace(asked, dims={**self.dims, **asked.dims}).make(samples)
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
    """

    def __init__(self, model: ir.Model, *, ranges: Ranges, dims: Dims) -> None:
        """Note what there is to choose.

        Inputs in ``ranges`` stay random, and sizes in ``dims`` stay.
        """
        self._model, self._ranges, self._given = model, ranges, dims
        self._inputs = [value for value in model.graph.inputs if not value.is_initializer()]
        self._symbols = symbols = symbols_of(self._inputs, model)
        whole = symbols.whole(dims)
        self.shaping = ShapeSpecializer(skeleton(model))
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
        """Note that a model does not run on inputs."""
        if not other.fills:
            further = self.search.refuse(self._settled(other), error)
            self._in_vain = 0 if further else self._in_vain + 1

    def vary(self, found: Alternative, runs: Callable[[Alternative], bool]) -> Alternative:
        """Give further samples sizes of their own, where a model runs on these.

        ``runs`` says whether it runs on others.
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


MOST = 256
"""Runs of a model to find inputs that it takes."""

SECONDS = 60.0
"""After these no other way is tried, and the search says that it ran out of time."""


@dataclass(frozen=True)
class Substitute:
    """Inputs on which the model runs, and its results.

    ``text`` names them: "batch=1, seq=8".
    """

    text: str
    samples: list[Feeds]
    outputs: list[Outputs]

    @property
    def note(self) -> str:
        """A sentence for a report."""
        return f"the original does not run on the first generated inputs; used: {self.text}"


@dataclass
class InputSearch:
    """Other inputs, made up by the settings of the first ones.

    Values outside ``ranges`` and other sizes of ``dims`` are not tried. ``tried`` has what
    failed, with the engine's message.
    """

    model: ir.Model
    seed: int = 0
    samples: int | None = None
    ranges: Ranges = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)
    adversarial: bool = False
    tried: list[tuple[str, str]] = field(default_factory=list)
    chosen: Substitute | None = None
    _found: Alternatives | None = None
    _late: bool = False

    def search(self, session: Session) -> Substitute | None:
        """Try other sizes, then other values, until the model runs.

        None if it runs on none of them. An EngineError says what no inputs change: the engine
        ended, or lacks an operator.
        """
        self.tried, self._late, begun = [], False, time.monotonic()
        self._found = found = Alternatives(self.model, ranges=self.ranges, dims=self.dims)
        for alternative in itertools.islice(found, MOST):
            if self.tried and time.monotonic() - begun > SECONDS:
                self._late = True
                break
            try:
                first = self._run(session, alternative)
            except OnnxPassesError as error:
                if isinstance(error, EngineError) and type(error) is not EngineError:
                    raise
                self.tried.append((alternative.text, error.message))
                if isinstance(error, EngineError):
                    found.refuse(alternative, error)
                continue
            self.chosen = self._complete(session, alternative, first)
            return self.chosen
        return None

    def _make(self, alternative: Alternative, samples: int | None) -> list[Feeds]:
        shaping = None if self._found is None else self._found.shaping
        asked = Request(self.model, self.seed, self.ranges, self.dims, shaping)
        return alternative.make(asked, samples)

    def _run(self, session: Session, alternative: Alternative) -> Outputs:
        """Run on one sample.

        Raises EngineError if the engine refuses it, or has crashed on it before;
        ReferenceDataError or ModelError if it cannot be made.
        """
        label = risky_runs.label(risky_runs.GENERATED, alternative.text)
        if why := risky_runs.avoided(label):
            raise EngineError(why)
        (feeds,) = self._make(alternative, 1)
        with risky_runs.engine_run(label):
            return session.run(feeds)

    def _complete(
        self, session: Session, alternative: Alternative, first: Outputs
    ) -> Substitute:
        """Run the other samples, and leave out those on which the model does not run."""

        def runs(other: Alternative) -> bool:
            with suppress(EngineError, ModelError, ReferenceDataError):
                return bool(self._run(session, other))
            return False

        if self.samples is None and self._found is not None:
            alternative = self._found.vary(alternative, runs)
        samples = self._make(alternative, self.samples)
        kept, outputs = [samples[0]], [first]
        more: list[Feeds] = samples[1:]
        dims = {**alternative.dims, **self.dims}
        special: list[AdversarialFeeds] = []
        if self.adversarial:
            special += adversarial(
                self.model, samples[:1], seed=self.seed, ranges=self.ranges, dims=dims
            )
        if self.samples is None:
            special += self._edges(samples[0], dims)
        more += [feeds for feeds in special if feeds.may_run]
        for feeds in more:
            try:
                with risky_runs.engine_run(label_of_feeds(feeds)):
                    outputs.append(session.run(feeds))
            except EngineError as error:
                if type(error) is not EngineError:
                    raise
                continue
            kept.append(feeds)
        return Substitute(alternative.text, kept, outputs)

    def _edges(self, first: Feeds, dims: Dims) -> Iterator[AdversarialFeeds]:
        """Yield edges of values at the sizes that were found, and each of these sizes as 1."""
        asked = Request(self.model, self.seed, self.ranges, dims)
        base = base_sample(asked, [first])
        yield from edge_samples(
            self.model, seed=self.seed, ranges=self.ranges, dims=dims, base=base
        )
        for name in sorted(dims.keys() - self.dims.keys())[:_MOST_ALONE]:
            made = asked.sized({name: 1})
            if dims[name] != 1 and made is not None and is_cheap(made):
                yield AdversarialFeeds(made.feeds, "size 1", f"of {name}", asked=False)

    @property
    def failure(self) -> str:
        """What was tried in vain, for the help of an error."""
        if not self.tried:
            return "there are no other inputs to try"
        shown = [text for text, _ in self.tried[:_SHOWN]]
        more = f" and {len(self.tried) - _SHOWN} more" if len(self.tried) > _SHOWN else ""
        late = f"; out of time after {SECONDS:.0f} s" if self._late else ""
        return f"tried in vain as well: {'; '.join(shown)}{more}{late}{self._refusal}"

    @property
    def _refusal(self) -> str:
        """The node that the search got to, what it demands, and how to give sizes."""
        furthest = None if self._found is None else self._found.search.furthest
        if furthest is None or not furthest.node:
            return ""
        sizes = ", ".join(f"{name}={size}" for name, size in furthest.sizes.items())
        line = shlex.quote(f"reference.dims={json.dumps(furthest.sizes, ensure_ascii=False)}")
        return (
            f"; at {sizes} the node that refuses is {furthest.node}: {furthest.text}; "
            f"give sizes that it takes in place of these: -s {line}"
        )
