"""What a user's own code prints in a child process reaches the stderr of the parent.

All else that a child prints goes to a file, because compilers print much that nobody reads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

VARIABLE = "_ONNX_PASSES_STDERR"
"""Holds, in a child, the descriptor of the parent's stderr; empty if the parent has none."""


def own_stderr() -> list[int]:
    """Return a copy of this process' stderr to hand to a child; none if it is closed."""
    try:
        return [os.dup(2)]
    except OSError:
        return []


@contextlib.contextmanager
def forward_output() -> Iterator[None]:
    """Let what is printed inside reach the user, in a child process as well."""
    descriptor = os.environ.get(VARIABLE, "")
    if not descriptor:
        yield
        return
    with (
        open(int(descriptor), "w", closefd=False, errors="replace") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        yield
