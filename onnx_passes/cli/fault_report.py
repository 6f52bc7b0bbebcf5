"""Write down a fault of the program itself, so that it can be reported."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from onnx_passes import __version__

_USED = ("onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy")


def write_fault(error: BaseException, words: Sequence[str]) -> str | None:
    """Write versions, command and traceback to a temporary file; return its path, if any."""
    lines = [
        f"onnx-passes {__version__}, Python {platform.python_version()}",
        ", ".join([platform.platform(), *_versions()]),
        f"words: {list(words)!r}",
        "",
        *traceback.format_exception(error),
    ]
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            errors="backslashreplace",
            prefix="onnx-passes-fault-",
            suffix=".txt",
            delete=False,
        ) as file:
            file.write("\n".join(line.rstrip("\n") for line in lines) + "\n")
        return file.name
    return None


def _versions() -> list[str]:
    found = []
    for name in _USED:
        if name.replace("-", "_") in sys.modules:
            with suppress(PackageNotFoundError):
                found.append(f"{name} {version(name)}")
    return found
