"""Rewrites that are right and might be taken for wrong: they round, reorder and reshape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.faults.case import Source, array, attribute, constant, known
from benchmarks.faults.models import LLAMA, RESNET, TRANSFORMER, blocks
from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.contracts import Metric
from onnx_passes.passes import registry
from onnx_passes.passes.base import Op, Pass, RewriteRulePass, Transformation, Value, Var
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Verdict


class _Rule(Transformation, RewriteRulePass):
    """A rule as a user writes it."""


@passes.verify.equality
class DropIdentities(_Rule):
    """Remove an Identity."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Identity(x)

    def rewrite(self, op: Op, x: Value) -> Any:
        return x


@passes.verify.equality
class DropCasts(_Rule):
    """Remove a Cast to the type that a value has."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(x, _outputs=["out"])

    def check(self, context: Any, x: Value, out: Value) -> bool:
        producer = x.producer()
        return (
            producer is not None
            and producer.op_type == "Cast"
            and attribute(x, "to") == attribute(out, "to")
        )

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Identity(x)


@passes.verify.equality
class SwitchMaximum(_Rule):
    """Write a Relu as a maximum with 0."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Relu(x)

    def rewrite(self, op: Op, x: Value) -> Any:
        return op.Max(x, constant(op, 0, np.float32))


@passes.verify.tolerance
class SquareByProduct(_Rule):
    """Write ``x ** 2`` as ``x * x``."""

    def pattern(self, op: Op, x: Var, two: Var) -> Var:
        return op.Pow(x, two)

    def check(self, context: Any, x: Value, two: Value) -> bool:
        exponent = array(two)
        return exponent is not None and bool(np.all(exponent == 2))

    def rewrite(self, op: Op, x: Value, two: Value) -> Any:
        return op.Mul(x, x)


@passes.verify.tolerance
class ScaleIntoWeight(_Rule):
    """Write ``x @ w`` as ``(x @ (w * 0.3)) / 0.3``."""

    def pattern(self, op: Op, x: Var, weight: Var) -> Var:
        return op.MatMul(x, weight, _outputs=["out"])

    def check(self, context: Any, x: Value, weight: Value, out: Value) -> bool:
        return array(weight) is not None and weight.is_initializer()

    def rewrite(self, op: Op, x: Value, weight: Value, out: Value) -> Any:
        scaled = constant(op, known(weight) * np.float32(0.3))
        return op.Div(op.MatMul(x, scaled), constant(op, 0.3, np.float32))


@passes.verify.tolerance
class SigmoidWritten(_Rule):
    """Write a Sigmoid by Exp."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Sigmoid(x)

    def rewrite(self, op: Op, x: Value) -> Any:
        one = constant(op, 1, np.float32)
        return op.Div(one, op.Add(one, op.Exp(op.Neg(x))))


@passes.verify.tolerance
class GemmFused(_Rule):
    """Fuse MatMul and Add to Gemm."""

    def pattern(self, op: Op, x: Var, weight: Var, bias: Var) -> Var:
        return op.Add(op.MatMul(x, weight), bias)

    def rewrite(self, op: Op, x: Value, weight: Value, bias: Value) -> Any:
        return op.Gemm(x, weight, bias)


@passes.verify.tolerance
class SumsReassociated(_Rule):
    """Write ``(a + b) + c`` as ``a + (b + c)``."""

    def pattern(self, op: Op, a: Var, b: Var, c: Var) -> Var:
        return op.Add(op.Add(a, b), c)

    def check(self, context: Any, a: Value, b: Value, c: Value) -> bool:
        return array(b) is None and array(c) is not None

    def rewrite(self, op: Op, a: Value, b: Value, c: Value) -> Any:
        return op.Add(a, op.Add(b, c))


@passes.verify.tolerance
class GeluFused(_Rule):
    """Fuse a GELU that is written out."""

    def pattern(self, op: Op, x: Var, root: Var, one: Var, half: Var) -> Var:
        return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half)

    def rewrite(self, op: Op, x: Value, root: Value, one: Value, half: Value) -> Any:
        return op.Gelu(x)


@dataclass(frozen=True)
class Kept:
    """A correct pass, and what the gate made of it.

    Attributes:
        name: Name of the pass.
        model: Name of the model.
        contract: What it promises.
        applications: Number of rewrites.
        accused: Number of rewrites that the gate named or, where it named none, refused.
        verdict: Its verdict, and why.
    """

    name: str
    model: str
    contract: str
    applications: int
    accused: int
    verdict: str


_DENSE = blocks(
    "dense layers",
    "t# = MatMul(x, w)  y# = Add(t#, b)",
    x="float[8,16] x, float[16,4] w, float[4] b",
    y="float[8,4]",
)
_SUMS = blocks(
    "sums",
    "t# = Add(x, z)  y# = Add(t#, k)",
    x="float[4,4] x, float[4,4] z",
    constants="float k = {0.1}",
)
_GELUS = blocks(
    "GELUs",
    "d# = Div(x, r)  e# = Erf(d#)  a# = Add(e#, one)  m# = Mul(x, a#)  y# = Mul(m#, h)",
    constants="float r = {1.4142135}, float one = {1}, float h = {0.5}",
)
METRIC = 0.5
"""Largest root mean square error that a pass with a metric may cause."""

CORRECT: tuple[tuple[type[_Rule], Source], ...] = (
    (DropIdentities, TRANSFORMER),
    (DropCasts, TRANSFORMER),
    (SwitchMaximum, RESNET),
    (SquareByProduct, TRANSFORMER),
    (SquareByProduct, LLAMA),
    (ScaleIntoWeight, TRANSFORMER),
    (ScaleIntoWeight, LLAMA),
    (SigmoidWritten, LLAMA),
    (GemmFused, _DENSE),
    (SumsReassociated, _SUMS),
    (GeluFused, _GELUS),
)


def keep(cls: type[Pass], source: Source, *, full: bool) -> Kept:
    """Run a correct pass, verified.

    A pass with a metric is held to the root mean square error, which it keeps.
    """
    registry.register()(cls)
    data: dict[str, Any] = {"passes": [cls.name], "reproducers": False}
    if any(isinstance(contract, Metric) for contract in cls.contracts()):
        data["verify"] = {"metrics": {"rmse": [0, METRIC]}}
    config = config_from_data(data)
    run = run_pipeline(source.model(full=full), config)
    done = run.report.passes[0]
    refused = run.error is not None or done.verdict is Verdict.FAILED
    accused = max(1, len(done.culprits)) if refused else 0
    verdict = f"{done.verdict}: {run.error}" if refused else str(done.verdict)
    count = len(done.rewrites)
    return Kept(cls.name, source.name, done.contract, count, accused, verdict)
