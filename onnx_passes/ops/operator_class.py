"""Operators: one class describes one, with its algebra, breakpoints and inputs as data.

A ``Composition`` is evaluated where places are known and rounding is bounded.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import onnx_ir as ir

from onnx_passes.ops.call import Call, Operands, Tensor
from onnx_passes.ops.domains.blocks import Blocks, Node
from onnx_passes.ops.domains.intervals import Interval
from onnx_passes.ops.input_hints import Choices, Known, Operand, Use, ValueHint
from onnx_passes.ops.semantics import Elements, Misfit, Opaque, Unsupported, is_float
from onnx_passes.ops.versions import VersionChange

Result: TypeAlias = Tensor | tuple[Tensor | None, ...]
MAIN = frozenset({"", "ai.onnx"})
"""Names of the main domain."""


def kind_of(dtype: ir.DataType) -> str:
    """Return the kind of a type: ``b`` for booleans, ``i`` for integers, ``f`` for floats."""
    if dtype == ir.DataType.BOOL:
        return "b"
    return "i" if dtype.is_integer() else "f"


@dataclass(frozen=True)
class Element:
    """A number with a meaning for an operator, such as the neutral one.

    Attributes:
        value: The number. ``-0.0`` is plain 0 for integers; infinities are the ends of an
            integer type, and -1 means all bits set.
        kinds: Kinds of types for which it holds bit for bit, as ``kind_of`` names them.
    """

    value: float
    kinds: str = "bif"


@dataclass(frozen=True, kw_only=True)
class Algebra:
    """Laws of an operator, by the index of the operand that they are about.

    All hold bit for bit in the arithmetic of the operand's type, except where said.

    Attributes:
        commutative: Whether the order of the operands does not matter.
        associative: Kinds of types for which grouping does not matter; over the reals it
            does not matter for floats either if ``f`` is among them.
        neutral: Operands that leave the others as they are.
        absorbing: Operands that decide the result alone.
        idempotent: Whether ``f(f(x)) = f(x)``; for two operands, whether ``f(x, x) = x``.
        involution: Whether ``f(f(x)) = x``.
        even: Whether ``f(-x) = f(x)``.
        fixes: Operators whose results this one returns as they are.
        inverse: Operator that undoes this one in its first operand, over the reals.
        monotone: Operands in which the result never falls (1) or never rises (-1).
        linear: Operands in which it is linear over the reals, the others fixed.
        affine: Operands in which it is linear plus something that does not depend on them.
    """

    commutative: bool = False
    associative: str = ""
    neutral: Mapping[int, Element] = field(default_factory=dict)
    absorbing: Mapping[int, Element] = field(default_factory=dict)
    idempotent: bool = False
    involution: bool = False
    even: bool = False
    fixes: tuple[str, ...] = ()
    inverse: str | None = None
    monotone: Mapping[int, int] = field(default_factory=dict)
    linear: tuple[int, ...] = ()
    affine: tuple[int, ...] = ()


class Operator:
    """One operator. Subclasses are named as it is, and are known from then on.

    Methods raise ``Unsupported`` for what they do not describe: a form of the operator, an
    arithmetic, or a size that is not known.

    Attributes:
        domain: Its domain.
        op_type: Its name; that of the class, unless the class names another.
        since: The first opset that this class describes.
        algebra: Its laws.
        steers: Operands that decide sizes or places: shapes, axes, indices.
        moves: Operands whose elements the results consist of, computed by nothing.
        exact: Operands whose constants bound the results element by element.
        in_range: Results that hold sizes or places, whatever the operands are.
        divides: Whether a division of integers by zero ends the engine's process.
        reads_sizes: Whether it reads the sizes of its operand alone.
        chooses: Operands among whose elements those of the results are, after comparisons.
        view: Whether the results are the operand under another shape, in the same order.
        joins: Whether the result is the operands, one behind the other.
        free: Whether it computes no number by itself.
        one_attribute: Whether a node has exactly one of its attributes.
        images: Whether its first operand is an image: a batch, channels and axes of places.
        wants: Attributes that engines ask for, though the standard does not.
        computed_in: The widest type that engines compute in, if it is not the operand's.
        exact_bits: Bits of an integer operand up to which ONNX Runtime's results are those of
            the standard, where they are not for all: it computes in another type.
        cuts: Whether blocks are cut where the template of a proof is.
        sums: Whether blocks are added up in the order of an axis.
        changes: What versions changed that schemas do not say, by version.
        elementwise: Whether each element of the result depends on the elements of the
            operands at the same place, after broadcasting, and on nothing else.
    """

    domain: ClassVar[str] = ""
    op_type: ClassVar[str] = ""
    since: ClassVar[int] = 1
    algebra: ClassVar[Algebra] = Algebra()
    steers: ClassVar[tuple[int, ...]] = ()
    moves: ClassVar[Sequence[int]] = ()
    exact: ClassVar[tuple[int, ...]] = ()
    chooses: ClassVar[Sequence[int]] = ()
    view: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    free: ClassVar[bool] = False
    one_attribute: ClassVar[bool] = False
    images: ClassVar[bool] = False
    wants: ClassVar[tuple[str, ...]] = ()
    in_range: ClassVar[tuple[int, ...]] = ()
    divides: ClassVar[bool] = False
    reads_sizes: ClassVar[bool] = False
    computed_in: ClassVar[ir.DataType | None] = None
    exact_bits: ClassVar[int | None] = None
    elementwise: ClassVar[bool] = False
    cuts: ClassVar[bool] = False
    sums: ClassVar[bool] = False
    changes: ClassVar[Mapping[int, VersionChange]] = {}

    def __init_subclass__(
        cls, *, abstract: bool = False, named: str = "", **kwargs: object
    ) -> None:
        """Register the class, unless it is what several operators share.

        ``named`` is the operator's name, if another domain has one of the same name.
        """
        super().__init_subclass__(**kwargs)
        if not abstract:
            cls.op_type = named or cls.__name__
            versions = _OPERATORS.setdefault((cls.domain, cls.op_type), [])
            versions.append(cls())
            versions.sort(key=lambda operator: operator.since)

    def __repr__(self) -> str:
        return f"{self.domain}::{self.op_type}" if self.domain else self.op_type

    def evaluate(self, call: Call) -> Result:
        """Return the results of one call, in its arithmetic; None for one not described."""
        raise Unsupported(f"the operator {self.op_type}")

    def blocks(self, node: Node) -> Blocks | tuple[Blocks, ...]:
        """Return the results on tensors cut into blocks of any size."""
        raise Unsupported(f"the operator {self.op_type}")

    def suggest(self, c: Choices, index: int, known: Known) -> Operand | None:
        """Return a plausible operand for a template, or None for data that broadcasts.

        A guide, not a specification: what does not fit is thrown away when the template is
        evaluated.
        """
        return None

    def options(self, name: str, known: Known) -> Sequence[object]:
        """Return values that an attribute may have; none if any fits. None leaves it out."""
        return ()

    def admits(self, use: Use) -> ValueHint | None:
        """Return what an operand must be for the node to mean something; None for anything."""
        return None

    def breakpoints(self, use: Use) -> tuple[float, ...]:
        """Return the numbers of an operand at which pieces of the operator meet."""
        return ()

    def monotone_in(self, node: ir.Node) -> Mapping[int, int]:
        """Return operands in which a node never falls (1) or never rises (-1)."""
        return self.algebra.monotone

    def adds_axes(self, count: int) -> int:
        """Return how many axes the result has more, if a node names so many."""
        return 0

    def fill_of(self, node: ir.Node) -> float | None:
        """Return the number that is among the elements that a node moves, if any."""
        return None

    def bounds(self, operands: Operands) -> Interval | None:
        """Return the interval of the results where that is a matter of its own."""
        return None

    def representatives(self, operands: Operands) -> Sequence[Sequence[int]]:
        """Return shapes of elements that represent all of each operand."""
        raise Unsupported(f"the range of {self.op_type}")

    def cost(self, operands: Operands) -> int | None:
        """Return how many scalar operations a node takes; None where that is not known."""
        return None

    @property
    def evaluates(self) -> bool:
        """Whether it is described what the operator computes."""
        return type(self).evaluate is not Operator.evaluate


_OPERATORS: dict[tuple[str, str], list[Operator]] = {}


@functools.cache
def _load() -> None:
    """Import the descriptions, which makes them known; whoever asks need not do so."""
    importlib.import_module("onnx_passes.ops.families")


def find(domain: str, op_type: str, opset: int | None = None) -> Operator | None:
    """Return the description of an operator, or None; by default for the latest opset."""
    _load()
    versions = _OPERATORS.get(("" if domain in MAIN else domain, op_type), [])
    fitting = [o for o in versions if opset is None or o.since <= opset]
    return fitting[-1] if fitting else None


def operator_of(node: ir.Node, opset: int | None = None) -> Operator | None:
    """Return the description of a node's operator, or None; by default the latest opset's."""
    return find(node.domain, node.op_type, opset)


def operators() -> Iterator[Operator]:
    """Yield the description of each operator, the latest version of each."""
    _load()
    for versions in _OPERATORS.values():
        yield versions[-1]


class Composition(Operator, abstract=True):
    """An operator of many steps; where these are not known, a function of its operands.

    ``rounds`` says that it computes numbers, which kernels round in ways of their own.
    """

    rounds: ClassVar[bool] = True

    def computed(self, call: Call) -> Result:
        """Return the results of one call."""
        raise NotImplementedError

    def evaluate(self, call: Call) -> Result:
        if self.rounds and not call.semantics.expands:
            raise Opaque(f"the rounding of {self.op_type}")
        try:
            return self.computed(call)
        except Misfit:
            raise
        except Unsupported as gap:
            raise Opaque(str(gap)) from gap


def measured_by(call: Call, found: Tensor, terms: Elements, factor: float = 1.0) -> Tensor:
    """Return sums [...] whose kernel is wrong relative to sizes of their terms [..., n]."""
    a = call.primitives(found.dtype)

    def size() -> Elements:
        sizes = call.semantics.map(lambda t: a.mul(a.abs(t), factor), terms)
        return call.semantics.along(a.total, sizes)

    if not is_float(found.dtype):
        return found
    return Tensor(call.semantics.kernel(found.data, found.dtype, size), found.dtype)
