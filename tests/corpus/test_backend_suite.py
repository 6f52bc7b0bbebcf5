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

SHARDS = 24
SLOW = [name for name in shipped_configs() if name != "simplify"]


def test_nothing_is_left_out():
    assert onnx.__version__ != "1.23.2" or len(ids()) == 2033
    assert sorted(i for n in range(SHARDS) for i in shard(n, SHARDS)) == sorted(ids())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(SHARDS))
@pytest.mark.parametrize(
    "pipeline", ["simplify", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_no_model_is_changed_refused_or_broken(pipeline, number, tmp_path, corpus_log):
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    config, contract = preset(pipeline), contract_of(pipeline)
    faults = []
    for model_id in shard(number, SHARDS):
        outcome, fault = examine(load(model_id), config, contract, tmp_path)
        corpus_log(pipeline, outcome, model_id)
        if fault:
            faults.append(f"{model_id}: {fault}")
    assert not faults, "\n".join(faults)
