"""Make a failing case smaller: fewer nodes, then smaller dimensions, then simpler values.

Bisection and the first value that differs guide the search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.runtime.engine_base import Data, Engine, Feeds
from onnx_passes.verify.evidence import OutputCheck
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.region import changed_region, cut_around, producers_by_name, values_of


def first_true(count: int, holds: Callable[[int], bool]) -> int:
    """Return the least n of 1 to ``count`` for which a monotone predicate holds.

    That it holds for ``count`` is known, and not asked.
    """
    return first_of(0, count, lambda points: [holds(point) for point in points])


def first_of(
    low: int, high: int, hold: Callable[[Sequence[int]], Sequence[bool]], width: int = 1
) -> int:
    """Return the least number for which a monotone predicate holds, asking for some at a time.

    The predicate holds for ``high`` and not for ``low``. It is asked for up to ``width``
    numbers at once, in ascending order.
    """
    while high - low > 1:
        count = min(width, high - low - 1)
        spread = (low + (high - low) * i // (count + 1) for i in range(1, count + 1))
        points = [point for point in dict.fromkeys(spread) if point > low]
        found = list(hold(points))
        place = found.index(True) if True in found else len(points)
        high = points[place] if place < len(points) else high
        low = points[place - 1] if place else low
    return high


def first_above(
    count: int, measure: Callable[[int], float], final: float, threshold: float
) -> tuple[int, float, float]:
    """Return the least n whose score is above a threshold.

    ``measure`` is called a logarithm of ``count`` times; ``final`` is the score of ``count``,
    and that of 0 is assumed to be 0. Return n, the score of the one before it, and its own.
    """
    scores = {0: 0.0, count: final}

    def is_bad(n: int) -> bool:
        scores[n] = measure(n)
        return scores[n] > threshold

    found = first_true(count, is_bad)
    return found, scores.get(found - 1, 0.0), scores[found]


_LARGEST_WEIGHT = 64 << 20  # bytes; slicing larger ones costs more than it helps
_SHAPE_LENGTH = 8  # an integer vector no longer than this may be a shape


@dataclass(frozen=True)
class Case:
    """Two models of one interface, and a sample on which they differ.

    ``what`` says in a few words what the models are. If they are a ``part`` of models, values
    are inner ones. ``steps`` are the passes between them; empty for those of the failure.
    """

    before: ir.Model
    after: ir.Model
    feeds: dict[str, Data]
    what: str
    part: bool = False
    steps: tuple[str, ...] = ()


def arrays_of(case: Case) -> dict[str, Array]:
    """Return the inputs that are tensors, by name."""
    return {k: v for k, v in case.feeds.items() if isinstance(v, np.ndarray)}


def _shapes(case: Case) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of all inputs, and of the weights that are not too large to slice."""
    for array in arrays_of(case).values():
        yield array.shape
    for model in (case.before, case.after):
        for value in model.graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.nbytes <= _LARGEST_WEIGHT:
                yield tuple(tensor.shape.numpy())


