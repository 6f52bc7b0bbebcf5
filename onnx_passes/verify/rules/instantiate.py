"""Build models from a rule's pattern, until the rule fires on some of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.verify.rules.applying import apply_rule
from onnx_passes.verify.rules.arithmetic import Unsupported
from onnx_passes.verify.rules.building import Builder, CannotInstantiate
from onnx_passes.verify.rules.literals import literals
from onnx_passes.verify.rules.operands import Chooser
from onnx_passes.verify.rules.replay import Replayer, samples

_TYPES = (
    *(ir.DataType.FLOAT,) * 4,
    *(ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.UINT8),
)


def instances(
    rule: RewriteRule,
    *,
    limit: int = 24,
    attempts: int = 600,
    seconds: float = 6.0,
    seed: int = 0,
) -> Iterator[ir.Model]:
    """Yield models on which ``rule`` fires.

    Args:
        rule: The rule; its pattern is walked, and its check decides.
        limit: How many models at most, all unlike one another in types or shapes.
        attempts: How many random models are tried.
        seconds: When to give up.
        seed: Of the choices.
    """
    rng = np.random.default_rng(seed)
    numbers = literals(rule)
    seen: set[str] = set()
    deadline = time.monotonic() + seconds
    for attempt in range(attempts):
        if len(seen) >= limit or time.monotonic() > deadline:
            return
        # The common type first: most rules are about it, and others may be refused.
        dtype = _TYPES[attempt % len(_TYPES)]
        try:
            model = Builder(rule, Chooser(rng, dtype, numbers)).build()
        except (CannotInstantiate, Unsupported, OverflowError):
            continue
        key = _signature(model)
        if key not in seen and _fires(rule, model) and _runs(model):
            seen.add(key)
            yield model


def _signature(model: ir.Model) -> str:
    values = (*model.graph.inputs, *model.graph.initializers.values())
    constants = (v.const_value for v in values)
    numbers = (str(None if c is None else c.numpy().tolist()) for c in constants)
    nodes = (
        f"{n.op_type}{sorted(str(a) for a in n.attributes.values())}" for n in model.graph
    )
    return ";".join((*(f"{v.dtype}{v.shape}" for v in values), *numbers, *nodes))


def _fires(rule: RewriteRule, model: ir.Model) -> bool:
    try:
        return apply_rule(rule, model) is not None
    except Exception:
        # A rule that raises on a valid model is a finding of the caller, who applies it.
        return True


def _runs(model: ir.Model) -> bool:
    replayer = Replayer(model, model)
    feeds = next(samples(replayer.inputs, 1, special=False, seed=0))
    return replayer.runs(feeds) is None
