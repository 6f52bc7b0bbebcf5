"""What operands a pattern needs before its guard can admit a model: shapes that match.

A pattern says which nodes there are; what fits them (queries and keys of one width, a target
of Reshape that is that of a group) only its guard knows. A hint says it as data, for the
generator alone: the guard still decides, every hint is left out now and then, and sizes are
drawn anew for each model, so that near misses are made as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.verify.rules.operands import Chooser, Operand

_KEPT = 0.97
"""How often what a hint says of one operand is followed."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One operand.

    Attributes:
        dims: Its shape, or with ``known`` its integers: terms with spaces between, each a
            product or quotient of numbers and of names of sizes, as in ``b h*d 2*e``.
        known: Whether ``dims`` are its elements.
        fill: What a constant is filled with, one number for all elements; for integers, an
            infinity is the end of their type.
        mixed: What each element of a constant is drawn from.
        doubled: Whether the second half of a constant along the last axis is the first again.
        along: The axis along which elements of known integers count, whose shape ``dims`` is.
        dtype: Its type; None for that of the model.
        node: An operator that computes it.
        of: The variables that this operator reads; without one, the variable that it is.
        attributes: Of the operator.
    """

    dims: str = ""
    known: bool = False
    fill: tuple[float, ...] = ()
    mixed: tuple[float, ...] = ()
    doubled: bool = False
    along: int | None = None
    dtype: ir.DataType | None = None
    node: str = ""
    of: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


Specs: TypeAlias = tuple[Spec, ...]


def data(*dims: str) -> Specs:
    """Return operands of the model's type, of any of several shapes."""
    return tuple(Spec(d) for d in dims)


def ints(*values: str) -> Specs:
    """Return constants of known integers."""
    return tuple(Spec(v, known=True) for v in values)


def filled(dims: str, *numbers: float, dtype: ir.DataType | None = None) -> Specs:
    """Return a constant of one number."""
    return (Spec(dims, fill=numbers, dtype=dtype),)


@dataclass(frozen=True)
class Hint:
    """What the operands and attributes of one rule may be.

    Attributes:
        operands: By name of a variable, or, for inputs that the pattern leaves open, by name
            (or operator) of the node, a dot, and the index of the input.
        attributes: By operator, a dot, and the name; None among the values leaves it out.
        types: Element types that every second model is of.
        since: The first opset that the guard admits.
        cases: Operands and attributes that belong together, one case for each model.
    """

    operands: Mapping[str, Specs]
    attributes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    types: tuple[ir.DataType, ...] = ()
    since: int = 1
    cases: tuple[Hint, ...] = ()

    def joined(self, case: Hint) -> Hint:
        """Return what this hint says together with one of its cases."""
        return replace(
            self,
            operands={**self.operands, **case.operands},
            attributes={**self.attributes, **case.attributes},
            cases=(),
        )


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

    def attribute(self, op_type: str, name: str) -> tuple[Any, ...]:
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

    def content(self, spec: Spec, operand: Operand) -> npt.NDArray[Any] | None:
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