def resizings_of(case: Case) -> Iterator[tuple[int, int]]:
    """Yield dimensions, the largest first, and what each may become."""
    for size in sorted({d for shape in _shapes(case) for d in shape}, reverse=True):
        for target in sorted({1, 2, 3, size // 2} & set(range(1, size))):
            yield size, target


def elements_of(case: Case) -> int:
    """Return the number of elements of all inputs."""
    return sum(array.size for array in arrays_of(case).values())


def places_of_nonzero(array: Array) -> Array:
    """Return the places of the elements that are not 0."""
    zero = "" if array.dtype.kind in "OSU" else np.zeros(1, array.dtype)
    return np.flatnonzero(array.reshape(-1) != zero)


def with_input(case: Case, name: str, array: Array) -> Case:
    """Return a case with another value of an input."""
    return replace(case, feeds=case.feeds | {name: array})


def simpler_values(array: Array) -> Iterator[Array]:
    """Yield simpler values of the same type: zeros, ones, signs, rounded numbers."""
    if array.dtype.kind in "OSU" or not array.size:
        return
    yield np.zeros_like(array)
    yield np.ones_like(array)
    if array.dtype.kind not in "fcV":
        return
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        for simple in (np.sign(wide), np.rint(wide), np.rint(wide * 8) / 8):
            if np.isfinite(simple).all() and not np.array_equal(simple, wide):
                yield simple.astype(array.dtype)


def without_shapes(case: Case) -> Case:
    """Copy both models, constants as initializers, with nothing said of inner shapes."""
    before, after = case.before.clone(), case.after.clone()
    for model in (before, after):
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        rank = [v for v in model.graph.inputs if v.shape is not None]
        for value in rank:
            assert value.shape is not None
            value.shape = ir.Shape([None] * len(value.shape))
        for node in model.graph:
            for value in node.outputs:
                value.shape = None
    return replace(case, before=before, after=after)


def declare_shapes(model: ir.Model, values: Mapping[str, Data], *, inner: bool) -> None:
    """Declare the shapes and types of inputs in place, and of ``inner`` values if asked."""
    made = [v for node in model.graph for v in node.outputs] if inner else []
    for value in (*model.graph.inputs, *made):
        array = values.get(str(value.name))
        if isinstance(array, np.ndarray):
            value.shape = ir.Shape(array.shape)
            value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))


def resized_cases(
    case: Case, size: int, target: int, worst: tuple[int, ...]
) -> Iterator[Case]:
    """Yield the case with a dimension made smaller, in inputs, then in weights as well.

    Dimensions of ``size`` become ``target``, wherever they are. The element at ``worst`` is
    kept first.
    """
    starts = dict.fromkeys([0, *(min(w, size - target) for w in worst if w < size)])
    for start in starts:
        window = slice(start, start + target)
        feeds: dict[str, Data] = {
            name: _sliced(data, size, window) if isinstance(data, np.ndarray) else data
            for name, data in case.feeds.items()
        }
        if any(size in array.shape for array in arrays_of(case).values()):
            before, after = case.before.clone(), case.after.clone()
            yield replace(case, before=before, after=after, feeds=feeds)
        for shapes in (False, True):
            before, after = case.before.clone(), case.after.clone()
            changed = [_resize(m, size, window, shapes) for m in (before, after)]
            if any(changed):
                yield replace(case, before=before, after=after, feeds=feeds)


def _sliced(array: Array, size: int, window: slice) -> Array:
    where = tuple(window if dim == size else slice(None) for dim in array.shape)
    return np.ascontiguousarray(array[where]).reshape(array[where].shape)


def _resize(model: ir.Model, size: int, window: slice, shapes: bool) -> bool:
    changed = False
    target = window.stop - window.start
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype is ir.DataType.STRING:
            continue
        if tensor.nbytes > _LARGEST_WEIGHT:
            continue
        array = tensor.numpy()
        shape_like = (
            array.dtype.kind in "iu" and array.ndim == 1 and array.size <= _SHAPE_LENGTH
        )
        if shape_like and shapes and (array == size).any():
            array = np.where(array == size, np.array(target, array.dtype), array)
        elif size in array.shape and not (shape_like and shapes):
            array = _sliced(array, size, window)
        else:
            continue
        value.const_value = ir.tensor(array, dtype=tensor.dtype, name=name)
        value.shape = ir.Shape(array.shape)
        changed = True
    return changed


@dataclass(frozen=True)
class Divergence:
    """The first value in which two models differ, and the nodes that compute it."""

    value: OutputCheck
    before: ir.Node | None
    after: ir.Node | None


def first_divergence(
    before: ir.Model,
    after: ir.Model,
    feeds: Feeds,
    engine: Engine,
    contract: Equality | Tolerance,
    overrides: Mapping[str, Tolerance] | None = None,
    like: ir.Model | None = None,
) -> Divergence | None:
    """Find the first value of the main graph that breaks a contract.

    Compared are values that both models, and ``like``, have under one name; if what changed is
    known, only those computed there. None if all agree, or one of the models does not run.
    """
    old, new = producers_by_name(before), producers_by_name(after)
    region = changed_region(before, after)
    names = [name for name in new if name in old]
    if like is not None:
        known = producers_by_name(like)
        names = [name for name in names if name in known]
    if region is not None and region.nodes:
        changed = {str(value.name) for node in region.nodes for value in node.outputs}
        names = [name for name in names if name in changed] or names
    try:
        expected = values_of(before, names, feeds, engine)
        actual = values_of(after, names, feeds, engine)
    except EngineError:
        return None
    promise = Promise(contract, overrides=overrides or {}, inside=True, negative_zero=True)
    for name in names:
        if not isinstance(expected[name], np.ndarray):
            continue
        if wrong := promise.broken({name: expected[name]}, {name: actual[name]}):
            return Divergence(wrong[0], old.get(name), new.get(name))
    return None


