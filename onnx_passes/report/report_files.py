"""Put a report on disk whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from onnx_passes.errors import UsageError
from onnx_passes.model.save import pending


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file; no reader sees half of it. Folders that lack are made.

    Args:
        text: The content, written as UTF-8.
        path: The file.

    Raises:
        UsageError: The file cannot be written.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with pending(target) as file:
            file.write(text.encode())
            file.publish(target)
    except OSError as error:
        raise UsageError(
            f"cannot write the report {target}: {error.strerror or error}",
            help="give a path in a folder that you may write to",
        ) from error
