"""How the caller of a model calls it after a pass changed its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx_ir as ir

Port: TypeAlias = Callable[[str, Any], tuple[str, Any]]
"""Takes the name of an input or output and its value, and returns both as they are there."""


@dataclass(frozen=True)
class InterfaceMap:
    """What becomes of inputs and outputs, said without a graph, so that it can be checked.

    The new model on ``inputs(x)`` must give ``outputs`` of what the old one gives on
    ``back(inputs(x))``.

    Attributes:
        inputs: From an input of the old model to that of the new one; may round.
        back: From an input of the new model to what the old one sees of it.
        outputs: From an output of the old model to that of the new one.
        wrap: Gives a model with the old interface the new one, in place.
    """

    inputs: Port
    back: Port
    outputs: Port
    wrap: Callable[[ir.Model], None]
