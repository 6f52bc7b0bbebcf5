"""Pages from the templates: self-contained, and what comes from a model is never markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from onnx_passes.report.console_failure import limits
from onnx_passes.report.text import duration, ends, number, plural, printable

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(
    template: str, title: str, style: str, scripts: Sequence[str] = (), **data: object
) -> str:
    """Return a page whose policy allows its own style and scripts, and no request.

    Args:
        template: Name of the template, which extends ``base.html``.
        title: The page's title.
        style: Name of the style sheet.
        scripts: Texts of its scripts.
        data: What the template shows.
    """
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
