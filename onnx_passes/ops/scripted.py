"""Operators that are written as onnxscript functions, or for the reference evaluator.

A module of a user adds one by the decorator :func:`register`; every model that calls it is run
with its function, which is written into files. ::

    from onnx_passes.ops import op, register

    @register(domain="acme")
    def Twice(x):
        return op.Add(x, x)
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import onnx_ir as ir
from onnx.reference.op_run import OpRun
from onnxscript import opset19 as op
from onnxscript import script
from onnxscript.values import Op, Opset

from onnx_passes.ops import DOMAIN
from onnx_passes.ops.bodies import CUSTOM, attach, attach_to_model

__all__ = ["domain", "inject_custom_ops", "named", "op", "register"]

domain = Opset(DOMAIN, 1)
"""The domain of our own operators, for onnxscript."""


def register(function: Callable[..., Any] | None = None, *, domain: str = DOMAIN) -> Any:
    """Make an operator of a Python function that onnxscript translates, as a decorator.

    Args:
        function: The function; its name is that of the operator. Or a class that onnx's
            reference evaluator takes (``onnx.reference.op_run.OpRun``), which names its
            domain: the engine ``reference`` computes the operator by it, and no other.
        domain: Domain of the operator.

    Returns:
        The onnxscript function, which others may call; the class as it is.
    """
    if function is None:
        return partial(register, domain=domain)
    if isinstance(function, type) and issubclass(function, OpRun):
        attach.register_reference(function)
        return function
    made: Any = script(Opset(domain, 1), default_opset=op)(function)
    attach.register_function(domain, made.name, made.to_function_proto)
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
    for proto in attach.registered_functions():
        function = ir.serde.deserialize_function(proto)
        model.functions.setdefault(function.identifier(), function)
    model.opset_imports.setdefault(DOMAIN, domain.version)
    attach_to_model(model, (CUSTOM,))
    return model
