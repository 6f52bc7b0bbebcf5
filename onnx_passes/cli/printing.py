"""Print lines that hold names of a model."""

from __future__ import annotations

import sys

import click

from onnx_passes.report.text import one_line


def echo_line(text: str, *, err: bool = False, color: str | None = None) -> None:
    r"""Print one line; control characters of names are shown as ``\x1b`` or ``\n``.

    Args:
        text: The line, without its end.
        err: Whether it goes to stderr.
        color: Its colour on a terminal.
    """
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = one_line(text, encoding)
    click.echo(shown if color is None else click.style(shown, fg=color), err=err)
