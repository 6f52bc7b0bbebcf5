import shutil
from pathlib import Path
from typing import Any

from benchmarks.peers.measure import Cell, judge, time_inference
from benchmarks.peers.table import Row, nodes


def cell(**operators: int) -> dict[str, Any]:
    judged = {"fault": "", "nodes": sum(operators.values()), "operators": operators}
    return {"seconds": [1.0], "processor": [1.0], "error": "", "judged": judged}


def row(**cells: dict[str, Any]) -> Row:
    named = {name.replace("__", ", "): c for name, c in cells.items()}
    return Row("net", {"original": {"nodes": 10, "operators": {}, "bytes": 1}, "cells": named})


def test_fewest_nodes_are_bold() -> None:
    assert nodes([row(onnxslim=cell(Conv=5), onnxsim=cell(Conv=8))])[2] == (
        "| net | 10 | **5** | 8 | - | - | - | - |"
    )


def test_a_wrong_result_counts_as_the_original() -> None:
    wrong = cell(Conv=1)
    wrong["judged"]["fault"] = "invalid"
    found = [row(onnxslim=wrong, onnxsim=cell(Conv=5), optimize=cell(Conv=4))]
    *_, means = nodes(found)
    assert means.endswith("| 1.000 | 0.500 | - | - | - | 0.400 |")
    assert "best peer of each model 0.500" in means


MODEL = Path(__file__).parents[3] / "examples" / "digits" / "model.onnx"


def test_results_are_judged_and_the_right_ones_timed(tmp_path: Path) -> None:
    results = {name: tmp_path / name / "model.onnx" for name in ("same", "broken")}
    for path in results.values():
        path.parent.mkdir()
    shutil.copy(MODEL, results["same"])
    results["broken"].write_bytes(b"no model")
    cells = {name: Cell() for name in results}
    judge(MODEL, results, cells)
    time_inference(MODEL, results, cells)
    assert cells["same"].judged["fault"] == ""
    assert {"latency", "original_ms", "again"} <= cells["same"].judged.keys()
    assert "ended with 1" in str(cells["broken"].judged["fault"])
    assert "latency" not in cells["broken"].judged
