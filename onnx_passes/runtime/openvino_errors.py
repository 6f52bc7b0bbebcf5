"""OpenVINO's exceptions as errors of this package."""

from __future__ import annotations

import re

from onnx_passes.errors import EngineError, UnsupportedModelError

_NOISE = re.compile(
    r"Exception from src/\S+:\d+:"
    r"|Check '.{0,999}?' failed at src/\S+:\d+:"
    r"|FrontEnd API failed with \w+:"
    r"|Model wasn't fully converted\."
    r"|Failed operations detailed log:"
    r"|-- \S+ with a message:"
    r"|While validating (ONNX )?node '[^']*'( with friendly_name '[^']*')?:"
    r"|To facilitate the conversion of unsupported operations.*"
    r"|Encountered unconverted operation\(s\).*"
    r"|Summary: .*"
    r"|\[[A-Z_]+\] "
    r"|Unexpected: ",
    re.DOTALL,
)
_NODE = re.compile(
    r"<Node\((?P<op>\w+)\): (?P<made>[^>]*)>|Operation name: (?P<name>\S+)"
    r"|node with name '?(?P<runs>[^\s']+)'?"
)
_LACKS = re.compile(r"No conversion rule found for operations: (?P<names>[^\n]*)")
_UNSUPPORTED = re.compile(r"(not|n't|un|no) ?support|not implemented", re.IGNORECASE)
_HELP = "another engine may have it: onnxruntime, or the reference engine"


def translate(error: Exception, *, reading: bool = False) -> EngineError:
    """Return what an exception of OpenVINO means to a user.

    Args:
        error: What OpenVINO raised: a RuntimeError, whatever went wrong.
        reading: Whether the model was being read. What is refused then is an operator, or a
            form of one, that OpenVINO lacks.

    Returns:
        UnsupportedModelError where it lacks something, else EngineError; with its own message
        less the places in its source, and the node where the message names one.
    """
    text = str(error)
    if lacks := _LACKS.search(text):
        names = lacks["names"].strip()
        return UnsupportedModelError(f"OpenVINO has no conversion for {names}", help=_HELP)
    node = _NODE.search(text)
    where = None
    if node is not None:
        name = node["made"] or node["name"] or node["runs"]
        where = f"  --> node {name}" + (f" ({node['op']})" if node["op"] else "")
    message = " ".join(_NOISE.sub(" ", text).split()) or " ".join(text.split())
    if reading or _UNSUPPORTED.search(text):
        return UnsupportedModelError(message, where=where, help=_HELP)
    return EngineError(message, where=where)
