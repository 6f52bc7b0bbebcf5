"""Bodies of branches, loops and functions, filled by a few steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from onnx_passes.verify.models import elementwise_steps, planted, reducing_steps, shaping
from onnx_passes.verify.models.element_types import FULL
from onnx_passes.verify.models.inferring import UnfitError
from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.scope import GraphScope

_BODY = (*elementwise_steps.STEPS, *shaping.STEPS, *reducing_steps.STEPS, *planted.STEPS)


def make_body(scope: GraphScope, word: str) -> GraphScope:
    """Return the scope of a body, which sees the values around it.

    Args:
        scope: The scope of the node that has the body.
        word: Which body it is; its first letter is part of names.
    """
    prefix = f"{scope.prefix}{word[0]}{scope.step}_"
    seed = scope.seed + len(prefix) * 7919 + ord(word[0])
    return GraphScope(seed, scope.opset, scope, scope.step, prefix, scope.precision)


def compute_like(body: GraphScope, rng: np.random.Generator, value: KnownValue) -> KnownValue:
    """Compute something of the type of a value, by a few steps inside a body.

    Args:
        body: The scope of the body.
        rng: Draws the steps.
        value: The value whose type and shape the result has.
    """
    first = 1000 * (body.step + 1)
    for turn in range(int(rng.integers(1, 4))):
        inner = body.begin(first + turn)
        among = _BODY if body.precision == FULL else (*_BODY, *planted.low_steps(body) * 8)
        step = among[int(inner.integers(len(among)))]
        marks = [(part, len(part)) for part in _parts(body)]
        try:
            step(body, inner)
        except UnfitError:
            for part, length in marks:
                del part[length:]
    body.begin(first + 999)
    local = {v.name for v in (*body.values, *body.sealed)}
    body.values += body.sealed
    try:
        found = body.pick(
            lambda v: v.name in local and v.dtype == value.dtype and v.shape == value.shape
        )
    except UnfitError:
        found = value
    (result,) = body.emit("Identity", [found])
    return result


def _parts(body: GraphScope) -> list[list[Any]]:
    """Return what a step that fits nowhere may have added to."""
    own: list[list[Any]] = [body.nodes, body.values, body.initializers, body.sealed]
    main = body.main
    if main is not body:
        own += [main.inputs, main.values, main.initializers]
    return own


def make_graph(
    body: GraphScope, name: str, inputs: Sequence[KnownValue], outputs: Sequence[KnownValue]
) -> onnx.GraphProto:
    """Return a body as a graph.

    Args:
        body: The scope of the body.
        name: Name of the graph.
        inputs: Its inputs.
        outputs: Its outputs.
    """

    def infos(values: Sequence[KnownValue]) -> list[onnx.ValueInfoProto]:
        return [onnx.helper.make_value_info(v.name, body.type_of(v)) for v in values]

    return onnx.helper.make_graph(
        body.nodes, name, infos(inputs), infos(outputs), initializer=body.initializers
    )
