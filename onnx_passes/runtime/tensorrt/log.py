"""What the compiler says, kept: its API returns None and gives the reason only here."""

from __future__ import annotations

import os
import re
from types import ModuleType

from onnx_passes.runtime.tensorrt.binding_types import TrtMember
from onnx_passes.runtime.tensorrt.bindings import make_listener
from onnx_passes.runtime.tensorrt.built_layers import MARK
from onnx_passes.runtime.tensorrt.engine_options import Verbosity
from onnx_passes.runtime.user_output import VARIABLE

_SEVERITIES = ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE")
_ERRORS = _SEVERITIES[:2]
_KEPT: dict[Verbosity, int] = {"error": 2, "warning": 3, "info": 4, "verbose": 5}
_MOST_LINES = 200
_TOLD_LINES: dict[Verbosity, int] = {"error": 0, "warning": 10, "info": 40, "verbose": 200}
_SOURCE = re.compile(r"In \w+ at \S+:\d+\)?$")
_STDERR = 2


class BuildLog:
    """The lines that were logged, with their severity.

    Attributes:
        lines: Pairs of severity and text, the oldest first. If there are many, the oldest that
            are not errors are dropped.
        listener: What TensorRT logs to.
        layers: The last list of layers that a builder logged, at whatever verbosity.
    """

    def __init__(self, trt: ModuleType, verbosity: Verbosity = "warning") -> None:
        """Start to listen."""
        self.lines: list[tuple[str, str]] = []
        self.layers = ""
        self._verbosity: Verbosity = verbosity
        self._kept = _SEVERITIES[: _KEPT[verbosity]]

        def log(self_: object, severity: TrtMember, message: str) -> None:
            self._keep(severity.name, message)

        self.listener = make_listener(trt.ILogger, log)

    def begin(self) -> None:
        """Forget what was logged about something else."""
        self.lines.clear()

    @property
    def errors(self) -> list[str]:
        """What went wrong, in the compiler's words, without places in its own source."""
        found = [_SOURCE.sub("", text).strip() for kind, text in self.lines if kind in _ERRORS]
        return list(dict.fromkeys(found))

    @property
    def text(self) -> str | None:
        """The last lines, errors among them, as the excerpt of an error; None for none."""
        count = _TOLD_LINES[self._verbosity]
        kept = [f"{kind}: {text}" for kind, text in self.lines][-count:] if count else []
        return "\n".join(f"  | {line}" for line in kept) or None

    def _keep(self, severity: str, message: str) -> None:
        if message.startswith(MARK):
            self.layers = message
        if severity not in self._kept:
            return
        if severity in _ERRORS and VARIABLE in os.environ:
            # In a child, stderr is a file that its parent quotes if the process dies next.
            os.write(_STDERR, f"{severity}: {message}\n".encode())
        if len(self.lines) >= _MOST_LINES:
            spare = (i for i, (kind, _) in enumerate(self.lines) if kind not in _ERRORS)
            if (index := next(spare, None)) is None:
                return  # errors alone, and the first ones say the most
            del self.lines[index]
        self.lines.append((severity, message))
