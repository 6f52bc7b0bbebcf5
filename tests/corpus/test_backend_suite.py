"""Every backend test model of the onnx package through the shipped pipelines.

None may end with a changed result, a lost or renamed input or output, an invalid file, a
refusal or a crash. Each must be verified in the run, on its own reference inputs. What no
engine runs even before the first pass is counted with its reason; it goes through unverified,
and is held to all but the numbers.
"""

import logging

import onnx
import pytest

from onnx_passes.configs.pipeline_files import shipped_configs
from tests.corpus.backend_models import ids, load, shard
from tests.corpus.examine import contract_of, examine, preset
from tests.tables import each_of

SHARDS = 24
FAST = "simplify"
"""The preset that CI puts every sixth model through. Copies of real networks, which
``optimize`` takes in CI, are a third of the time of all."""
CASES = [
    pytest.param(
        p, n, id=f"{p}-{n}", marks=() if p == FAST and n % 6 == 0 else pytest.mark.slow
    )
    for p in shipped_configs()
    for n in range(SHARDS)
]


def test_nothing_is_left_out():
    assert onnx.__version__ != "1.23.2" or len(ids()) == 2033
    assert sorted(i for n in range(SHARDS) for i in shard(n, SHARDS)) == sorted(ids())


def check(pipeline, models, folder, corpus_log):
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    config, contract = preset(pipeline), contract_of(pipeline)
    faults = []
    for model_id in models:
        outcome, fault = examine(load(model_id), config, contract, folder)
        corpus_log(pipeline, outcome, model_id)
        if fault:
            faults.append(f"{model_id}: {fault}")
    assert not faults, "\n".join(faults)


@pytest.mark.timeout(600)
@each_of("pipeline, number", *CASES)
def test_no_model_is_changed_refused_or_broken(pipeline, number, tmp_path, corpus_log):
    models = [name for name in shard(number, SHARDS) if not name.startswith("real/")]
    check(pipeline, models, tmp_path, corpus_log)


@pytest.mark.slow
@pytest.mark.timeout(600)
@each_of("model_id", *ids("real"))
@each_of("pipeline", *shipped_configs())
def test_no_real_network_is_changed_refused_or_broken(
    pipeline, model_id, tmp_path, corpus_log
):
    check(pipeline, [model_id], tmp_path, corpus_log)
