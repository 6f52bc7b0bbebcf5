"""The three contracts, and the decorators that declare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, overload

ClassT = TypeVar("ClassT", bound=type[object])

_ATTRIBUTE = "__contracts__"
READS_ONLY = "reads only"
"""What reports have in place of a contract for passes that change nothing."""


@dataclass(frozen=True, slots=True)
class Equality:
    """Values are equal bit for bit; NaN equals NaN, and -0 equals 0.

    Attributes:
        at: Which values: all that a rewrite replaces ("values"), or the outputs of the model
            alone ("outputs"), where a pass changes values inside on purpose.
    """

    at: Literal["values", "outputs"] = "values"

    def __str__(self) -> str:
        return "equality" if self.at == "values" else "equality(at=outputs)"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Every float output is close; everything else is equal.

    Attributes:
        rtol: Relative tolerance, or None for the default of the output's dtype.
        atol: Absolute tolerance, or None for the default of the output's dtype.
    """

    rtol: float | None = None
    atol: float | None = None

    def __str__(self) -> str:
        given = [f"{k}={v:g}" for k in ("rtol", "atol") if (v := getattr(self, k)) is not None]
        return f"tolerance({', '.join(given)})" if given else "tolerance"


@dataclass(frozen=True, slots=True)
class Metric:
    """The metrics of the pipeline stay in their ranges.

    Attributes:
        names: The metrics that matter to this pass; empty for all that the pipeline has.
    """

    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"metric({', '.join(self.names)})" if self.names else "metric"


Contract: TypeAlias = Equality | Tolerance | Metric


def contracts_of(cls: type[object]) -> tuple[Contract, ...]:
    """Return the contracts declared on a class or inherited, outermost decorator first."""
    declared: tuple[Contract, ...] = getattr(cls, _ATTRIBUTE, ())
    return declared


def weakest(parts: Iterable[Sequence[Contract]]) -> tuple[Contract, ...]:
    """Return what several passes promise as one: nothing that any of them does not promise.

    If one declares none, there is no joint promise.
    """
    declared = list(parts)
    if not all(declared):
        return ()
    every = [contract for contracts in declared for contract in contracts]
    named = [contract.names for contract in every if isinstance(contract, Metric)]
    names = tuple(dict.fromkeys(n for each in named for n in each)) if all(named) else ()
    found: list[Contract] = [Metric(names)] if named else []
    if any(all(isinstance(c, Metric) for c in contracts) for contracts in declared):
        return tuple(found)
    if limits := [contract for contract in every if isinstance(contract, Tolerance)]:
        rtol, atol = [t.rtol for t in limits], [t.atol for t in limits]
        return (Tolerance(_widest(rtol), _widest(atol)), *found)
    outputs = Equality("outputs")
    return (outputs if outputs in every else Equality(), *found)


def _widest(limits: Iterable[float | None]) -> float | None:
    return max((limit for limit in limits if limit is not None), default=None)


def _declare(cls: ClassT, contract: Contract) -> ClassT:
    # Own declarations stack; a class that declares any does not add to its base's.
    own: tuple[Contract, ...] = vars(cls).get(_ATTRIBUTE, ())
    setattr(cls, _ATTRIBUTE, (contract, *own))
    return cls


@overload
def equality(cls: ClassT) -> ClassT: ...
@overload
def equality(*, at: Literal["values", "outputs"]) -> Callable[[ClassT], ClassT]: ...
def equality(
    cls: ClassT | None = None, *, at: Literal["values", "outputs"] = "values"
) -> ClassT | Callable[[ClassT], ClassT]:
    """Declare that a pass keeps every value bit for bit.

    Args:
        cls: The pass, where the decorator is used without arguments.
        at: "outputs" for a pass that means to change values inside, and keeps the outputs.

    Raises:
        ValueError: ``at`` is neither.
    """
    if at not in ("values", "outputs"):
        raise ValueError(f"verify.equality(at={at!r}): at is 'values' or 'outputs'")
    if cls is not None:
        return _declare(cls, Equality())
    return lambda cls: _declare(cls, Equality(at))


@overload
def tolerance(cls: ClassT) -> ClassT: ...
@overload
def tolerance(
    *, rtol: float | None = None, atol: float | None = None
) -> Callable[[ClassT], ClassT]: ...
def tolerance(
    cls: ClassT | None = None, *, rtol: float | None = None, atol: float | None = None
) -> ClassT | Callable[[ClassT], ClassT]:
    """Declare that a pass keeps float outputs close, and all others equal.

    Args:
        cls: The pass, if the decorator has no arguments.
        rtol: Relative limit; None for the default of the type.
        atol: Absolute limit; None for the default of the type.
    """
    if cls is not None:
        return _declare(cls, Tolerance())
    return lambda cls: _declare(cls, Tolerance(rtol, atol))


@overload
def metric(cls: ClassT, /) -> ClassT: ...
@overload
def metric(*names: str) -> Callable[[ClassT], ClassT]: ...
def metric(*args: ClassT | str) -> ClassT | Callable[[ClassT], ClassT]:
    """Declare that a pass keeps the pipeline's metrics, or those named, in their ranges."""
    names = tuple(arg for arg in args if isinstance(arg, str))
    for arg in args:
        if not isinstance(arg, str):
            return _declare(arg, Metric())
    return lambda cls: _declare(cls, Metric(names))
