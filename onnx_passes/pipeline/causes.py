"""Why a value differs: rounding, another function, or lost digits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onnx_passes.report.text import are, bound


class Cause(StrEnum):
    """Why a value differs."""

    ROUNDING = "rounding"
    FUNCTION = "another function"
    LOSS = "lost digits"
    UNKNOWN = "unknown"
    TOO_LARGE = "too large to evaluate in double precision"


@dataclass(frozen=True)
class DerivedFinding:
    """Why a value differs.

    Attributes:
        cause: The cause.
        apart: Largest difference of the two sides in double precision.
        undecided: Elements that lie so near to a step that rounding decides.
    """

    cause: Cause
    apart: float = 0.0
    undecided: int = 0

    @property
    def text(self) -> str:
        """What was found, in one clause."""
        match self.cause:
            case Cause.FUNCTION:
                return (
                    f"in double precision both sides are {bound(self.apart)} apart, which "
                    "rounding of constants does not explain"
                )
            case Cause.TOO_LARGE:
                return "it takes too many operations in double precision"
            case Cause.LOSS:
                return "it is farther from float64 than rounding of the original's nodes is"
            case Cause.ROUNDING if self.undecided:
                return f"{are(self.undecided, 'element')} within rounding of a step"
            case Cause.ROUNDING:
                return "rounding: in double precision both sides agree"
        return ""
