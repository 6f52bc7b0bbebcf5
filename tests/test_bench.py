"""Each command of the bench is a function of the same name."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import bench
from onnx_passes.cli.main import COMMANDS

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "model.onnx"
NOT_OF_THE_BENCH = {
    *("run", "report", "bisect", "certify", "build", "list", "explain", "new-pass", "config"),
    *("tune", "view"),
}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - NOT_OF_THE_BENCH))
def test_a_command_has_a_function(name):
    from onnx_passes.cli.data_command import command as data

    names = [f"data_{sub}" for sub in data.commands] if name == "data" else [name]
    for one in names:
        function = getattr(bench, one.replace("-", "_"))
        assert callable(function)
        assert function.__doc__


def test_all_that_is_listed_is_there():
    assert all(hasattr(bench, name) for name in bench.__all__)


def test_a_model_is_cut_and_compared_with_itself():
    model = bench.load(DIGITS)
    part = bench.extract(model, outputs=[bench.Cut("/relu1/Relu_output_0", ir.DataType.FLOAT)])
    assert not bench.lint(part)
    assert bench.inspect(part)["graph"]["node_count"] < len(model.graph)
    assert bench.diff(part, model)
    image = np.zeros((2, 1, 8, 8), np.float32)
    assert bench.compare([bench.Runner(part)] * 2, [{"image": image}]).passed


def test_saved_data_are_joined_converted_and_shown(tmp_path):
    a, b, c = tmp_path / "a.npz", tmp_path / "b.npz", tmp_path / "c.json"
    np.savez(a, x=np.arange(4.0))
    np.savez(b, y=np.ones(2))
    assert list(bench.data_merge([a, b])[0]) == ["x", "y"]
    assert [list(sample) for sample in bench.data_concat([a, b])] == [["x"], ["y"]]
    bench.data_convert(a, c)
    assert bench.statistics(bench.data_merge([c])[0]["x"])["mean"] == 1.5