@dataclass(frozen=True)
class Loss(Divergence):
    """The value at which a model loses the most, as shares of its size: at it, and before."""

    share: float
    read: float


def largest_loss(
    before: ir.Model, after: ir.Model, feeds: Feeds, engine: Engine
) -> Loss | None:
    """Find the value whose error is most above the largest error of what it is computed from.

    Values of another type are compared as numbers, so that a conversion alone is not one.
    None if nothing is lost, or one of the models does not run.
    """
    old, new = producers_by_name(before), producers_by_name(after)
    names = [name for name in new if name in old]
    try:
        expected = values_of(before, names, feeds, engine)
        actual = values_of(after, names, feeds, engine)
    except EngineError:
        return None
    within: dict[str, float] = {}  # the largest error on the way to any value of the model
    best: tuple[float, str, float, float] | None = None
    for node in after.graph:
        read = max((within.get(str(v.name), 0.0) for v in node.inputs if v), default=0.0)
        for name in (str(value.name) for value in node.outputs):
            error = _error_share(expected.get(name), actual.get(name)) if name in old else None
            within[name] = read if error is None else error
            if error is not None and (best is None or error - read > best[0]):
                best = (error - read, name, error, read)
            if error == np.inf:
                break
        else:
            continue
        break
    if best is None or best[0] <= 0:
        return None
    _, name, error, read = best
    one = np.asarray(expected[name])
    with np.errstate(over="ignore"):
        other = np.asarray(actual[name]).astype(one.dtype)
    wrong = Promise(Tolerance(0.0, 0.0), inside=True).broken({name: one}, {name: other})
    if not wrong:
        return None
    return Loss(wrong[0], old.get(name), new.get(name), error, read)


def _error_share(old: Data | None, new: Data | None) -> float | None:
    """Return the root mean square error of floats as a share of their size."""
    one, other = np.asarray(old), np.asarray(new)
    if one.shape != other.shape or not one.size or kind_of(one.dtype) != "float":
        return None
    right, wrong = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(right)
    right, wrong = right[finite], wrong[finite]
    if not np.isfinite(wrong).all():
        return np.inf
    size = np.sqrt(np.mean(np.square(right))) if right.size else 0.0
    error = np.sqrt(np.mean(np.square(wrong - right))) if right.size else 0.0
    return float(error / size) if size else float(error)


WHOLE = ", as whole models"


Judge = Callable[[Case], tuple[OutputCheck, ...] | None]
"""Says what differs in a case; None where it does not fail, or not in the same way."""


