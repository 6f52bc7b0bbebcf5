"""ONNX Runtime's exceptions as errors of this package."""

from __future__ import annotations

import re

from onnx_passes.errors import EngineError, UnsupportedModelError

_PREFIX = re.compile(r"\[ONNXRuntimeError\] : -?\d+ : [A-Z_]+ : ")
_SOURCE = re.compile(
    r"(Exception during initialization: )?/\S+\.(cc|h|hpp):\d+ .*?\) (?=\S)", re.DOTALL
)
_NODE = re.compile(r"""(?:Node \("|[Nn]ode with name '|Name:'|node:? ?['"])([^"'()]+)["']""")
_UNSUPPORTED = re.compile(
    r"NOT_IMPLEMENTED|Could not find an implementation|No Op registered"
    r"|is not a registered function/op|not currently registered or supported"
    r"|Unsupported model IR version|only \*guarantees\* support"
    r"|[Uu]nsupported (data|tensor|element)? ?type|No opset import for domain",
)
_HELP = "another engine may have it: the reference engine knows every operator and type"


def translate(error: Exception) -> EngineError:
    """Return what ``error`` means to a user, with ONNX Runtime's message cleaned up."""
    text = str(error)
    message = " ".join(_SOURCE.sub("", _PREFIX.sub("", text)).split())
    found = _NODE.search(text)
    where = f"node {found[1]}" if found else None
    if type(error).__name__ == "NotImplemented" or _UNSUPPORTED.search(text):
        return UnsupportedModelError(message, where=where, help=_HELP)
    return EngineError(message, where=where)
