"""How the rewrite driver's cost grows: with nodes and changes, not with nodes times rules."""

from __future__ import annotations

import statistics
import time
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule, RewriteRuleSet

from onnx_passes.passes.rewriting import rewrite

RUNS = 3
OPERATORS = ("Relu", "Neg", "Abs", "Exp", "Sin", "Cos", "Tanh", "Sqrt", "Ceil", "Floor")


def tables() -> list[str]:
    """Return the table."""
    return [
        f"## The rewrite driver (medians of {RUNS}, microseconds a node)",
        "",
        "A chain of unary operators, one node in ten a pair `Relu(Relu(x))`. One rule merges "
        "these pairs; the others do not match. *Other roots*: their patterns end in operators "
        "that the model has not, as most rules of a library do on most models. *Same roots*: "
        "they end in the ten operators of the chain, so that each node has a tenth of the "
        "rules to try. Beside it the time of onnxscript's `RewriteRuleSet` with these rules, "
        "as a multiple; it sweeps once and is not a fixpoint.",
        "",
        "| nodes | rules | rewrites | other roots | onnxscript | same roots | onnxscript |",
        "|---|---|---|---|---|---|---|",
        *(_row(nodes, rules) for nodes in (1000, 10000) for rules in (1, 10, 50, 150)),
    ]


def _chain(nodes: int) -> ir.Model:
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([8]))
    inputs, body = [value], []
    for index in range(nodes):
        pair = index % 20 < 2
        operator = "Relu" if pair else OPERATORS[1 + index % (len(OPERATORS) - 1)]
        node = ir.Node("", operator, [value], name=f"n{index}")
        value = node.outputs[0]
        value.name = f"v{index}"
        body.append(node)
    value.type, value.shape = inputs[0].type, inputs[0].shape
    graph = ir.Graph(inputs, [value], nodes=body, opset_imports={"": 20}, name="chain")
    return ir.Model(graph, ir_version=10)


def _rules(count: int, *, same_roots: bool) -> list[RewriteRule]:
    found = [_rule("Relu", "Relu", "merge-relus")]
    for index in range(count - 1):
        present, absent = OPERATORS[index % len(OPERATORS)], f"Absent{index}"
        outer, inner = (present, absent) if same_roots else (absent, present)
        found.append(_rule(outer, inner, f"rule-{index}"))
    return found


def _rule(outer: str, inner: str, name: str) -> RewriteRule:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, outer)(getattr(op, inner)(x))

    def replacement(op: Any, x: Any) -> Any:
        return getattr(op, outer)(x)

    return RewriteRule(pattern, replacement, name=name)


def _row(nodes: int, count: int) -> str:
    cells = []
    applied = 0
    for same_roots in (False, True):
        rules = _rules(count, same_roots=same_roots)
        ours, theirs = [], []
        for _ in range(RUNS):
            model = _chain(nodes)
            start = time.perf_counter()
            applied = len(rewrite(model, rules))
            ours.append(time.perf_counter() - start)
            model = _chain(nodes)
            start = time.perf_counter()
            RewriteRuleSet(rules).apply_to_model(model)
            theirs.append(time.perf_counter() - start)
        mine, other = statistics.median(ours), statistics.median(theirs)
        cells += [f"{mine / nodes * 1e6:.1f}", f"x {other / mine:.1f}"]
    return f"| {nodes} | {count} | {applied} | {' | '.join(cells)} |"
