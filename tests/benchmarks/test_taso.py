import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("z3")

SOURCE = Path(__file__).parents[2] / "benchmarks" / "taso.py"
MATMUL = {"op": "matmul", "activation": "none"}
CONV = {"op": "conv2d", "activation": "none", "padding": "same"} | {
    "kernel_h": 3,
    "kernel_w": 3,
    "stride_h": 1,
    "stride_w": 1,
}
CONCAT = {"op": "concat", "num_inputs": 2}
ASSOCIATIVE = {
    "source": [
        MATMUL | {"inputs": [[-1, 0], [-2, 0]]},
        MATMUL | {"inputs": [[0, 0], [-3, 0]]},
    ],
    "target": [
        MATMUL | {"inputs": [[-2, 0], [-3, 0]]},
        MATMUL | {"inputs": [[-1, 0], [0, 0]]},
    ],
    "outputs": [[1, 1, 0, 0]],
}
GROUPED = {
    "source": [
        CONV | {"inputs": [[-1, 0], [-3, 0]]},
        CONV | {"inputs": [[-2, 0], [-4, 0]]},
        CONCAT | {"inputs": [[0, 0], [1, 0]], "num_dim": 4, "axis": 1},
    ],
    "target": [
        CONCAT | {"inputs": [[-1, 0], [-2, 0]], "num_dim": 4, "axis": 1},
        CONCAT | {"inputs": [[-3, 0], [-4, 0]], "num_dim": 4, "axis": 0},
        CONV | {"inputs": [[0, 0], [1, 0]]},
    ],
    "outputs": [[2, 2, 0, 0]],
}


@pytest.fixture
def taso():
    spec = importlib.util.spec_from_file_location("taso_benchmark", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_right_rule_is_proved_and_a_wrong_one_refuted(taso, tmp_path, monkeypatch, capsys):
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"rules": [ASSOCIATIVE, GROUPED]}))
    monkeypatch.setattr("sys.argv", ["taso.py", str(path)])
    taso.main()
    printed = capsys.readouterr().out
    assert "1  proved for all sizes" in printed
    assert "1  refuted with a replay on ONNX Runtime" in printed


def test_a_missing_file_is_one_sentence(taso, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["taso.py", str(tmp_path / "none.json")])
    with pytest.raises(SystemExit, match="does not exist: give the path"):
        taso.main()
