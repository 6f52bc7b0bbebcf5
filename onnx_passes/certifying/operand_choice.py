"""Choose plausible operands and attributes for a node of a template.

The choice guides the search for models. It does not specify operators: what does not fit is
discarded when the template is evaluated. Hints of a pass are left out now and then, so that
near misses occur.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.certifying.coverage import CAST, EDGES, Plan, reads_integers
from onnx_passes.certifying.rewrite_rule import PatternPart
from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.input_hints import Operand, Shape
from onnx_passes.ops.operator_class import find
from onnx_passes.passes.hints import Hint, Hints, Spec
from onnx_passes.passes.registry import is_known, lookup
from onnx_passes.plain import Plain, PlainMapping

_AHEAD = 8
"""How far a remembered draw may lie beyond its place, where a choice before it has changed."""

_ACTS = 0.8
"""How often a form acts where it may: of two nodes often on one alone."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw: what was asked for, and what came."""

    kind: str
    asked: tuple[object, ...]
    value: Any


class RecordedGenerator:
    """Draws from a generator, or from what was drawn before, with some of it drawn anew.

    A pattern of many nodes fires on one random model in hundreds. Most of the choices behind
    such a model are what makes it fire. With one or two of them changed it often still does,
    and where it does not, it is a near miss.
    """

    def __init__(
        self, rng: np.random.Generator, old: tuple[Draw, ...] = (), changes: int = 1
    ) -> None:
        """Draw from ``rng``, or repeat ``old`` but for ``changes`` places.

        What the form of a plan draws comes from ``rng`` and is not repeated; ``acted`` says
        afterwards whether the form met an operand or attribute of its kind.
        """
        self.rng, self._old, self._place = rng, old, 0
        self.acted = False
        self._anew = {int(rng.integers(len(old))) for _ in range(changes)} if old else set()
        self.trace: list[Draw] = []
        self.edge: Shape | None = None

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return float(self._drawn("random"))

    def integers(self, *asked: object) -> Any:
        """Return integers, as ``numpy.random.Generator.integers`` does."""
        return self._drawn("integers", *asked)

    def permutation(self, count: int) -> Any:
        """Return the numbers below ``count`` in some order."""
        return self._drawn("permutation", count)

    def _drawn(self, kind: str, *asked: object) -> Any:
        value = self._remembered(kind, asked)
        if value is None:
            value = getattr(self.rng, kind)(*asked)
        self.trace.append(Draw(kind, asked, value))
        return value

    def _remembered(self, kind: str, asked: tuple[object, ...]) -> Any:
        for place in range(self._place, min(self._place + _AHEAD, len(self._old))):
            draw = self._old[place]
            if draw.kind == kind and draw.asked == asked:
                self._place = place + 1
                return None if place in self._anew else draw.value
        return None


Kind: TypeAlias = "tuple[ir.DataType, int, str]"
"""Element type and opset of a model, and the operators it is made of."""


class MatchTraces:
    """What was drawn for models on which a rule fired, by kind of model."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Choose among them by ``rng``."""
        self._rng = rng
        self._traces: dict[Kind, list[tuple[tuple[Draw, ...], Shape | None]]] = {}
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._traces)

    @contextmanager
    def apart(self, rng: np.random.Generator) -> Iterator[None]:
        """Choose by another generator, and forget afterwards what fired meanwhile."""
        own = self._rng, self._traces
        self._rng, self._traces = rng, {k: [*traces] for k, traces in self._traces.items()}
        try:
            yield
        finally:
            self._rng, self._traces = own

    @staticmethod
    def kind(dtype: ir.DataType, model: ir.Model) -> Kind:
        """Return the kind of a model."""
        graph = model.graph
        operators = " ".join(sorted(node.op_type for node in graph))
        return dtype, graph.opset_imports[""], operators

    def add(self, kind: Kind, trace: tuple[Draw, ...], edge: Shape | None = None) -> None:
        """Keep what was drawn for a model that fired; the latest of many are kept.

        `edge` is the shape of its data that an integer of the rule decided.
        """
        self.count += 1
        traces = self._traces.setdefault(kind, [])
        traces.append((trace, edge))
        del traces[:-40]

    def pick(self) -> tuple[Kind, RecordedGenerator]:
        """Return a kind of model, and draws that vary one of it: rare kinds as often."""
        kinds = sorted(self._traces, key=str)
        kind = kinds[int(self._rng.integers(len(kinds)))]
        traces = self._traces[kind]
        old, edge = traces[int(self._rng.integers(len(traces)))]
        draws = RecordedGenerator(self._rng, old, int(self._rng.geometric(0.5)))
        draws.edge = edge
        return kind, draws


T = TypeVar("T")
Found: TypeAlias = "Operand | None"
Table: TypeAlias = "Mapping[str, tuple[str, Callable[..., T]]]"
"""What forms make, by their names, and inputs or attributes; empty for any."""

_FLOAT = ir.DataType.FLOAT

# Sizes of 3 and more, so that a rule which forgets to fold an axis shows itself.
SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (2, 3, 4), (3, 4), (), (1, 3), (3, 1))

