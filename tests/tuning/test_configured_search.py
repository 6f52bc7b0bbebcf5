"""From a file to a search: the engine of large models keeps no memory of its sessions."""

import numpy as np
import pytest

from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.testing import parse
from onnx_passes.tuning import configured_search as tuning_task
from onnx_passes.tuning.configured_search import task_of
from onnx_passes.verify.reference_data import ReferenceData

SETTINGS = {"verify": {"metrics": {"rmse": [0, 1]}}, "tune": {"formats": ["float16"]}}


@pytest.mark.parametrize(("engines", "arena"), [(None, False), (["onnxruntime"], True)])
def test_sessions_of_large_models_share_no_memory(original, monkeypatch, engines, arena):
    images = np.zeros((4, 1, 8, 8), np.float32)
    reference = ReferenceData([{"image": images}], None, "a test")
    settings = SETTINGS if engines is None else SETTINGS | {"engines": engines}
    config = config_from_data(settings)
    assert task_of(original, config, None, reference).engine.memory_arena
    monkeypatch.setattr(tuning_task, "_LARGE", 1 << 10)
    assert task_of(original, config, None, reference).engine.memory_arena is arena


@pytest.mark.parametrize(
    ("shape", "sizes", "found"),
    [
        ("n,2", [9], [[0, 4, 8]]),
        ("n,2", [2, 6, 1], [[0], [2], [0]]),
        ("4,2", [4, 4, 4, 4], [range(4)] * 3),
    ],
)
def test_groups_are_scored_on_samples_from_all_over(shape, sizes, found):
    model = parse(f"(float[{shape}] x) => (float[{shape}] y) {{ y = Neg(x) }}")
    feeds = [{"x": np.arange(n)} for n in sizes]
    taken = tuning_task.take_few(model, feeds, 3)
    assert [list(feed["x"]) for feed in taken] == [list(rows) for rows in found]
