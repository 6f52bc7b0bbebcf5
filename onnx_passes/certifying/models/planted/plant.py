"""One form in the making: what passes look for, or something that is almost that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import onnx
from onnx import TensorProto

from onnx_passes.arrays import Array, DType
from onnx_passes.certifying.models.scope import (
    ALL,
    FLOATS,
    INTS,
    CannotAddNodeError,
    GraphScope,
    KnownValue,
    Shape,
)
from onnx_passes.plain import Plain

FLOAT = TensorProto.FLOAT
EXACT = 0.6
"""Share of forms that deviate in nothing that a guard asks for."""

COMMUTATIVE = frozenset(("Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor"))
T = TypeVar("T")


class FormBuilder:
    """Makes the nodes of a form, and deviates from it now and then.

    What means the same is varied in every form: the order of operands, and the end that an
    axis counts from. So are scalars and vectors of one, and nodes between that do nothing.
    What a guard has to notice is varied in some forms only: other numbers, axes and types,
    numbers that are wider, computed or overridable, inner values that something else reads.
    With `exact`, the form deviates in nothing that a guard asks for.
    """

    def __init__(self, scope: GraphScope, rng: np.random.Generator) -> None:
        """Begin a form."""
        self.scope = scope
        self.rng = rng
        self.exact = bool(rng.random() < EXACT)
        self.shared: set[str] = set()

    def miss(self, chance: float = 0.2) -> bool:
        """Whether to deviate here."""
        return not self.exact and bool(self.rng.random() < chance)

    def chance(self, share: float = 0.5) -> bool:
        """Whether to do something that changes no meaning."""
        return bool(self.rng.random() < share)

    def choose(self, *among: T) -> T:
        """Draw one of several that are all as good."""
        return among[int(self.rng.integers(len(among)))]

    def other(self, wanted: T, *others: T) -> T:
        """Return what is wanted, or another one where the form deviates here."""
        return self.choose(*others) if self.miss() else wanted

    def dtype(self, wanted: int = FLOAT, *, among: Sequence[int] = FLOATS) -> int:
        """Return an element type, another one where the form deviates."""
        return self.choose(*among) if self.miss(0.15) else wanted

    def batch(self) -> int | str:
        """Return a size that is often dynamic."""
        return "N" if self.chance(0.4) else int(self.rng.integers(1, 4))

    def x(
        self, dtype: int | None = None, shape: Shape | None = None, rank: int = 0
    ) -> KnownValue:
        """Return a value that is not a constant: one that is there, or an input."""
        dtype = self.dtype() if dtype is None else dtype
        if self.chance(0.4):
            try:
                return self.scope.pick(
                    lambda v: (
                        (v.dtype == dtype and v.data is None and v.rank >= rank)
                        and shape in (None, v.shape)
                    )
                )
            except CannotAddNodeError:
                pass
        if shape is None:
            least = max(rank, 1)
            sizes = [int(s) for s in self.rng.integers(2, 5, self.choose(least, least + 1))]
            shape = (self.batch(), *sizes[1:])
        return self.scope.input(dtype, shape)

    def constant(self, array: Array) -> KnownValue:
        """Return a constant; one that callers may override where the form deviates."""
        found = self.scope.constant(np.asarray(array), self.rng)
        if self.miss(0.06):
            return self.scope.overridable(found)
        return found

    def number(self, wanted: float, like: KnownValue) -> KnownValue:
        """Return a constant of the type of a value, of one element that widens nothing."""
        if self.miss(0.25):
            wanted = self.choose(wanted + 1, wanted * 1.01, -wanted, 0.0, wanted * 2)
        ones = int(self.rng.integers(0, max(like.rank, 0) + 1)) if self.chance(0.4) else 0
        if self.miss(0.1):
            ones = max(like.rank, 0) + 1
        array = np.full([1] * ones, wanted)
        if self.miss(0.1) and like.static and like.dtype in FLOATS:
            noise = 1 + 0.1 * self.rng.standard_normal(like.static[-1:])
            array = wanted * noise
        return self.constant(cast_to(array, like.dtype))

    def scalar(self, wanted: float, like: KnownValue) -> KnownValue:
        """Return a constant of the type of a value, of no dimensions."""
        if self.miss():
            wanted = self.choose(wanted + 1, -wanted, 0.0)
        return self.constant(cast_to(np.asarray(wanted), like.dtype))

    def weights(self, *shape: int, dtype: int = FLOAT) -> KnownValue:
        """Return a constant of numbers around 0, none of them odd; an input now and then."""
        if self.miss(0.15):
            return self.scope.input(dtype, shape)
        array = self.rng.standard_normal(shape)
        return self.constant(array.astype(kind_of(dtype)))

    def positive(self, *shape: int, dtype: int = FLOAT) -> KnownValue:
        """Return a constant of numbers from 0.5 to 2."""
        return self.constant(self.rng.uniform(0.5, 2, shape).astype(kind_of(dtype)))

    def ints(self, *numbers: int) -> KnownValue:
        """Return a constant vector of int64."""
        return self.constant(np.asarray(numbers, np.int64))

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from either end; another one where the form deviates."""
        if self.miss(0.15):
            axis = int(self.rng.integers(rank))
        axis %= rank
        return axis - rank if self.chance(0.3) else axis

    def op(self, operator: str, *inputs: KnownValue | None, **attributes: Plain) -> KnownValue:
        """Add a node of one output."""
        operands = list(inputs)
        if operator in COMMUTATIVE and len(operands) == 2 and self.chance():
            operands.reverse()
        (made,) = self.scope.emit(operator, operands, **attributes)
        if self.miss(0.08):
            self.shared.add(made.name)
        return self._disguised(made) if self.chance(0.03) else made

    def nodes(
        self, operator: str, *inputs: KnownValue | None, outputs: int, **given: object
    ) -> list[KnownValue]:
        """Add a node of several outputs."""
        return self.scope.emit(operator, list(inputs), outputs=outputs, **given)

    def first(
        self, operator: str, *inputs: KnownValue | None, outputs: int, **given: object
    ) -> KnownValue:
        """Return the first output of a new node. Others may be read outside of the form."""
        made, *others = self.nodes(operator, *inputs, outputs=outputs, **given)
        self.shared.update(value.name for value in others)
        return made

    def with_axes(
        self, operator: str, x: KnownValue, axes: Sequence[int], **attributes: object
    ) -> KnownValue:
        """Add a reduction, Squeeze or Unsqueeze: axes are an attribute or an input."""
        if self.scope.has_attribute(operator, "axes"):
            return self.op(operator, x, axes=list(axes), **attributes)
        return self.op(operator, x, self.ints(*axes), **attributes)

    def cast(self, x: KnownValue, to: int) -> KnownValue:
        """Add a Cast."""
        return self.op("Cast", x, to=to)

    def square(self, x: KnownValue) -> KnownValue:
        """Add a square, as a product or as a power."""
        return self.op("Mul", x, x) if self.chance() else self.op("Pow", x, self.number(2, x))

    def _disguised(self, x: KnownValue) -> KnownValue:
        """Put a node behind that does nothing, which hides the form until it is gone."""
        style = self.choose("Identity", "Cast", "Dropout", "Transpose")
        if style == "Cast":
            return self.cast(x, x.dtype)
        if style == "Dropout" and x.dtype in FLOATS:
            return self.scope.emit("Dropout", [x])[0]
        if style == "Transpose" and x.rank > 1:
            return self.scope.emit("Transpose", [x], perm=list(range(x.rank)))[0]
        return self.scope.emit("Identity", [x])[0]


