"""What the compiler says, kept: its API returns None and tells the reason only here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from onnx_passes.runtime.tensorrt.options import Verbosity

_SEVERITIES = ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE")
_ERRORS = _SEVERITIES[:2]
_KEPT: dict[Verbosity, int] = {"error": 2, "warning": 3, "info": 4, "verbose": 5}
_MOST_LINES = 200
_SOURCE = re.compile(r"\s*In \w+ at \S+:\d+\)?$")


class Log:
    """The lines that were logged, with their severity.

    Attributes:
        lines: Pairs of severity and text, the oldest first.
        listener: What TensorRT logs to.
    """

    def __init__(self, trt: ModuleType, verbosity: Verbosity = "warning") -> None:
        """Start to listen."""
        self.lines: list[tuple[str, str]] = []
        self.listener = _listener(trt, self.lines, _SEVERITIES[: _KEPT[verbosity]])

    @property
    def errors(self) -> list[str]:
        """What went wrong, in the compiler's words, without places in its own source."""
        found = [_SOURCE.sub("", text).strip() for kind, text in self.lines if kind in _ERRORS]
        return list(dict.fromkeys(found))

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(f"{kind}: {text}" for kind, text in self.lines)


def _listener(trt: ModuleType, lines: list[tuple[str, str]], kept: Sequence[str]) -> Any:
    base: Any = trt.ILogger

    class Listener(base):  # type: ignore[misc]  # the bindings are known only at run time
        def __init__(self) -> None:
            base.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity.name in kept and len(lines) < _MOST_LINES:
                lines.append((severity.name, message))

    return Listener()
