from typing import Any

from benchmarks.peers.table import Row, latency, nodes, remains


def cell(**operators: int) -> dict[str, Any]:
    judged = {"fault": "", "nodes": sum(operators.values()), "operators": operators}
    return {"seconds": [1.0], "processor": [1.0], "error": "", "judged": judged}


def row(**cells: dict[str, Any]) -> Row:
    named = {name.replace("__", ", "): c for name, c in cells.items()}
    return Row("net", {"original": {"nodes": 10, "operators": {}, "bytes": 1}, "cells": named})


def test_what_has_more_nodes_than_the_best_peer_is_told_with_the_difference() -> None:
    found = [row(onnxslim=cell(Conv=5), optimize=cell(Conv=5, Add=1))]
    assert remains(found) == ["- net, ours 6, onnxslim 5: more Add 1; fewer none"]


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


def test_a_result_whose_inference_was_not_timed_has_no_latency() -> None:
    timed = cell(Conv=5)
    timed["judged"] |= {"original_ms": 2.0, "again": 1.05, "latency": 0.5}
    *_, line = latency([row(onnxslim=cell(Conv=5), onnxsim=timed)])
    assert line.startswith("| net | - | 0.500 |")
    assert line.endswith("| 1.050 |")