Form = Callable[[FormBuilder], KnownValue]


def make_step(
    form: Form, *, sealed: bool
) -> Callable[[GraphScope, np.random.Generator], None]:
    """Return a form as a step.

    Inner values are for the form only, but for those that it shares on purpose. With `sealed`,
    no other step reads the result. Rewrites of the form may round otherwise, and steps such as
    Floor or Tan would make that difference large.
    """

    def step(scope: GraphScope, rng: np.random.Generator) -> None:
        before = {value.name for value in scope.values}
        plant = FormBuilder(scope, rng)
        result = form(plant)
        if result.name in before:
            raise CannotAddNodeError
        made = [value for value in scope.values if value.name not in before]
        kept = {value.name for value in scope.main.inputs}
        for value in made:
            if value.name in kept or value.name in plant.shared:
                continue
            if value.name != result.name or sealed:
                scope.values.remove(value)
        for value in made:
            hidden = sealed and value.name == result.name
            if hidden or (sealed and value.name in plant.shared):
                scope.seal(value)

    step.__name__ = form.__name__
    return step


def kind_of(dtype: int) -> DType:
    """Return the numpy type of an element type."""
    return onnx.helper.tensor_dtype_to_np_dtype(dtype)


def cast_to(array: Array, dtype: int) -> Array:
    """Return numbers in an element type: of integers the nearest, of floats infinity."""
    kind = kind_of(dtype)
    if dtype in INTS:
        limits = np.iinfo(kind)
        array = np.clip(array, float(limits.min), float(limits.max))
    with np.errstate(over="ignore"):
        return array.astype(kind)


__all__ = ["ALL", "FLOAT", "FLOATS", "INTS", "Form", "FormBuilder", "kind_of", "make_step"]
