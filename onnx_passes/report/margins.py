"""The measured errors that came nearest to their limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx_passes.report.run_report import RunReport
from onnx_passes.report.text import bound, number
from onnx_passes.verify.result import Check, OutputCheck


@dataclass(frozen=True)
class Margin:
    """The measured error that came nearest to its limit, or went furthest past it.

    Attributes:
        output: Where it was seen.
        error: The absolute error.
        limit: What was allowed there: ``atol + rtol * |expected|``, 0 under equality; None
            where it depends on an element that the report does not have.
    """

    output: str
    error: float
    limit: float | None

    @property
    def ratio(self) -> float:
        """Error over limit; above 1 the limit is broken."""
        if self.error == 0:
            return 0.0
        if self.limit is None:
            return 1.0
        return self.error / self.limit if self.limit else math.inf

    @property
    def share(self) -> str:
        """The error as a share of what was allowed, in words."""
        if self.error == 0:
            return "equal bit for bit"
        if self.limit is None:
            return "limit not recorded"
        if self.limit == 0:
            return "none was allowed"
        percent = 100 * self.ratio
        if percent > 1000:
            return f"{number(self.ratio, 2)} times the limit"
        return f"{number(percent, 2) if percent < 100 else round(percent)} % of the limit"

    @property
    def told(self) -> str:
        """The error and its share, in words."""
        return f"{bound(self.error)}, {self.share}" if self.error else self.share


def margin(checks: Iterable[Check]) -> Margin | None:
    """Return the margin closest to, or furthest past, its limit."""
    margins = [margin_of(o, region=c.scope == "region") for c in checks for o in c.outputs]
    return max((m for m in margins if m), key=lambda m: (m.ratio, m.error), default=None)


def all_checks(report: RunReport) -> Iterator[Check]:
    """Return every check of a run, those of the end last."""
    for done in report.passes:
        yield from done.checks
    yield from report.final


def element(text: str | None) -> float | None:
    """Return the number that an element's text spells, if it is a real number."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def margin_of(output: OutputCheck, *, region: bool) -> Margin | None:
    """Return the margin of one output, or None if no error was measured.

    Args:
        output: The comparison.
        region: Whether it is of a value inside a model.
    """
    expected, actual = element(output.expected), element(output.actual)
    error = output.max_abs
    if expected is not None and actual is not None:
        if math.isfinite(expected) and math.isfinite(actual):
            # The texts are rounded; where they look equal only the saved maximum decides.
            error = abs(actual - expected) or error or 0.0
        elif str(expected) != str(actual):
            error = math.inf
    if error is None:
        return None
    limit: float | None = output.atol
    if output.limit is not None:
        limit = output.limit
    elif output.rtol:
        limit = None if expected is None else output.atol + output.rtol * abs(expected)
        # Inside a model the limit may follow the largest element, which was not recorded.
        if limit is not None and region and error > limit:
            limit = None
    return Margin(output.output, error, limit)
