"""Operators of our own domain that are written as onnxscript functions.

A module of a user adds one by the decorator :func:`register`; every model that calls it is run
with its function. ::

    from onnx_passes.ops import op, register

    @register
    def Twice(x):
        return op.Add(x, x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript import opset19 as op
from onnxscript import script
from onnxscript.values import Op, Opset

from onnx_passes.ops import DOMAIN
from onnx_passes.ops.bodies import CUSTOM, attach_to_model
from onnx_passes.ops.bodies.attach import register_function, registered_functions

__all__ = ["domain", "inject_custom_ops", "named", "op", "register"]

domain = Opset(DOMAIN, 1)
"""The domain of our own operators, for onnxscript."""


def register(function: Callable[..., Any]) -> Any:
    """Make an operator of a Python function that onnxscript translates.

    Args:
        function: The function; its name is that of the operator.

    Returns:
        The onnxscript function, which others may call.
    """
    made: Any = script(domain, default_opset=op)(function)
    register_function(DOMAIN, made.name, made.to_function_proto)
    return made


def named(name: str) -> Op:
    """Return an operator of our own domain, which onnxscript functions may call."""
    return Op(domain, name)


def inject_custom_ops(model: ir.Model) -> ir.Model:
    """Add the bodies of operators of our own domain to a model.

    Engines of this package do not need them; others do. Functions that :func:`register` made
    are added whether or not a node calls them.

    Args:
        model: Changed in place.

    Returns:
        The same model.
    """
    for proto in registered_functions():
        function = ir.serde.deserialize_function(proto)
        model.functions.setdefault(function.identifier(), function)
    model.opset_imports.setdefault(DOMAIN, domain.version)
    attach_to_model(model, (CUSTOM,))
    return model
