"""What certify prints of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

import click

from onnx_passes.cli.certify_targets import BY_METRICS, Target
from onnx_passes.cli.printing import echo_line
from onnx_passes.plain import PlainDict
from onnx_passes.report.text import plural

_WHERE = " where the original is finite (pipelines compare NaN and infinities, too)"


def show_verdicts(target: Target, results: Sequence[PlainDict]) -> PlainDict:
    """Print the verdicts on a target, and return them as plain data.

    Args:
        target: What was certified.
        results: The verdict on each rule.
    """
    click.secho(target.name, bold=True)
    if target.problem:
        for line in f"not run: {target.problem}".splitlines():
            echo_line(f"  {line}")
    elif target.by_metrics:
        echo_line(f"  {BY_METRICS}")
    elif target.rules is None and not results:
        click.echo("  not a rewrite rule: there is nothing to prove")
    for result in results:
        echo_line(f"  {result['rule']}: {_line(result)}")
        if "counterexample" in result:
            click.echo("    " + result["counterexample"].replace("\n", "\n    "))
        for sort, text in result.get("further", ()):
            click.echo(f"    {sort}: " + text.replace("\n", "\n    "))
        if "folder" in result:
            echo_line(f"    python {result['folder']}/repro.py")
        if "test" in result:
            echo_line(f"    pytest {result['test']}")
    reason = target.problem
    if target.by_metrics:
        reason = BY_METRICS
    elif target.rules is None and not results:
        reason = "not a rewrite rule"
    return {"name": target.name, "not_run": reason, "rules": list(results)}


def _line(result: PlainDict) -> str:
    parts = [result["verdict"]]
    if result["verdict"] == "refuted" and result.get("cause"):
        parts.append(result["cause"])
    tested = result.get("tested")
    if tested and "changed" in tested:
        refused = f", {tested['refused']} refused" if tested["refused"] else ""
        models = plural(tested["models"], "random model")
        parts.append(f"{models}, {tested['changed']} changed{refused}")
    elif tested:
        parts.append(
            f"{plural(tested['models'], 'model')}, {plural(tested['firings'], 'firing')}, "
            f"types {' '.join(tested['dtypes']) or 'none'}"
        )
    if result.get("claim"):
        parts.append(f"proved: {result['claim']}")
    if result["reason"]:
        parts.append(result["reason"])
    if result["contract"]:
        loose = result["contract"] == "tolerance"
        parts.append(f"supports {result['contract']}{_WHERE if loose else ''}")
    for kind, error in (tested or {}).get("errors", {}).items():
        parts.append(f"{kind} off by at most {error['rtol']:.2g} of the largest element")
    if result.get("declared"):
        verb = "CONTRADICTS the declared" if result["disagrees"] else "declared"
        parts.append(f"{verb} {result['declared']}")
    return "; ".join(parts)
