import shutil
from pathlib import Path

from benchmarks.peers.measure import Cell, judge, time_inference

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
