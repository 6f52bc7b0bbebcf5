"""One judge: what one tool accepts, no other refuses."""

import ast
from pathlib import Path

import numpy as np

import onnx_passes
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.verify.evidence import Verdict
from onnx_passes.verify.judge import Promise, judge
from tests.tables import each_of

ROOT = Path(onnx_passes.__file__).parent
MEASURES = {"bench/runs/judges.py"}
"""What measures how far values are apart, besides the module of the judge."""


def imports_compare(path: Path) -> bool:
    found = ast.walk(ast.parse(path.read_text("utf-8")))
    names = {
        f"{node.module}.{alias.name}"
        for node in found
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return "onnx_passes.verify.judge.compare" in names


def test_nothing_decides_beneath_the_judge():
    users = {p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.py") if imports_compare(p)}
    assert users == MEASURES


@each_of("inside", False, True)
@each_of("contract", Equality(), Tolerance(), Tolerance(1e-2, 0))
def test_a_sample_alone_and_among_others_is_judged_alike(contract, inside):
    promise = Promise(contract, inside=inside)
    old = {"y": np.array([1.0, 1e-6], np.float32)}
    for step in (0, 1e-7, 1e-5, 1e-3, 1):
        new = {"y": old["y"] + np.float32(step)}
        broken = promise.broken(old, new)
        assert (judge([old], [new], promise).verdict is Verdict.FAILED) == bool(broken)
