from typing import Any

from benchmarks.peers.table import Row, latency, nodes, remains
from benchmarks.peers.tools import OPTIMIZE, PEERS, SIMPLIFY, peers_of
from benchmarks.peers.worker import TOOLS


def cell(**operators: int) -> dict[str, Any]:
    judged = {"fault": "", "nodes": sum(operators.values()), "operators": operators}
    return {"seconds": [1.0], "processor": [1.0], "error": "", "judged": judged}


def row(**cells: dict[str, Any]) -> Row:
    named = {name.replace("__", ", ").replace("_", " "): c for name, c in cells.items()}
    return Row("net", {"original": {"nodes": 10, "operators": {}, "bytes": 1}, "cells": named})


def test_a_preset_is_held_to_what_it_may_be_compared_with() -> None:
    found = [
        row(
            onnxslim=cell(Conv=5),
            onnxslim__no_fusion=cell(Conv=5, Mul=3),
            simplify=cell(Conv=5, Mul=2),
            optimize=cell(Conv=5, Add=1),
        )
    ]
    assert remains(found) == ["- net, `optimize` 6, onnxslim 5: more Add 1; fewer none"]


def test_fewest_nodes_are_bold_within_the_group_of_the_preset() -> None:
    found = [
        row(onnxslim=cell(Conv=5), onnxslim__no_fusion=cell(Conv=8), simplify=cell(Conv=8))
    ]
    assert "**8** | - | - | - | **8** |" in nodes(found, SIMPLIFY)[2]
    assert nodes(found, OPTIMIZE)[2] == "| net | 10 | **5** | - | - | - | - | - |"


def test_a_wrong_result_counts_as_the_original() -> None:
    wrong = cell(Conv=1)
    wrong["judged"]["fault"] = "invalid"
    found = [row(onnxslim=wrong, onnxsim=cell(Conv=5), optimize=cell(Conv=4))]
    *_, means = nodes(found, OPTIMIZE)
    assert means.endswith("| 1.000 | 0.500 | - | - | - | 0.400 |")
    assert "best peer of each model 0.500" in means


def test_every_peer_belongs_to_a_preset_and_workers_are_known() -> None:
    assert {tool for name in (SIMPLIFY, OPTIMIZE) for tool in peers_of(name)} == {*PEERS}
    for tool in PEERS:
        if tool.words[0] == "{worker}":
            assert tool.words[1] in TOOLS


def test_a_result_whose_inference_was_not_timed_has_no_latency() -> None:
    timed = cell(Conv=5)
    timed["judged"] |= {"original_ms": 2.0, "again_ms": 2.1, "ms": 1.0}
    *_, line = latency([row(onnxslim=cell(Conv=5), onnxsim=timed)])
    assert line.startswith("| net | - | 0.500 |")
    assert line.endswith("| 1.050 |")
