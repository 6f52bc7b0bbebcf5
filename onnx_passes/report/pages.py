"""Self-contained pages from templates, with a chart of errors; text of a model is escaped.

Positions in the chart are in percent, so it takes the width that it gets, and its text keeps
its size.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from onnx_passes.report.summary import limits
from onnx_passes.report.text import duration, ends, number, plural, printable

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(
    template: str, title: str, style: str, scripts: Sequence[str] = (), **data: object
) -> str:
    """Return a page whose policy allows its own style and scripts, and no request."""
    from markupsafe import Markup

    sheet = read_template(style)
    policy = (
        f"default-src 'none'; style-src {_digest(sheet)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    if scripts:
        policy += f"; script-src {' '.join(map(_digest, scripts))}"
    # Browsers read style and script as they are; nothing here comes from a model.
    own = {"policy": Markup(policy), "style": Markup(sheet), "scripts": map(Markup, scripts)}
    return environment().get_template(template).render(title=title, **own, **data)


@cache
def environment() -> Environment:
    """Return the templates: they escape, show hidden characters, and refuse unknown names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("onnx_passes.report"),
        autoescape=True,
        finalize=_shown,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters |= {
        "duration": duration,
        "ends": ends,
        "limits": limits,
        "number": number,
        "plural": plural,
    }
    return found


def read_template(name: str) -> str:
    """Return the text of a file in the folder of the templates."""
    return resources.files("onnx_passes.report").joinpath("templates", name).read_text("utf-8")


def _shown(value: object) -> object:
    """Return a value as a page shows it; markup, which the templates made, stays."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(value) if type(value) is str else value


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# The log axis; left of it is a place for zero.
_LEFT, _RIGHT, _ZERO, _BEYOND = 10.0, 97.0, 2.5, 99.0
_MOST_TICKS = 6


@dataclass(frozen=True)
class Dot:
    """A row of the error plot; its label may come from the model.

    The tone is "good", "bad", "warn" or "plain".
    """

    label: str
    error: float
    limit: float | None
    told: str
    tone: str
    href: str | None = None


class DotChart:
    """Errors and their limits on one log axis over whole decades."""

    def __init__(self, rows: Sequence[Dot]) -> None:
        """Find the ends of the axis, and its ticks: places in percent and their texts."""
        self.rows = rows
        values = [v for row in rows for v in (row.error, row.limit or 0.0)]
        logs = [math.log10(v) for v in values if 0 < v < math.inf]
        self._low = math.floor(min(logs, default=-8.0))
        self._high = max(math.ceil(max(logs, default=0.0)), self._low + 1)
        step = math.ceil((self._high - self._low) / _MOST_TICKS)
        decades = range(self._low, self._high + 1, step)
        self.ticks = [(_ZERO, "0"), *((self._at(d), number(float(f"1e{d}"))) for d in decades)]

    def place(self, value: float) -> float:
        if value == 0:
            return _ZERO
        return self._at(math.log10(value)) if math.isfinite(value) else _BEYOND

    def _at(self, exponent: float) -> float:
        share = (exponent - self._low) / (self._high - self._low)
        return _LEFT + share * (_RIGHT - _LEFT)
