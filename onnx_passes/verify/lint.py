"""Everything that is wrong, or looks wrong, about a model, found in one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.scores import blocks, kind_of, widen
from onnx_passes.errors import EngineError, EngineUnavailableError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_graphs
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.verify.alone import alone, name_of, untyped
from onnx_passes.verify.checker import complaints
from onnx_passes.verify.onnx_inference import infer_types
from onnx_passes.verify.well_formed import check_structure

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class LintFinding:
    """One finding.

    Attributes:
        severity: Whether the model is wrong, or looks wrong.
        rule: What was looked for.
        where: The node or value; empty for the whole model.
        message: What was found, one sentence.
    """

    severity: Severity
    rule: str
    where: str
    message: str

    def as_dict(self) -> PlainDict:
        """Return what ``--json`` prints."""
        return asdict(self)


def lint(model: ir.Model, engine: Engine | None = None) -> list[LintFinding]:
    """Look for faults: the checker's, each node's on its own, and suspicious values.

    Args:
        model: The model; it is not changed. Its float weights are read.
        engine: Asked to load each node by itself; None to leave that out.
    """
    found = [LintFinding("error", "structure", "", text) for text in check_structure(model)]
    if not found:
        found += [
            LintFinding("error", "inference", "", text)
            for text in complaints(model, full=True)
        ]
    for graph in all_graphs(model):
        found += _values(graph)
    found += _inputs(model)
    if engine is not None:
        found += _nodes(model, engine)
    return list(dict.fromkeys(found))


def sarif(findings: list[LintFinding], path: str) -> PlainDict:
    """Return findings as SARIF 2.1.0, one run, each with the node as logical location.

    Args:
        findings: The findings.
        path: The file of the model.
    """
    rules = sorted({finding.rule for finding in findings})
    results = []
    for finding in findings:
        place: PlainDict = {
            "physicalLocation": {"artifactLocation": {"uri": path.replace("\\", "/")}}
        }
        if finding.where:
            place["logicalLocations"] = [{"fullyQualifiedName": finding.where}]
        results.append(
            {
                "ruleId": finding.rule,
                "level": finding.severity,
                "message": {"text": finding.message},
                "locations": [place],
            }
        )
    driver = {"name": "onnx-passes", "rules": [{"id": rule} for rule in rules]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _inputs(model: ir.Model) -> Iterator[LintFinding]:
    for value in model.graph.inputs:
        name = str(value.name)
        if not value.uses() and not value.is_graph_output():
            yield LintFinding(
                "warning", "unused-input", name, f"nothing reads the input {name!r}"
            )
        if value.dtype == ir.DataType.DOUBLE:
            yield LintFinding("warning", "dtype", name, f"the input {name!r} is float64")
        if value.shape is None:
            yield LintFinding(
                "warning", "dynamic-shape", name, f"the rank of input {name!r} is not declared"
            )
        elif any(not isinstance(d, int) and d.value is None for d in value.shape):
            yield LintFinding(
                "warning",
                "dynamic-shape",
                name,
                f"the input {name!r} has dimensions without a name",
            )


def _values(graph: ir.Graph) -> Iterator[LintFinding]:
    for value in graph.initializers.values():
        name, tensor = str(value.name), value.const_value
        if not (value.uses() or value.is_graph_input() or value.is_graph_output()):
            yield LintFinding("warning", "unused-weight", name, f"nothing reads {name!r}")
        if tensor is None or tensor.dtype == ir.DataType.STRING:
            continue
        array = tensor.numpy()
        if kind_of(array.dtype) not in ("float", "complex"):
            continue
        if tensor.dtype == ir.DataType.DOUBLE:
            yield LintFinding("warning", "dtype", name, f"the weight {name!r} is float64")
        nan = sum(int(np.isnan(widen(block)).sum()) for _, (block,) in blocks(array))
        if nan:
            yield LintFinding("warning", "nan", name, f"{nan} elements of {name!r} are NaN")


def _nodes(model: ir.Model, engine: Engine) -> Iterator[LintFinding]:
    """Let the engine load each node by itself, subgraphs' nodes too."""
    typed = copy_model(model)
    if (reason := infer_types(typed)) is not None:
        yield LintFinding(
            "warning", "not-checked", "", f"types could not be inferred: {reason}"
        )
    graphs = [typed.graph, *(g for g in all_graphs(typed) if g is not typed.graph)]
    bodies = {function.graph for function in typed.functions.values()}
    for graph in graphs:
        if graph in bodies:
            continue
        for node in graph:
            yield from _node(node, typed, engine)


def _node(node: ir.Node, model: ir.Model, engine: Engine) -> Iterator[LintFinding]:
    name = name_of(node)
    if (value := untyped(node)) is not None:
        text = f"{node.op_type} {name!r} was not run alone: no type is known of {value!r}"
        yield LintFinding("warning", "not-checked", name, text)
        return
    try:
        with engine.prepare(alone(node, model)):
            pass
    except EngineUnavailableError:
        raise
    except EngineError as error:
        text = f"{engine.name} does not load {node.op_type} {name!r}: {error.message}"
        yield LintFinding("error", "engine", name, text)
