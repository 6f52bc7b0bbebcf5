"""From a file to a search: its engine, and the samples that groups are scored on."""

import numpy as np

from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.tuning import configured_search as tuning_task
from onnx_passes.tuning.configured_search import take_few, task_of
from onnx_passes.verify.reference_data import ReferenceData
from tests.tables import each_of

SETTINGS = {"verify": {"metrics": {"rmse": [0, 1]}}, "tune": {"formats": ["float16"]}}


@each_of("engines, arena", (None, False), (["onnxruntime"], True))
def test_sessions_of_large_models_share_no_memory(original, monkeypatch, engines, arena):
    images = np.zeros((4, 1, 8, 8), np.float32)
    reference = ReferenceData([{"image": images}], None, "a test")
    settings = SETTINGS if engines is None else SETTINGS | {"engines": engines}
    config = config_from_data(settings)
    assert task_of(original, config, reference).engine.memory_arena
    monkeypatch.setattr(tuning_task, "_LARGE", 1 << 10)
    assert task_of(original, config, reference).engine.memory_arena is arena


@each_of("sizes", (40,), (25, 15), (1,) * 40)
def test_groups_are_scored_on_rows_from_all_over_the_data(original, sizes):
    rows = np.arange(40.0, dtype=np.float32).reshape(40, 1, 1, 1) * np.ones((1, 8, 8))
    feeds = [{"image": part} for part in np.split(rows, np.cumsum(sizes)[:-1])]
    few = [feed["image"][:, 0, 0, 0] for feed in take_few(original, feeds, 5)]
    assert np.concatenate(few).tolist() == [0, 10, 20, 29, 39]
    assert len(take_few(original, feeds, 99)) == len(feeds)
