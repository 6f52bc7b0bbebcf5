"""The scripts of examples/side_by_side, as a reader runs them."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "examples" / "side_by_side"


def told(script, folder):
    command = [sys.executable, HERE / script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_engines_agree_value_by_value(tmp_path):
    assert told("compare_two_engines.py", tmp_path) == "26 values, equal\n"


def test_the_model_reads_digits_that_it_has_not_seen(tmp_path):
    word, accuracy = told("validate_on_data.py", tmp_path).split()
    assert word == "accuracy"
    assert float(accuracy) > 0.97


def test_results_of_a_model_after_passes_open_again(tmp_path):
    from onnx_passes.bench.runs import compare, open_results

    assert told("compare_after_passes.py", tmp_path) == "without Identity agrees\n"
    assert compare([], recorded=open_results(tmp_path / "results.json")).passed


def test_without_the_compiler_the_level_is_told(tmp_path):
    from onnx_passes.runtime.tensorrt.bindings import installed_version

    if installed_version("tensorrt-rtx") is not None:
        pytest.skip("tensorrt-rtx is installed")
    assert told("build_an_engine.py", tmp_path).startswith("absent: tensorrt-rtx is not")


@pytest.mark.tensorrt
def test_an_engine_is_built_and_not_run(tmp_path):
    assert told("build_an_engine.py", tmp_path).startswith("built: for compute capability")


def test_each_does_its_job_in_about_ten_lines():
    for script in HERE.glob("*.py"):
        lines = script.read_text().splitlines()
        code = [
            line for line in lines if line.strip() and not line.startswith(("import", "from"))
        ]
        assert len(code) <= 12, script.name
