"""Measure the gate on wrong and right passes by kind.

python -m benchmarks.faults.kinds --half seen [--inputs adversarial] [--case NAME]
python -m benchmarks.faults.kinds --half held-back --witness
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

import onnx_passes
from benchmarks.faults.kinds_cases import CASES
from benchmarks.faults.kinds_form import Array, Case

ROOT = Path(__file__).parents[2]
GROUPS = ("failed", "named", "silent", "no verdict")
"""What the gate did: refused it; said that something is not verified, or rests on a
precondition; verified it without a word; ended in another error."""


@dataclass(frozen=True)
class Result:
    """What one run made of a case.

    Attributes:
        group: One of GROUPS.
        line: First line of the report.
        reason: What it said besides.
        seconds: Wall time of the command.
    """

    group: str
    line: str
    reason: str
    seconds: float


def outputs(model: onnx.ModelProto, feed: dict[str, Array]) -> list[Any]:
    """Run a model without optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feed))


def distance(expected: list[Any], actual: list[Any]) -> float:
    """Return the largest difference of two results, as a share of the largest element."""
    worst = 0.0
    for a, b in zip(expected, actual, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return np.inf
        x, y = a.astype(np.float64), b.astype(np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if not np.isfinite(np.where(same, 0, x - y)).all():
            return np.inf
        most = np.abs(np.where(np.isfinite(x), x, 0)).max(initial=1e-30)
        worst = max(worst, float(np.abs(np.where(same, 0, x - y)).max(initial=0) / most))
    return worst


def witness(case: Case) -> str:
    """Return what is wrong with a case itself: "" if its witness shows what it claims."""
    try:
        before = case.model()
        expected = outputs(before, case.feed) if case.feed else []
        run = onnx_passes.run(before, [case.cls], verify=False)
    except Exception as error:
        return f"does not run: {type(error).__name__} {error}"[:300]
    if not any(done.changed for done in run.report.passes):
        return f"changes nothing: {run.verdict} {run.error}"
    if case.feed is None:
        return ""
    try:
        far = distance(expected, outputs(run.proto(), case.feed))
    except Exception as error:
        return "" if case.wrong else f"the result does not run: {error}"
    tight = not any("tolerance" in str(contract).lower() for contract in case.cls.contracts())
    if case.wrong:
        return "" if far > (0 if tight else 2e-6) else f"is right: {far:.2g}"
    half = any(v.type.tensor_type.elem_type == 10 for v in before.graph.input)
    return "" if far <= (2e-3 if half else 1e-5) else f"is wrong: {far:.2g}"


def run(case: Case, inputs: str | None) -> Result:
    """Run a case through the command line, as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(case.model(), Path(folder, "model.onnx"))
        command = [sys.executable, "-m", "onnx_passes", "model.onnx", "-o", "out.onnx"]
        command += [case.name, "-s", "imports=[benchmarks.faults.kinds_cases]"]
        command += ["--json", "report.json"]
        if inputs:
            command += ["-s", f"verify.inputs={inputs}"]
        start = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=400,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result("no verdict", "timeout", "", time.monotonic() - start)
        seconds = time.monotonic() - start
        lines = (done.stdout + done.stderr).splitlines()
        found = Path(folder, "report.json")
        report = json.loads(found.read_text()) if found.exists() else {}
    starts = ("FAILED", "VERIFIED", "NOT VERIFIED", "PARTLY", "UNCHANGED")
    line = next((s for s in lines if s.startswith(starts)), lines[0] if lines else "")
    line = f"{done.returncode} {line}"
    said = report.get("preconditions", []), report.get("not_verified", [])
    reason = "; ".join(str(item) for items in said for item in items)
    if " FAILED" in line:
        wanted = ("seen on", "wrong", "#", "says", "where")
        reason = " | ".join(s.strip() for s in lines[1:] if s.strip().startswith(wanted))
        return Result("failed", line, reason[:500], seconds)
    if " VERIFIED" not in line and "UNCHANGED" not in line and "PARTLY" not in line:
        return Result("no verdict", line, " | ".join(lines)[:500], seconds)
    warned = any(word in text for text in lines for word in ("precondition", "warning"))
    group = "named" if reason or warned or "PARTLY" in line or "NOT VER" in line else "silent"
    if not reason:
        reason = " | ".join(report.get("notes", []))
    return Result(group, line, reason[:500], seconds)


def table(results: list[tuple[Case, Result]]) -> str:
    """Return the numbers by kind, as Markdown."""
    rows: dict[tuple[str, bool], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for case, result in results:
        rows[case.kind, case.wrong][result.group] += 1
    head = f"| kind | cases | {' | '.join(GROUPS)} |"
    lines = [head, "|---" * (len(GROUPS) + 2) + "|"]
    for (kind, wrong), row in rows.items():
        title = f"{kind} ({'wrong' if wrong else 'right'})"
        cells = " | ".join(str(row[group]) for group in GROUPS)
        lines.append(f"| {title} | {sum(row.values())} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Run one half, or look at its witnesses alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=("seen", "held-back"), required=True)
    parser.add_argument("--inputs", choices=("adversarial",))
    parser.add_argument("--case", help="run only the cases whose names hold this")
    parser.add_argument("--witness", action="store_true", help="run no gate")
    asked = parser.parse_args()
    cases = [c for c in CASES if c.half == asked.half and (asked.case or "") in c.name]
    results = []
    for case in cases:
        if asked.witness:
            fault = witness(case)
            print(
                f"{'BAD ' if fault else 'fine'} {case.kind}: {case.name} {fault}", flush=True
            )
            continue
        result = run(case, asked.inputs)
        results.append((case, result))
        claim = "wrong" if case.wrong else "right"
        print(
            f"{case.kind}: {case.name} | {claim} | {result.line} | {result.group} | "
            f"{result.seconds:.1f} s | {result.reason}",
            flush=True,
        )
    if not asked.witness:
        print("\n" + table(results))


if __name__ == "__main__":
    main()
