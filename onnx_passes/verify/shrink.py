"""Make a failing case smaller: fewer nodes, then smaller dimensions, then simpler values.

Nothing is kept that was not seen to fail: each step runs both models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.base import Array, Data, Engine, Feeds
from onnx_passes.verify.cut import around, values_of
from onnx_passes.verify.diverge import first_divergence
from onnx_passes.verify.result import OutputCheck

WHOLE = ", as whole models"

_LARGEST_WEIGHT = 64 << 20  # bytes; slicing larger ones costs more than it helps
_SHAPE_LENGTH = 8  # an integer vector no longer than this may be a shape


@dataclass(frozen=True)
class Case:
    """Two models of one interface, and a sample on which they differ.

    Attributes:
        before: The model that is right.
        after: The model that is not.
        feeds: The sample.
        what: What the models are, in a few words.
        part: Whether they are parts of models, whose values are inner ones.
        steps: The passes between them; empty for those of the failure.
    """

    before: ir.Model
    after: ir.Model
    feeds: dict[str, Data]
    what: str
    part: bool = False
    steps: tuple[str, ...] = ()


Judge = Callable[[Case], tuple[OutputCheck, ...] | None]
"""Says what differs in a case; None where it does not fail, or not in the same way."""


@dataclass
class Shrinker:
    """Shrinks a case.

    Attributes:
        case: The smallest case so far.
        judge: Says whether a case still fails.
        repeats: Whether the pass makes the same fault of a model; cases on which it does are
            not given up for smaller ones on which it does not.
        engine: What gives inner values.
        deadline: When to stop, on the clock of ``time.monotonic``.
        told: How far it came, a sentence each.
        tried: Number of cases judged.
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
        nodes, size = len(self.case.before.graph), _elements(self.case)
        self.checks = self.judge(self.case) or ()
        self.repeated = self.repeats(self.case.before, self.case.feeds)
        self._fewer_nodes()
        if self._try(_loosened(self.case)):
            self._smaller_dimensions()
        self._simpler_values()
        left = _elements(self.case)
        counted = sum(_nonzero(a).size for a in _arrays(self.case).values())
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
        _declare(case.before, {**values, **case.feeds}, inner=True)
        _declare(case.after, case.feeds, inner=False)
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
            small = around(
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
            step = next((s for s in _resizings(self.case) if s not in refused), None)
            if step is None:
                break
            if not any(self._try(c) for c in _resized(self.case, *step, self._at())):
                refused.add(step)
        for name, array in _arrays(self.case).items():
            for axis, size in enumerate(array.shape):
                if size > 1:
                    case = _with(self.case, name, array.take([0], axis))
                    before, after = case.before.clone(), case.after.clone()
                    self._try(replace(case, before=before, after=after))

    def _at(self) -> tuple[int, ...]:
        return next((c.worst for c in self.checks if not c.passed and c.worst), ())

    def _simpler_values(self) -> None:
        for name in _arrays(self.case):
            for simple in _simple(_arrays(self.case)[name]):
                if self._try(_with(self.case, name, simple)):
                    break
        for name in _arrays(self.case):
            self._fewest_nonzero(name)

    def _fewest_nonzero(self, name: str) -> None:
        """Replace elements by zeros, halves of them first (ddmin)."""
        array = _arrays(self.case)[name]
        if array.dtype.kind in "OSU":
            return
        left = _nonzero(array)
        chunk = len(left) // 2
        while chunk >= 1 and not self._late():
            start = 0
            while start < len(left) and not self._late():
                candidate = _arrays(self.case)[name].copy()
                candidate.reshape(-1)[left[start : start + chunk]] = 0
                if self._try(_with(self.case, name, candidate)):
                    left = np.delete(left, slice(start, start + chunk))
                else:
                    start += chunk
            chunk = min(chunk, len(left)) // 2 if chunk > 1 else 0


def _arrays(case: Case) -> dict[str, Array]:
    return {k: v for k, v in case.feeds.items() if isinstance(v, np.ndarray)}


def _shapes(case: Case) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of all inputs, and of the weights that are not too large to slice."""
    for array in _arrays(case).values():
        yield array.shape
    for model in (case.before, case.after):
        for value in model.graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.nbytes <= _LARGEST_WEIGHT:
                yield tuple(tensor.shape.numpy())


def _resizings(case: Case) -> Iterator[tuple[int, int]]:
    """Yield dimensions, the largest first, and what each may become."""
    for size in sorted({d for shape in _shapes(case) for d in shape}, reverse=True):
        for target in sorted({1, 2, 3, size // 2} & set(range(1, size))):
            yield size, target


def _elements(case: Case) -> int:
    return sum(array.size for array in _arrays(case).values())


def _nonzero(array: Array) -> Array:
    """Return the places of the elements that are not 0."""
    zero = "" if array.dtype.kind in "OSU" else np.zeros(1, array.dtype)
    return np.flatnonzero(array.reshape(-1) != zero)


def _with(case: Case, name: str, array: Array) -> Case:
    return replace(case, feeds=case.feeds | {name: array})


def _simple(array: Array) -> Iterator[Array]:
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


def _loosened(case: Case) -> Case:
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


def _declare(model: ir.Model, values: Mapping[str, Data], *, inner: bool) -> None:
    made = [v for node in model.graph for v in node.outputs] if inner else []
    for value in (*model.graph.inputs, *made):
        array = values.get(str(value.name))
        if isinstance(array, np.ndarray):
            value.shape = ir.Shape(array.shape)
            value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))


def _resized(case: Case, size: int, target: int, worst: tuple[int, ...]) -> Iterator[Case]:
    """Yield the case with a dimension made smaller, in inputs, then in weights as well."""
    starts = dict.fromkeys([0, *(min(w, size - target) for w in worst if w < size)])
    for start in starts:
        window = slice(start, start + target)
        feeds: dict[str, Data] = {
            name: _sliced(data, size, window) if isinstance(data, np.ndarray) else data
            for name, data in case.feeds.items()
        }
        if any(size in array.shape for array in _arrays(case).values()):
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
