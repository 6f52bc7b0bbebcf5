"""Print lines that hold names of a model."""

from __future__ import annotations

import re
import sys
from typing import TextIO

import click

from onnx_passes.report.text import one_line, terminal_width, wrapped


def echo_line(text: str, *, err: bool = False, color: str | None = None) -> None:
    r"""Print one line; control characters of names are shown as ``\x1b`` or ``\n``.

    On a terminal it breaks between words, and continues below its last column.

    Args:
        text: The line, without its end.
        err: Whether it goes to stderr.
        color: Its colour on a terminal.
    """
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for line in fitted(one_line(text, encoding), stream):
        click.echo(line if color is None else click.style(line, fg=color), err=err)


def fitted(line: str, stream: TextIO | None) -> list[str]:
    """Break a line where the terminal of a stream ends; elsewhere it stays one."""
    width = terminal_width(stream)
    if width is None:
        return [line]
    columns = [found.end() for found in re.finditer(r"\S {2,}(?=\S)", line)]
    own = len(line) - len(line.lstrip())
    hang = max((at for at in columns if at <= 0.6 * width), default=own + 2)
    return wrapped(line, width, hang)
