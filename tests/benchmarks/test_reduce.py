"""The planted faults of the reduction benchmark are there, once, and can be found."""

import subprocess
import sys

import onnx
import pytest

from benchmarks import reduce


@pytest.mark.parametrize(
    ("given", "check", "fails"),
    [
        ({"apart": False}, reduce.CHECK, True),
        ({"apart": True}, reduce.CHECK, False),
        ({"apart": True}, reduce.APART, True),
        ({}, reduce.APART, False),
        ({"wrong": 1.1}, reduce.HEAVY, True),
        ({}, reduce.HEAVY, False),
    ],
)
def test_a_fault_is_planted_and_found(tmp_path, given, check, fails):
    model = reduce.faulty(40, **given)
    assert len(model.graph.node) == 40
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "check.py").write_text(check)
    done = subprocess.run([sys.executable, "check.py", "model.onnx"], cwd=tmp_path)
    assert bool(done.returncode) is fails


def test_one_weight_is_off():
    right, wrong = reduce.faulty(40), reduce.faulty(40, wrong=1.01)
    pairs = zip(right.graph.initializer, wrong.graph.initializer, strict=True)
    assert sum(a != b for a, b in pairs) == 1