@dataclass
class Shrinker:
    """Shrinks a case; ``case`` is the smallest so far.

    ``repeats`` says whether the pass makes the same fault of a model. Cases that do are not
    given up for smaller ones that do not. ``deadline`` is on the clock of ``time.monotonic``.
    """

    case: Case
    judge: Judge
    repeats: Callable[[ir.Model, Feeds], bool]
    engine: Engine
    deadline: float
    told: list[str] = field(default_factory=list)
    tried: int = 0
    checks: tuple[OutputCheck, ...] = ()
    repeated: bool = False

    def run(self) -> Case:
        """Shrink as far as the time allows, and return the smallest case."""
        nodes, size = len(self.case.before.graph), elements_of(self.case)
        self.checks = self.judge(self.case) or ()
        self.repeated = self.repeats(self.case.before, self.case.feeds)
        self._fewer_nodes()
        if self._try(without_shapes(self.case)):
            self._smaller_dimensions()
        self._simpler_values()
        left = elements_of(self.case)
        counted = sum(places_of_nonzero(a).size for a in arrays_of(self.case).values())
        self.told.append(
            f"made smaller from {nodes} to {len(self.case.before.graph)} nodes in "
            f"before.onnx and from {size:,} to {left:,} input elements, {counted:,} of them "
            f"not 0, in {self.tried} tries"
        )
        if self._late():
            self.told.append("the time for it was over; more of it may not be needed")
        return self.case

    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _try(self, case: Case) -> bool:
        if self._late():
            return False
        self.tried += 1
        try:
            if case.before is not self.case.before:
                case = self._declared(case)
            checks = self.judge(case)
        except Exception:
            # A case that cannot even be judged is dropped.
            return False
        if checks is None:
            return False
        if case.before is not self.case.before:
            repeated = self.repeats(case.before, case.feeds)
            if self.repeated and not repeated:
                return False
            self.repeated = repeated
        self.case, self.checks = case, checks
        return True

    def _declared(self, case: Case) -> Case:
        """Declare the shapes that values have by now: rules ask for them before they fire."""
        names = [str(v.name) for n in case.before.graph for v in n.outputs if v.name]
        try:
            values = values_of(case.before, names, case.feeds, self.engine)
        except OnnxPassesError:
            values = {}
        declare_shapes(case.before, {**values, **case.feeds}, inner=True)
        declare_shapes(case.after, case.feeds, inner=False)
        return case

    def _fewer_nodes(self) -> None:
        """Keep what lies between the first value that differs and those that agree."""
        case = self.case
        wrong = {check.output: check for check in self.checks if not check.passed}
        if not wrong:
            return
        limit = next(iter(wrong.values()))
        contract: Equality | Tolerance = Equality()
        if limit.rtol or limit.atol:
            contract = Tolerance(limit.rtol, limit.atol)
        try:
            parted = first_divergence(
                case.before, case.after, case.feeds, self.engine, contract
            )
            if parted is None:
                return
            small = cut_around(
                case.before, case.after, parted.value.output, case.feeds, self.engine
            )
        except OnnxPassesError:
            return
        whole = len(case.before.graph) + len(case.after.graph)
        if small is not None and sum(len(m.graph) for m in small[:2]) < whole:
            before, after, feeds = small
            name = parted.value.output
            what = f"{case.what.removesuffix(WHOLE)}, up to {name}"
            self._try(Case(before, after, feeds, what, True, case.steps))

    def _smaller_dimensions(self) -> None:
        refused: set[tuple[int, int]] = set()
        while not self._late():
            step = next((s for s in resizings_of(self.case) if s not in refused), None)
            if step is None:
                break
            if not any(self._try(c) for c in resized_cases(self.case, *step, self._at())):
                refused.add(step)
        for name, array in arrays_of(self.case).items():
            for axis, size in enumerate(array.shape):
                if size > 1:
                    case = with_input(self.case, name, array.take([0], axis))
                    before, after = case.before.clone(), case.after.clone()
                    self._try(replace(case, before=before, after=after))

    def _at(self) -> tuple[int, ...]:
        return next((c.worst for c in self.checks if not c.passed and c.worst), ())

    def _simpler_values(self) -> None:
        for name in arrays_of(self.case):
            for simple in simpler_values(arrays_of(self.case)[name]):
                if self._try(with_input(self.case, name, simple)):
                    break
        for name in arrays_of(self.case):
            self._fewest_nonzero(name)

    def _fewest_nonzero(self, name: str) -> None:
        """Replace elements by zeros, halves of them first (ddmin)."""
        array = arrays_of(self.case)[name]
        if array.dtype.kind in "OSU":
            return
        left = places_of_nonzero(array)
        chunk = len(left) // 2
        while chunk >= 1 and not self._late():
            start = 0
            while start < len(left) and not self._late():
                candidate = arrays_of(self.case)[name].copy()
                candidate.reshape(-1)[left[start : start + chunk]] = 0
                if self._try(with_input(self.case, name, candidate)):
                    left = np.delete(left, slice(start, start + chunk))
                else:
                    start += chunk
            chunk = min(chunk, len(left)) // 2 if chunk > 1 else 0