RANKED: tuple[Shape, ...] = ((), (3,), (2, 3), (2, 3, 4), (2, 3, 2, 4))
"""A shape of each rank that is asked for."""

_LEVELS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT16)

SIZES = (1, 2, 2, 3, 3, 4, 5)
"""What the sizes that a hint names are drawn from; one in a hundred is 0."""


class Chooser:
    """Random choices for one template, of one element type."""

    def __init__(
        self,
        rng: RecordedGenerator,
        dtype: ir.DataType,
        numbers: Sequence[float],
        edges: float = 0.0,
    ) -> None:
        """Choose by ``rng``; ``numbers`` are what attributes and constants may be.

        A share ``edges`` of the shapes is what authors forget: rank 0, size 1, nothing.

        ``near`` says afterwards whether a constant is only almost the number asked for, which
        happens only with ``slack``, and wherever it can with ``keen``. ``rank`` is that of the
        next operand, and ``edge`` the shape of all, if they are enumerated. ``target`` is what
        was last reshaped to, and ``plan`` what the model is to have. ``parts`` is the number
        of integers that the next operand has; the last of them is ``divided`` in two if there
        is an output more. ``fixed`` are attributes that its pattern gives.
        ``lists`` are numbers that a guard asks for together, ``words`` the texts in it, and
        ``met`` sizes of the data.
        ``node`` is the number of the node whose operands and attributes are chosen.
        Constants are ``constants`` times as often as usual, and a share ``again`` of them is
        an earlier one of its type and shape.
        """
        self.rng, self.dtype, self.numbers, self.edges = rng, dtype, numbers, edges
        self.lists: Sequence[tuple[float, ...]] = ()
        self.words: Collection[str] = ()
        self.met: list[int] = []
        self.node = 0
        self._acts: dict[tuple[int, str], bool] = {}
        self._shapes = SHAPES
        self.square: int | None = None
        self.near = False
        self.slack = True
        self.keen = False
        self.finite = False
        self.sizes: Sequence[int] = SIZES
        self.rank: int | None = None
        self.edge: Shape | None = None
        self.target: Shape | None = None
        self.parts: int | None = None
        self.plan = Plan()
        self.divided = False
        # Of a whole model: guards ask for several constants, or for equal ones.
        self.constants = float(self.pick((1.0, 1.0, 3.0)))
        self.again = float(self.pick((0.0, 0.3, 0.9)))
        self._scale: Shape | None = None
        self._made: dict[tuple[ir.DataType, Shape], Array] = {}
        self.fixed: PlainMapping = {}

    @cached_property
    def levels(self) -> ir.DataType:
        """The type of the integers that quantisers make or read."""
        return self.dtype if self.dtype.is_integer() else self.pick(_LEVELS)

    def prefer(self, op_types: Collection[str]) -> None:
        """Keep to shapes that the most demanding of some operators takes.

        One template in three keeps to a single shape, so that branches fit one another, and
        one in six to squares of one size, so that products do.
        """
        if self.edge is not None:
            self._shapes = (self.edge,)
            return
        convolves = any("Conv" in o or "Pool" in o for o in op_types)
        if convolves and max(self.sizes) < min(SIZES[-2:]):
            self._shapes = ((1, 2, 3, 4), (1, 4, 3, 3), (2, 2, 5), (1, 2, 1, 4))
        elif convolves:
            self._shapes = ((1, 2, 5, 5), (1, 4, 5, 5), (2, 2, 6), (1, 2, 1, 5))
        elif "BatchNormalization" in op_types and "Gemm" not in op_types:
            self._shapes = ((1, 2, 5, 5), (2, 3))
        elif any((o := find("", name)) is not None and o.images for name in op_types):
            self._shapes = ((1, 2, 3, 4), (2, 1, 4, 4), (1, 4, 2, 2), (2, 2, 3))
        elif "Gemm" in op_types:
            self._shapes = ((2, 3), (3, 4), (3, 3))
        draw = self.rng.random()
        if draw < 0.33:
            self._shapes = (self.pick(self._shapes),)
        elif draw < 0.5 and not convolves:
            self.square = 4
            self._shapes = ((4, 4),) if "Gemm" in op_types else ((4, 4), (2, 4, 4))

    def source(self) -> str:
        """Return where the constants of a template come from."""
        draw = self.rng.random()
        return "nodes" if draw < 0.15 else "computed" if draw < 0.3 else "initializers"

    def literal(self, pattern: PatternPart, dtype: ir.DataType) -> Array:
        """Return a constant that a pattern spells out, or one that it still takes for it."""
        if dtype.is_integer():  # the largest has no float
            return np.asarray(pattern.value).astype(dtype.numpy())
        value = np.asarray(pattern.value, np.float64)
        likely = 1.0 if self.keen else 0.35
        if self.slack and dtype.is_floating_point() and self.rng.random() < likely:
            slack = np.abs(value) * getattr(pattern, "_rel_tol", 0.0)
            slack = np.maximum(slack, getattr(pattern, "_abs_tol", 0.0))
            value = value + slack * self.pick((0.9, -0.9))
            self.near |= bool(np.any(slack))
        if value.ndim == 0 and self.rng.random() < 0.1:
            value = value.reshape(self.pick(((1,), (1, 1), (1, 1, 1, 1))))
        with np.errstate(over="ignore"):  # the pattern's number may be beyond the type
            return value.astype(dtype.numpy())

    def content(self, operand: Operand) -> Array:
        """Return numbers for a constant."""
        key = operand.dtype, operand.shape
        if key in self._made and self.acts("undoes"):
            return self._inverse(self._made[key], operand)
        if key not in self._made or self.rng.random() > self.again:
            self._made[key] = self._content(operand)
        return self._made[key]

    def _inverse(self, array: Array, operand: Operand) -> Array:
        """Return the constant that undoes one, as a factor or as a summand."""
        floats = operand.dtype.is_floating_point() and np.all(array)
        if not floats or not (operand.positive or self.fresh((True, False))):
            return array if operand.dtype == ir.DataType.BOOL else np.negative(array)
        with np.errstate(over="ignore"):
            return np.asarray(1 / array).astype(array.dtype)

    def acts(self, form: str, share: float = _ACTS) -> bool:
        """Whether a form of the plan acts on the ``node``, where it may."""
        if form not in self.plan.forms:
            return False
        key = self.node, form
        found = self._acts.setdefault(key, bool(self.rng.rng.random() < share))
        self.rng.acted |= found
        return found

    def acting(self, table: Table[T | None], key: str, *args: Any) -> T | None:
        """Return what the first form of the plan makes that is of a table and acts."""
        for form in self.plan.forms:
            keys, make = table.get(form, ("-", None))
            made = (
                make(self, key, *args) if make and (not keys or key in keys.split()) else None
            )
            if made is not None and self.acts(form):
                return made
        return None

    def fresh(self, options: Sequence[T]) -> T:
        """Return one of the options for a form, which repeats no earlier draw."""
        return options[int(self.rng.rng.integers(len(options)))]

    def _content(self, operand: Operand) -> Array:
        numbers = self.acting(_CONTENTS, "", operand)
        if numbers is not None:
            with np.errstate(all="ignore"):
                return np.asarray(numbers).astype(operand.dtype.numpy())
        uniform = 0.3 if self.plan.opset or np.prod(operand.shape, dtype=int) > 1 else 0.6
        uniform = uniform if self.slack else 0.9  # a proof for all sizes wants one number
        if operand.positive:
            numbers = self.rng.integers(1, 5, operand.shape)
        elif self.plan.limits and (
            operand.dtype.is_floating_point()
            or (self.plan.form and operand.dtype.is_integer())
        ):
            numbers = self._limits(operand)
        elif self.rng.random() < uniform:
            numbers = np.full(operand.shape, self.pick(self.numbers))
        elif self.rng.random() < 0.1 and operand.dtype.is_integer():
            return np.full(operand.shape, np.iinfo(operand.dtype.numpy()).max)
        else:
            numbers = self.rng.integers(-4, 5, operand.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(numbers).astype(operand.dtype.numpy())

    def _limits(self, operand: Operand) -> Array:
        """Return numbers whose sum, product or reciprocal no longer fits the type."""
        if operand.dtype.is_integer():
            least, most = (int(end) for end in (operand.dtype.min, operand.dtype.max))
            root = math.isqrt(most) + 2
            numbers = np.array((most, least, most // 2 + 1, root, 3), operand.dtype.numpy())
        else:
            top = float(np.finfo(operand.dtype.numpy()).max)
            numbers = np.array((top, -top, 0.7 * top, 1.2 * top**0.5, 0.4 / top))
        found: Array = numbers[self.rng.integers(0, len(numbers), operand.shape)]
        return found

    def wanted(self, operand: Operand, numbers: Sequence[float]) -> Array:
        """Return a constant of one element that a guard asks for, or one just beside it."""
        number = self.pick(numbers)
        if operand.ints is not None:
            shape: Shape = (1,) if operand.shape else ()
            return np.full(shape, int(number), np.int64)
        beside = self.rng.random()
        if self.slack and beside < 0.1 and operand.dtype.is_floating_point():
            factor = self.pick((1.00009, 1.00011, 0.9, 1.1))
            self.near |= abs(factor - 1.0) < 1e-3 and number != 0
            number *= factor
        shape = self.pick(((), (), (), (1,)))
        return np.full(shape, number).astype(operand.dtype.numpy())

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def operand(self, op_type: str, index: int, known: Sequence[Shape | None]) -> Operand:
        """Return something that fits input ``index`` of an operator."""
        # Operators of ONNX Runtime's own take what those take that they fuse.
        operator = find("", op_type.removeprefix("Fused"))
        found = None if operator is None else operator.suggest(self, index, known)
        for _ in range(3 * self.plan.negated):
            if operator is not None and found is not None and not any(found.ints or (1,)):
                found = operator.suggest(self, index, known)  # zeros have no sign
        others = [shape for shape in known if shape is not None]
        if found is not None and self.divided and found.ints:
            *kept, last = found.ints
            ints = (*kept, last // 2, last - last // 2)
            found = replace(found, ints=ints, shape=(len(ints),))
        if op_type == "Pad" and found and found.ints:
            # Other axes than those of images are seldom padded.
            places = [place for place, n in enumerate(found.ints) if n]
            found = replace(found, ints=self._uneven(found.ints, places))
        if op_type == "Gather" and found and found.ints and self.rng.random() < _TABLE:
            found = replace(found, ints=found.ints * 2, shape=(2, *found.shape))
        self.met += (size for shape in others for size in shape)
        found = self.acting(_OPERANDS, f"{op_type}.{index}", found, others) or found
        if found is not None:
            found = self._planned(self._of_rule(found), index)
            if found.positive:  # scales belong together
                if self._scale is not None and self.rng.random() < self.again:
                    found = replace(found, shape=self._scale)
                self._scale = found.shape
            free = self.plan.alike and not others and found.ints is None
            return replace(found, shape=self._alike(found.shape)) if free else found
        return self.data(self.broadcastable(others[0]) if others else self.shape())

    def _of_rule(self, operand: Operand) -> Operand:
        """Return known integers with one that the rule's code names, or the last left out."""
        known, named = self.plan.known, self.plan.ints
        if known and operand.ints is not None and self.rng.random() < KNOWN:
            return replace(operand, ints=known, shape=(len(known),))
        share = 0.7 if self.plan.negated else _NEGATED
        # All of them, and not beside one 0: some alone may name an axis twice.
        signed = any(operand.ints or ()) and (operand.ints or ()).count(0) != 1
        if signed and operand.ints and self.rng.random() < share:
            return replace(operand, ints=tuple(-n for n in operand.ints))
        if not (named and operand.ints) or (chance := self.rng.random()) > 2 * _OF_RULE:
            return operand
        ints = [*operand.ints]
        if chance > _OF_RULE and len(ints) > 2 and not self.plan.joint:
            return replace(operand, ints=tuple(ints[:-1]), shape=(len(ints) - 1,))
        ints[int(self.rng.integers(len(ints)))] = self.pick(named)
        return replace(operand, ints=tuple(ints))

    def attribute(self, name: str, value: Plain) -> Plain:
        """Return an attribute, or one with an integer that the rule's code asks for."""
        if name in _WINDOWS and isinstance(value, list):
            value = [*self._uneven(value, range(len(value)))]
        if not self.plan.joint or name == "perm" or self.rng.random() > _OF_RULE:
            return value
        if isinstance(value, list) and value:
            place = int(self.rng.integers(len(value)))
            return [*value[:place], self.pick(self.plan.ints), *value[place + 1 :]]
        return self.pick(self.plan.ints) if type(value) is int else value

    def _uneven(self, numbers: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
        """Return integers, at times with another one at one of some places."""
        found = [*numbers]
        if len(places) > 1 and self.rng.random() < _UNEVEN:
            place = self.pick(places)
            found[place] = abs(found[place] + self.pick((-1, 1)))
        return tuple(found)

    def _planned(self, operand: Operand, index: int) -> Operand:
        """Return data with the shape that is enumerated, whatever an operator prefers."""
        if index or operand.ints is not None or operand.dtype != self.dtype:
            return operand
        if self.edge is not None:
            return replace(operand, shape=self.edge)
        if self.rank is not None and len(operand.shape) != self.rank:
            return replace(operand, shape=RANKED[self.rank])
        return operand

    def shape(self) -> Shape:
        """Return a shape of data, of the rank that is wanted if there is one."""
        if self.rank is None:
            free = not self.edge and self.square is None and len(self._shapes) > 1
            forgotten = free and self.edges and self.rng.random() < self.edges
            found = self.pick((*EDGES, ()) if forgotten else self._shapes)
            return self._alike(found) if self.plan.alike else found
        fitting = [s for s in (*self._shapes, *RANKED) if len(s) == self.rank]
        return tuple(self.pick(fitting))

    def _alike(self, shape: Shape) -> Shape:
        """Return a shape of so many axes, most of them of one size."""
        return tuple(self.pick((4, 4, 3)) for _ in shape)

    def data(self, shape: Shape, *, constant: bool | None = None) -> Operand:
        """Return data of the template's element type; None leaves open if it is constant."""
        return Operand(shape, self.dtype, constant=constant)

    def integers(self, *values: int) -> Operand:
        """Return known integers."""
        return Operand((len(values),), ir.DataType.INT64, values, True)

    def broadcastable(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts with another, often the same one."""
        if self.plan.alike and shape and self.rng.random() < 0.75:
            axis = int(self.rng.integers(len(shape)))
            alone = (shape[axis], *(1,) * (len(shape) - 1 - axis))
            return self.pick((alone, (*(1,) * axis, *alone)))
        if self.plan.widens and 1 in shape:
            return tuple(3 if size == 1 else size for size in shape)
        if self.rank is not None:
            wider = (2,) * (self.rank - len(shape))
            kept = shape[len(shape) - min(self.rank, len(shape)) :]
            return (*wider, *self.pick((kept, kept, (1,) * len(kept))))
        if not shape and self.acts("axes beside a scalar"):
            return self.fresh(((1,), (1, 1)))
        options: list[Shape] = [shape, shape, shape, ()]
        if shape:
            options += [shape[-1:], (1,) * len(shape), (*shape[:-1], 1), (2, *shape)]
        if len(shape) > 1:  # one axis alone, which is not the last
            axis = int(self.rng.integers(len(shape) - 1))
            options.append((shape[axis], *(1,) * (len(shape) - 1 - axis)))
        return tuple(self.pick(options))


_OF_RULE = 0.4
"""How often known integers are such as the code of the rule names, and how often fewer."""

KNOWN = 0.7
"""How often a list of known integers is that of the plan."""

_WINDOWS = ("pads", "strides", "dilations", "kernel_shape")
_UNEVEN = 0.4
"""How often pads and strides are not alike on all sides."""

_TABLE = 0.3
"""How often indices of a Gather have an axis more."""

_NEGATED = 0.1
"""How often known integers have the other sign."""

_KEPT = 0.97
"""How often what a hint says of one operand is followed."""


def hint_of(name: str | None) -> Hint | None:
    """Return the hint of a rule, whose name is ``pass[rule]``."""
    known, _, own = (name or "").removesuffix("]").partition("[")
    if not is_known(known):
        return None
    for cls in lookup(known):
        if cls.name == known:  # else it is one of a group
            hints: Hints = getattr(cls, "hints", {})
            return hints.get(own, hints.get("*"))
    return None


class Guide:
    """The hint of a rule, applied to one model."""

    def __init__(self, hint: Hint | None, choose: Chooser) -> None:
        """Follow ``hint`` with the choices of ``choose``; one model in twelve does without.

        ``since`` is the first opset that the guard admits, with or without.
        """
        self.since = 1 if hint is None else hint.since
        follows = hint is not None and choose.rng.random() > 1 / 12
        if follows and hint is not None and hint.cases:
            hint = hint.joined(choose.pick(hint.cases))
        self._hint = hint if follows else None
        self._choose = choose
        self._sizes: dict[str, int] = {}

    def names(self, *names: str) -> bool:
        """Whether the hint says what an operand is that is known by any of some names."""
        return self._hint is not None and any(name in self._hint.operands for name in names)

    def offers(self, op_type: str, name: str) -> bool:
        """Whether the hint says what an attribute is."""
        return self._hint is not None and f"{op_type}.{name}" in self._hint.attributes

    def spec(self, *names: str | None) -> Spec | None:
        """Return what an operand may be that is known by any of some names."""
        if self._hint is None:
            return None
        specs = next((s for n in names if (s := self._hint.operands.get(str(n)))), None)
        if specs is None or self._choose.rng.random() > _KEPT:
            return None
        found: Spec = self._choose.pick(specs)
        return found

    def attribute(self, op_type: str, name: str) -> tuple[object, ...]:
        """Return the value that an attribute may have, alone in a tuple; else nothing."""
        values = self._hint.attributes.get(f"{op_type}.{name}") if self._hint else None
        if values is None or self._choose.rng.random() > _KEPT:
            return ()
        return (self._choose.pick(values),)

    def operand(self, spec: Spec) -> Operand:
        """Return the operand that a hint describes."""
        numbers = tuple(self._number(term) for term in spec.dims.split())
        if spec.known:
            return Operand((len(numbers),), ir.DataType.INT64, numbers, True)
        return Operand(numbers, spec.dtype or self._choose.dtype)

    def content(self, spec: Spec, operand: Operand) -> Array | None:
        """Return the numbers of a constant; None where the hint leaves them open."""
        choose, shape = self._choose, operand.shape
        if spec.along is not None:
            index = np.arange(shape[spec.along]).reshape(
                [-1 if k == spec.along % len(shape) else 1 for k in range(len(shape))]
            )
            return np.broadcast_to(index, shape).astype(np.int64)
        if spec.fill:
            number = choose.pick(spec.fill)
            if np.isinf(number) and operand.dtype.is_integer():
                ends = np.iinfo(operand.dtype.numpy())
                return np.full(shape, ends.max if number > 0 else ends.min, ends.dtype)
            if np.isinf(number) and choose.finite:
                return None
            array = np.full(shape, number)
            if operand.dtype.is_integer():
                array = array.astype(np.int64)  # from where -1 goes to all bits of any type
        elif spec.mixed:
            numbers = [n for n in spec.mixed if np.isfinite(n) or not choose.finite]
            array = np.array(numbers)[choose.rng.integers(0, len(numbers), shape)]
        elif spec.doubled:
            half = choose.rng.integers(-4, 5, (*shape[:-1], shape[-1] // 2))
            array = np.concatenate([half, half], axis=-1) / 4
        else:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return array.astype(operand.dtype.numpy())

    def _number(self, term: str) -> int:
        sign = -1 if term.startswith("-") else 1
        return sign * math.prod(self._size(part) for part in term.lstrip("-").split("*"))

    def _size(self, name: str) -> int:
        if name.isdecimal():
            return int(name)
        if name not in self._sizes:
            empty = self._choose.rng.random() < 1 / 100
            self._sizes[name] = 0 if empty else int(self._choose.pick(self._choose.sizes))
        return self._sizes[name]


def attribute_value(
    choose: Chooser, op_type: str, name: str, known: Sequence[Shape | None]
) -> Plain:
    """Return a value for an attribute, or None where none is known to fit."""
    value = choose.acting(_VALUES, f"{op_type}.{name}", known)
    if value is not None:
        return value
    operator = find("", op_type)
    if operator is not None and (options := operator.options(name, known)):
        return choose.pick(options)
    rank = len(known[0]) if known and known[0] is not None else 2
    if name == "group":
        return _group(op_type, known)
    weights = known[1] if len(known) > 1 else None
    if name == "kernel_shape" and op_type.startswith("Conv") and weights:
        return list(weights[2:])
    if name == "mode":
        return choose.pick(_MODES.get(op_type, (None,)))
    special = _ATTRIBUTES.get(name)
    if special is not None:
        return special(choose, op_type, rank)
    try:
        kind = onnx.defs.get_schema(op_type).attributes[name].type
    except (onnx.defs.SchemaError, KeyError):
        return None
    types = onnx.defs.OpSchema.AttrType
    if kind == types.FLOAT:
        return float(choose.pick(choose.numbers))
    if kind == types.INT:
        return int(choose.pick((0, 1)))
    return None


def _group(op_type: str, known: Sequence[Shape | None]) -> int:
    """Return the number of groups that the shapes of image and weights leave."""
    x, w = (
        known[i] if i < len(known) else None for i in (0, 3 if "QLinear" in op_type else 1)
    )
    if x is None or w is None or len(x) < 2 or len(w) < 2:
        return 1
    if "Transpose" in op_type:
        # Plain divisor of the channels is right: the weights say the channels a group makes.
        return 2 if x[1] % 2 == 0 and w[0] == x[1] else 1
    return max(1, x[1] // max(w[1], 1))


def _bounds(c: Chooser, *_: object) -> float:
    return float(c.pick((-1.0, 0.0, 0.5, 1.0, 6.0, *c.numbers)))


def _pads(c: Chooser, op_type: str, rank: int) -> list[int]:
    if op_type == "Pad":
        amount = int(c.pick((0, 1, 1)))
        spatial = [0 if axis < rank - 2 else amount for axis in range(rank)]
        return [*spatial, *spatial]
    return [int(c.plan.negated or c.pick((0, 1)))] * max(2 * (rank - 2), 0)


_EQUATIONS = ("bij,bjk->bik", "bij,bjk->ki", "bij,cjk->ibc", "ij,jk")
"""Equations of an Einsum, of any letters: without an arrow they have another meaning."""

_MODES: dict[str, Sequence[str | None]] = {
    "Pad": ("constant", "reflect", "edge"),
    "Gelu": ("tanh",),
    "DepthToSpace": ("DCR", "CRD"),
}


def _fill(c: Chooser, *_: object) -> ir.TensorProtocol:
    if c.dtype.is_integer() and c.rng.random() < 0.3:
        ends = np.iinfo(c.dtype.numpy())
        return ir.tensor(np.full(1, c.pick((ends.min, ends.max)), ends.dtype))
    return ir.tensor(np.full(1, c.pick(c.numbers)).astype(c.dtype.numpy()))


def _perm(c: Chooser, _: str, rank: int) -> list[int]:
    return [int(i) for i in c.rng.permutation(rank)]


_ATTRIBUTES: dict[str, Callable[[Chooser, str, int], Plain]] = {
    "perm": _perm,
    "value": _fill,
    "axis": lambda c, _, rank: int(c.pick((*range(max(rank, 1)), -1))),
    "axes": lambda c, _, rank: [int(c.pick(range(max(rank, 1))))],
    "to": lambda c, _, rank: int(c.pick(CAST)),
    "direction": lambda c, _, rank: c.pick(("LEFT", "RIGHT")),
    "epsilon": lambda c, _, rank: float(c.pick((1e-5, 1e-3))),
    "alpha": lambda c, _, rank: float(c.pick((0.5, 0.2, 1.0, *c.numbers))),
    "pads": lambda c, op, rank: _pads(c, op, rank),
    **dict.fromkeys(
        ("strides", "dilations"), lambda c, _, rank: [int(c.pick((1, 2)))] * max(rank - 2, 0)
    ),
    "kernel_shape": lambda c, _, rank: [2] * max(rank - 2, 0),
    "auto_pad": lambda c, _, rank: c.pick(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")),
    "approximate": lambda c, _, rank: c.pick(("none", "tanh")),
    "reduction": lambda c, _, rank: c.pick(("add", "mul", "none", "max")),
    **dict.fromkeys(("min", "max"), _bounds),
    "start": lambda c, _, rank: int(c.pick((0, 1, -1))),
    "end": lambda c, _, rank: int(c.pick((1, 2, -1))),
    **dict.fromkeys(("num_groups", "num_heads"), lambda c, *_: int(c.pick((1, 2)))),
    **dict.fromkeys(("num_outputs", "q_num_heads", "kv_num_heads", "blocksize"), lambda *_: 2),
    "scale": lambda c, _, rank: float(c.pick((0.5, 2.0))),
    "ratio": lambda c, _, rank: float(c.pick((0.0, 0.5))),
    "momentum": lambda c, _, rank: 0.5,
    "equation": lambda c, _, rank: c.pick(_EQUATIONS),
}


def _one_place(f: Found) -> Found:
    return f and replace(f, shape=(*f.shape[:2], *(1 for _ in f.shape[2:])))


def _run(c: Chooser) -> Found:
    """Return places in a row, which may run across the end."""
    start = c.fresh((-3, -2, -1, 1))
    return c.integers(*range(start, start + c.fresh((2, 3))))


def _twice(c: Chooser, key: str, found: Found, known: Sequence[Shape]) -> Found:
    """Return indices that name one place twice, from either end."""
    ints = found.ints if found else None
    depth = found.shape[-1] if found and found.shape and "ND" in key else 1
    rows = [ints[k : k + depth] for k in range(0, len(ints), depth)] if ints and depth else []
    if found is None or len(rows) < 2 or not known or not known[0]:
        return None
    one, other = (int(place) for place in c.rng.rng.permutation(len(rows))[:2])
    size = known[0][0] if rows[one][0] >= 0 else -known[0][0]
    rows[other] = (rows[one][0] - size, *rows[one][1:])
    return replace(found, ints=tuple(n for row in rows for n in row))


def _no_copy(c: Chooser, found: Found) -> Found:
    if found is None or not found.ints:
        return None
    place = c.fresh(range(len(found.ints)))
    return replace(found, ints=(*found.ints[:place], 0, *found.ints[place + 1 :]))


def _columns(c: Chooser, key: str, known: Sequence[Shape]) -> Found:
    """Return one number, or one for each column of a matrix or of several."""
    place = {"MatMulInteger.2": 9, "MatMulInteger.3": 1}.get(key, 3)
    factor = known[place] if place < len(known) else ()
    if len(factor) < 2 or c.fresh((True, False, False)):
        return c.data((), constant=True)
    *batch, _, columns = factor
    return c.data((*batch, 1, columns) if batch else (columns,), constant=True)


def _number(c: Chooser, key: str, found: Found, known: Sequence[Shape]) -> Found:
    """Return a number where an operator reads integers, and suggests none."""
    op_type, _, index = key.partition(".")
    if found or not known or not reads_integers(op_type, int(index)):
        return None
    number = c.fresh((0, -1, 1, len(known[0]) - 1))
    return Operand(c.fresh(((), (1,))), ir.DataType.INT64, (number,), True)


def _factor(c: Chooser, found: Found, known: Sequence[Shape]) -> Found:
    if found is None or "equation" in c.fixed:
        return None
    size = known[0][-1] if known and known[0] else 3
    return replace(found, shape=c.fresh(((size, 4), (4, size), (size,), (2, size))))


def _lone(c: Chooser, key: str) -> Found:
    """Return a constant of one element for data beside integers, which are an input mostly."""
    op_type, _, index = key.partition(".")
    if index != "0" or not reads_integers(op_type, 1):
        return None
    return c.data(c.fresh(((), (1,), (1, 1))), constant=True)


def _row(c: Chooser, found: Found, known: Sequence[Shape]) -> Found:
    """Return a constant of as many numbers as a list of the guard has."""
    known_integers = found is not None and found.ints is not None
    if not c.lists or not known or known_integers:
        return None
    return c.data((len(c.fresh(c.lists)),), constant=True)


_OPERANDS: Table[Found] = {
    "weights of one place": ("Conv.1 ConvTranspose.1", lambda c, k, f, known: _one_place(f)),
    "weights of one channel": (
        "ConvTranspose.1",
        lambda c, k, f, known: f and replace(f, shape=(f.shape[0], 1, *f.shape[2:])),
    ),
    "slices backwards": (
        "Slice.1 Slice.2 Slice.4",
        lambda c, k, f, known: c.integers(-(2**63) if k == "Slice.2" else -1),
    ),
    "slices behind the end": (
        "Slice.2",
        lambda c, k, f, known: c.integers(max(known[0], default=1) + c.fresh((1, 3))),
    ),
    "places in a row": ("Gather.1", lambda c, k, f, known: _run(c)),
    "one place twice": (
        "Gather.1 GatherElements.1 GatherND.1 ScatterElements.1 ScatterND.1",
        _twice,
    ),
    "short targets": (
        "Expand.1",
        lambda c, k, f, known: f and c.integers(*(f.ints or (1, 1))[1:]),
    ),
    "no copy": ("Tile.1", lambda c, k, f, known: _no_copy(c, f)),
    "numbers of columns": (
        "MatMulInteger.2 MatMulInteger.3 QLinearMatMul.4 QLinearMatMul.5",
        lambda c, k, f, known: _columns(c, k, known),
    ),
    "integers of any operator": ("", _number),
    "equations": ("Einsum.0 Einsum.1", lambda c, k, f, known: _factor(c, f, known)),
    "regions": (
        "Resize.1",
        lambda c, k, f, known: Operand((2 * len(known[0]),), _FLOAT, constant=True),
    ),
    "lists of the guard": ("", lambda c, k, f, known: _row(c, f, known)),
    "numbers": ("", lambda c, k, f, known: _lone(c, k)),
}
"""Operands that authors forget, by form: their inputs, empty for any, and what they are."""


def _listed(c: Chooser, operand: Operand) -> Array | None:
    found = [n for n in c.lists if operand.shape == (len(n),)]
    return np.array(c.fresh(found)) if found else None


def _enlarged(c: Chooser, operand: Operand) -> Array | None:
    """Return scales of an image, whose batch and channels stay, or those of the guard."""
    if not operand.positive or len(operand.shape) != 1 or operand.shape[0] < 3:
        return None
    of_image = [c.fresh((0.5, 1.0, 2.0, 3.0)) for _ in range(operand.shape[0] - 2)]
    known = _listed(c, operand)
    return (
        np.array((1.0, 1.0, *of_image)) if known is None or c.fresh((True, False)) else known
    )


def _measured(c: Chooser, operand: Operand) -> Array | None:
    """Return a size of the data, or the place of the last element."""
    if operand.dtype not in (ir.DataType.INT32, ir.DataType.INT64) or not c.met:
        return None
    return np.full(operand.shape, c.fresh(c.met) - c.fresh((0, 1)))


def _first(c: Chooser, operand: Operand) -> Array | None:
    """Return unlike numbers: a guard may read the first alone."""
    if operand.positive or 0 in operand.shape:
        return None
    numbers = c.rng.rng.integers(-4, 5, operand.shape).astype(np.float64)
    numbers.flat[0] = c.fresh((0.0, 0.0, 1.0, c.fresh(c.numbers)))
    return numbers


_CONTENTS: Table[Array | None] = {
    "scales of images": ("", lambda c, k, operand: _enlarged(c, operand)),
    "lists of the guard": ("", lambda c, k, operand: _listed(c, operand)),
    "sizes of the data": ("", lambda c, k, operand: _measured(c, operand)),
    "a first element": ("", lambda c, k, operand: _first(c, operand)),
}
"""Numbers of a constant that a guard may ask for, by form."""


def _equation(c: Chooser, known: Sequence[Shape | None]) -> Plain:
    """Return an equation in which axes of one size meet, with any letters in any order."""
    letters = ["bcijk"[int(place)] for place in c.rng.rng.permutation(5)]
    if c.fresh((True, False)):
        return c.fresh(_EQUATIONS).translate(str.maketrans("bcijk", "".join(letters)))
    sizes: dict[str, int] = {}
    terms: list[str] = []
    for shape in known:
        term = ""
        for size in shape or ():
            met = [n for n, s in sizes.items() if s == size and n not in term]
            free = letters.pop() if letters else "z"
            term += c.fresh((*met, *met, free))
            sizes[term[-1]] = size
        terms.append(term)
    used = "".join(terms)
    kept = [n for n in sizes if used.count(n) == 1 or c.fresh(range(10)) == 0]
    result = "".join(kept[int(place)] for place in c.rng.rng.permutation(len(kept)))
    return ",".join(terms) + c.fresh(("", f"->{result}", f"->{result}"))


def _window(key: str, known: Sequence[Shape | None], *, whole: bool) -> Plain:
    image = known[0] if known else None
    if not image or not key.endswith(".kernel_shape"):
        return None
    return [*image[2:]] if whole else [1] * len(image[2:])


def _worded(c: Chooser, key: str, known: Sequence[Shape | None]) -> Plain:
    op_type, _, name = key.partition(".")
    asked = [
        *(getattr(find("", op_type), "options", lambda *_: ())(name, known)),
        *_FURTHER.get(key, ()),
    ]
    asked = [value for value in asked if isinstance(value, str) and value in c.words]
    return c.fresh(asked) if asked else None


def _further(c: Chooser, key: str, known: Sequence[Shape | None]) -> Plain:
    op_type, _, name = key.partition(".")
    if key in _FURTHER:
        options = getattr(find("", op_type), "options", lambda *_: ())(name, known)
        return c.fresh((*options, *_FURTHER[key]))
    axes = len(known[0] or ()) - 2 if known else 0
    return [c.fresh(_LISTS[name])] * axes if name in _LISTS and axes > 0 else None


_FURTHER: dict[str, Sequence[Plain]] = {
    "Resize.coordinate_transformation_mode": (
        *("pytorch_half_pixel", "half_pixel_symmetric"),
        *("tf_crop_and_resize",) * 2,
    ),
    "Resize.keep_aspect_ratio_policy": ("not_larger", "not_smaller"),
    "RNN.activations": (["ScaledTanh"],),
    "GRU.activations": (["ScaledTanh"] * 2,),
    "LSTM.activations": (["ScaledTanh"] * 3,),
}
"""Values that operators do not suggest."""

_LISTS = {"output_padding": (1,), "output_shape": (5, 6, 9)}
"""Values for each axis of an image."""

_VALUES: Table[Plain] = {
    "equations": ("Einsum.equation", lambda c, k, known: _equation(c, known)),
    "words of the guard": ("", _worded),
    "windows of all": ("", lambda c, k, known: _window(k, known, whole=True)),
    "windows of one": ("", lambda c, k, known: _window(k, known, whole=False)),
    "further values": ("", _further),
}
"""Values of attributes that authors forget, by form."""

FORMS = ("undoes", "axes beside a scalar", "alike", "types beside", *_OPERANDS, *_CONTENTS)
FORMS = tuple(dict.fromkeys((*FORMS, *_VALUES)))
"""What authors forget: models of their own have it, drawn by a generator of its own."""
