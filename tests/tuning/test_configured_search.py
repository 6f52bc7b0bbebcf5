"""From a file to a search: the engine of large models keeps no memory of its sessions."""

import numpy as np
import pytest

from onnx_passes.configs.pipeline_files import config_from_data
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
