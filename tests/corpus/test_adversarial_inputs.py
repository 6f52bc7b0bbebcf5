"""The shipped pipelines stay right on special values and sizes, over onnx's backend models.

The engines run in a child process: what an engine does on such inputs must end no test run.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from onnx_passes.configs.pipeline_files import config_from_data, load_config
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.model.load import load_model
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.isolated import end_children
from onnx_passes.verify.reference_data import ReferenceData
from tests.corpus.backend_models import load, shard
from tests.tables import each_of

SHARDS = 8
ISOLATED = {"isolate": True, "time_limit": 60, "memory_limit": "4GiB"}
ENGINES = [
    {"onnxruntime": {"optimization": "none", "prepacking": False, "when": "each", **ISOLATED}},
    {"onnxruntime": {"optimization": "all", "when": "end", **ISOLATED}},
]
PASSES = {
    "cleanup": lambda: load_config("cleanup"),
    "fold-constants": lambda: config_from_data(
        {"passes": ["shape-inference", "fold-constants"]}
    ),
    "optimize": lambda: load_config("optimize"),
}


# ONNX Runtime's CPU computes nodes in 16 bits in 32, and rounds where a constant stands that
# was computed before: near the greatest float16 that is 3 units in the last place.
ROUNDED = {"node/test_attention_4d_gqa_with_past_and_present_fp16_expanded"}


def with_special_values(config):
    settings = config_from_data({"engines": ENGINES, "verify": {"inputs": "adversarial"}})
    update = {"engines": settings.engines, "verify": settings.verify, "reproducers": ""}
    return config.model_copy(update=update)


def examine(model_id, config, folder):
    """Return what became of a model, how many special samples it had, and what was wrong."""
    case = load(model_id)
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    samples = [feeds for feeds, _ in case.samples]
    reference = ReferenceData(samples, None, "onnx") if samples else None
    try:
        run = run_pipeline(load_model(path).model, config, reference=reference)
    except EngineError as error:
        return f"no engine runs it even before: {error.code}", 0, None
    except OnnxPassesError as error:
        return "refused", 0, f"{type(error).__name__}: {error}"
    count = sum(map(bool, run.report.reference.names))
    if run.error is not None and model_id in ROUNDED and "elements differ" in str(run.error):
        return "beyond the tolerance of float16", count, None
    if run.error is not None:
        return "failed", count, str(run.report.error)
    if not any(done.changed for done in run.report.passes):
        return "unchanged", count, None
    stand_in = run.report.engines[0].fallback_for
    return f"changed, verified on {'reference' if stand_in else 'onnxruntime'}", count, None


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("number", *range(SHARDS))
@each_of("pipeline", *PASSES)
def test_no_pipeline_is_wrong_on_special_values(pipeline, number, tmp_path, corpus_log):
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    config = with_special_values(PASSES[pipeline]())
    faults, counts = [], Counter()
    for model_id in shard(number, SHARDS):
        if model_id.startswith("real/"):
            continue  # hundreds of megabytes of weights that are made up at each inference
        outcome, special, fault = examine(model_id, config, tmp_path)
        counts[outcome] += special
        corpus_log(f"{pipeline}, adversarial", outcome, model_id)
        if fault:
            faults.append(f"{model_id}: {fault}")
    end_children()
    assert not faults, "\n".join(faults)
    assert counts["changed, verified on onnxruntime"] > 0
