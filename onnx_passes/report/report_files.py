"""Put a report on disk whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from onnx_passes.errors import UsageError


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file beside its place and rename it, so that no reader sees half of it.

    Folders that lack are made.

    Args:
        text: The content, written as UTF-8.
        path: The file.

    Raises:
        UsageError: The file cannot be written.
    """
    target = Path(path)
    scratch: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=target.parent, prefix=".", delete=False
        ) as file:
            scratch = file.name
            file.write(text)
        # A temporary file is private; a report is as readable as any new file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(scratch, 0o666 & ~umask)
        os.replace(scratch, target)
    except OSError as error:
        if scratch is not None:
            with suppress(OSError):
                os.unlink(scratch)
        raise UsageError(
            f"cannot write the report {target}: {error.strerror or error}",
            help="give a path in a folder that you may write to",
        ) from error
