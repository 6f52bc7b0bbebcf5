"""Steps that call local functions."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from onnx_passes.verify.models.body_steps import compute_like
from onnx_passes.verify.models.inferring import UnfitError
from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.scope import GraphScope


def call(scope: GraphScope, rng: np.random.Generator) -> None:
    """A call of a local function with an attribute."""
    kind = scope.precision
    # Its nodes have no Casts around them.
    dtype = kind.chosen(TensorProto.FLOAT) if kind.emulated else TensorProto.FLOAT
    value = scope.pick(lambda v: v.dtype == dtype and v.shape is not None)
    name = f"{scope.prefix}F{scope.step}"
    alpha = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT)
    alpha.ref_attr_name = "slope"
    first = onnx.helper.make_node("LeakyRelu", ["X"], ["A"])
    first.attribute.append(alpha)
    second = onnx.helper.make_node(str(rng.choice(["Add", "Mul", "Sub"])), ["A", "X"], ["Y"])
    imports = [onnx.helper.make_opsetid("", scope.opset)]
    function = onnx.helper.make_function(
        "local", name, ["X"], ["Y"], [first, second], imports, ["slope"]
    )
    scope.main.functions.append(function)
    made = scope.name()
    slope = float(rng.choice([0.0, 0.5, 1.0]))
    node = onnx.helper.make_node(
        name, [value.name], [made], f"n{made}", domain="local", slope=slope
    )
    scope.add(node, [KnownValue(made, value.dtype, value.shape)])


def call_of_steps(scope: GraphScope, rng: np.random.Generator) -> None:
    """A call of a local function of any steps, its constants as nodes."""
    value = scope.pick(lambda v: v.shape is not None and v.data is None)
    name = f"{scope.prefix}G{scope.step}"
    seed = scope.seed + 104729
    body = GraphScope(seed, scope.opset, None, scope.step, f"{name}_", scope.precision)
    argument = KnownValue(body.name(), value.dtype, value.shape)
    body.values.append(argument)
    result = compute_like(body, rng, argument)
    if body.inputs:
        raise UnfitError  # a function has no inputs but its own
    constants = [
        onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
        for tensor in body.initializers
    ]
    imports = [onnx.helper.make_opsetid("", scope.opset)]
    nodes = [*constants, *body.nodes]
    function = onnx.helper.make_function(
        "local", name, [argument.name], [result.name], nodes, imports
    )
    scope.main.functions.append(function)
    made = scope.name()
    node = onnx.helper.make_node(name, [value.name], [made], f"n{made}", domain="local")
    scope.add(node, [KnownValue(made, result.dtype, result.shape)])


def uncalled(scope: GraphScope, rng: np.random.Generator) -> None:
    """A function that nobody calls."""
    name = f"{scope.prefix}U{scope.step}"
    node = onnx.helper.make_node(str(rng.choice(["Abs", "Neg", "Exp"])), ["X"], ["Y"])
    imports = [onnx.helper.make_opsetid("", scope.opset)]
    function = onnx.helper.make_function("local", name, ["X"], ["Y"], [node], imports)
    scope.main.functions.append(function)
