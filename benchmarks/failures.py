"""What it costs to name the wrong rewrite of a failed pass, against one inference."""

from __future__ import annotations

import statistics
import time

import onnx_ir as ir

from benchmarks.models import transformer
from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Var
from onnx_passes.passes.registry import discover
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine

RUNS = 3


def tables() -> list[str]:
    """Return the table."""
    discover()
    _register()
    model = ir.from_proto(transformer())
    second = (node.inputs[1] for node in model.graph if node.op_type == "Add")
    weights = model.graph.initializers
    names = [str(v.name) for v in second if v is not None and v.name in weights]
    first, inference = _inference(model)
    places = (0, len(names) // 2)
    found = [_failure(model, names[i], seconds) for i in places for seconds in (0, 20)]
    rows = [
        f"| {name} | {rewrites} | {total:.2f} | {smaller} s | {total / first:.1f} | "
        f"{total / inference:.0f} |"
        for name, rewrites, total, smaller in found
    ]
    return [
        f"## A wrong rewrite named (medians of {RUNS})",
        "",
        "One bias of the 12-layer transformer times 1.01. The time of verification beyond",
        "that of the same pass without a fault: every rewrite scored, the guilty one left",
        "out, the rest checked again, the reproducer written, made smaller for as long",
        f"as the limit says at most. A first inference (session and run) takes {first:.2f} s,",
        f"another one {inference:.3f} s.",
        "",
        "| bias | rewrites | localising (s) | limit for making smaller | / first inference "
        "| / inference |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _register() -> None:
    @passes.verify.tolerance()
    @passes.register()
    class BenchWrongBias(Transformation, RewriteRulePass):
        """Write additions of a weight as sums, one of them wrongly."""

        wrong: str = ""

        def pattern(self, op: Op, x: Var, w: Var) -> Var:
            return op.Add(x, w)

        def rewrite(self, op: Op, x: Var, w: Var) -> Var:
            if w.name == self.wrong:
                w = op.Mul(w, op.Constant(value_float=1.01))
            return op.Sum(x, w)


def _inference(model: ir.Model) -> tuple[float, float]:
    engine = OnnxRuntimeEngine(prepacking=False)
    (feeds,) = generate(model, samples=1)
    firsts, others = [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        with engine.prepare(model) as session:
            session.run(feeds)
            firsts.append(time.perf_counter() - start)
            start = time.perf_counter()
            session.run(feeds)
            others.append(time.perf_counter() - start)
    return statistics.median(firsts), statistics.median(others)


def _failure(model: ir.Model, wrong: str, seconds: int) -> tuple[str, int, float, int]:
    """Return the bias, the number of rewrites, and the time beyond a run that has no fault."""
    times = []
    for _ in range(RUNS):
        spent = []
        for name in ("", wrong):
            given = ["reproducers=out/failures", "on_failure=rollback", "reference.samples=1"]
            given.append(f"limits.reproducer_seconds={seconds}")
            config = default_config(given, [f"bench-wrong-bias{{wrong={name!r}}}"])
            (report,) = run_pipeline(model.clone(), config).report.passes
            spent.append(report.verify_seconds)
            assert bool(name) == bool(report.culprits)
            if name:
                (blame,) = report.blame
                assert name in " ".join(blame.nodes)
        times.append(spent[1] - spent[0])
    return wrong, len(report.rewrites), statistics.median(times), seconds


if __name__ == "__main__":
    print("\n".join(tables()))
