"""Which operands and attributes a hint gives to one model.

The guard still decides: every hint is left out now and then, and sizes are drawn anew for each
model, so that near misses are made as well.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.input_hints import Operand
from onnx_passes.passes.hints import Hint, Hints, Spec
from onnx_passes.passes.registry import is_known, lookup
from onnx_passes.verify.rules.plausible_operands import Chooser

_KEPT = 0.97
"""How often what a hint says of one operand is followed."""


def hint_of(name: str | None) -> Hint | None:
    """Return the hint of a rule.

    Args:
        name: That of its pass, with its own behind it in brackets.
    """
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
        """Whether the hint says what an attribute is.

        Args:
            op_type: The operator.
            name: Name of the attribute.
        """
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
        """Return the value that an attribute may have, alone in a tuple; else nothing.

        Args:
            op_type: The operator.
            name: Name of the attribute.
        """
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
        """Return the numbers of a constant; None where the hint leaves them open.

        Args:
            spec: What the hint says of the operand.
            operand: The operand, with shape and type.
        """
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
