"""ONNX Runtime's exceptions as errors of this package."""

from __future__ import annotations

import re

from onnx_passes.errors import EngineError, UnsupportedModelError

# Messages hold names of nodes, so that lengths have limits: none is searched to its end twice.
_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : -?\d+ : [A-Z_]+ : "
    r"|Non-zero status code returned while running \S+ node\. Name:'[^']*' Status Message: "
    r"|Exception during (initialization|loading): "
    r"|/\S{1,300}\.(cc|h|hpp|cu):\d+ [^\n]{0,1999}?\)"
    r"(::<lambda\(.{0,999}?\)>)?( const)?( \[with [^\]]{0,999}\])? "
    r"|\b\w+\.(cc|h):\d+ \w+ "
    r"|Fatal error: "
    r"|\[with [^\]]{0,999}\] "
)
_NODE = re.compile(
    r"""Name:'(?P<run>[^']+)'|Node:(?P<init>\S{1,999}) """
    r"""|Node,? \("(?P<load>[^"]+)"|[Nn]ode with name '(?P<kernel>[^']+)'"""
    r"""|[( ]node:'(?P<ep>[^']+)'|in node \((?P<type>[^)]+)\)"""
)
_RUNNING = re.compile(r"while running (?P<type>\S{1,999}) node\. Name:'(?P<name>[^']*)'")
_UNSUPPORTED = re.compile(
    r"NOT_IMPLEMENTED|Could not find an implementation|Failed to find kernel"
    r"|No Op registered|is not a registered function/op|No opset import for domain"
    r"|not currently registered or supported|(is|are) not supported"
)
_TOO_NEW = re.compile(
    r"Unsupported model IR version: (?P<ir>\d+), max supported IR version: (?P<max_ir>\d+)"
    r"|Opset (?P<opset>\d+) is under development.{0,300}?domain (?P<domain>\S+) is till opset "
    r"(?P<max_opset>\d+)",
    re.DOTALL,
)
_TAKEN = "Attempt to replace the existing tensor"
_TAKEN_HELP = (
    "the model has a tensor of a name that a fusion of ONNX Runtime gives to one of its own, "
    "as models have that ONNX Runtime saved: the pass rename-engine-names renames it"
)
_HELP = "another engine may have it: the reference engine has all standard operators and types"
_FOREIGN = re.compile(
    r"(?!ai\.onnx(\.ml)?:)\w[\w.]*:\w+\(-?\d+\) is not a registered function/op"
)
_FOREIGN_HELP = (
    "give it a function by onnx_passes.ops.register, or name the library that has it under "
    "onnxruntime.custom_ops"
)


def translate(error: Exception) -> EngineError:
    """Return what an exception of ONNX Runtime means to a user.

    Args:
        error: What ONNX Runtime raised; its classes share no base.

    Returns:
        UnsupportedModelError if it lacks an operator, kernel, type, opset or IR version, else
        EngineError. It holds ONNX Runtime's message less the places in its source, and the
        node if the message names one.
    """
    text = str(error)
    if found := _TOO_NEW.search(text):
        return _too_new(found)
    message = " ".join(_NOISE.sub("", text).split())
    node = _NODE.search(text)
    name = next((group for group in node.groups() if group), None) if node else None
    for running in _RUNNING.finditer(text):  # the last one is the innermost
        name = running["name"] or f"of type {running['type']}"
    where = f"  --> node {name}" if name else None
    if type(error).__name__ == "NotImplemented" or _UNSUPPORTED.search(text):
        help_ = _FOREIGN_HELP if _FOREIGN.search(text) else _HELP
        return UnsupportedModelError(message, where=where, help=help_)
    return EngineError(message, where=where, help=_TAKEN_HELP if _TAKEN in text else None)


def _too_new(found: re.Match[str]) -> UnsupportedModelError:
    if found["ir"]:
        return UnsupportedModelError(
            f"the model has IR version {found['ir']}, and this ONNX Runtime knows versions up "
            f"to {found['max_ir']}",
            help=f"save the model with IR version {found['max_ir']}, or update onnxruntime",
        )
    return UnsupportedModelError(
        f"the model imports opset {found['opset']} of {found['domain']}, and this ONNX Runtime"
        f" knows opsets up to {found['max_opset']}",
        help=f"convert the model to opset {found['max_opset']}, or update onnxruntime",
    )
