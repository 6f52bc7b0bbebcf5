"""The preset ``lower`` on backend test models of the operators that it removes.

All 2,033 models go through it in the slow part of ``test_backend_suite.py``.
"""

import logging
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.pipeline.run import run_pipeline
from tests.corpus.backend_models import load
from tests.corpus.examine import contract_of, examine, preset
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
MODELS = {
    "Attention": ["attention_3d_gqa_causal", "attention_4d_with_past_and_present"],
    "AveragePool": ["averagepool_2d_ceil", "averagepool_2d_pads_count_include_pad"],
    "BatchNormalization": ["batchnorm_epsilon"],
    "Celu": ["celu"],
    "CenterCropPad": ["center_crop_pad_crop_and_pad"],
    "Clip": ["clip_default_int8_min", "clip_default_min"],
    "Conv": ["conv_with_autopad_same", "conv_with_strides_and_asymmetric_padding"],
    "Elu": ["elu_example"],
    "Gelu": ["gelu_default_2", "gelu_tanh_2"],
    "Gemm": ["gemm_all_attributes", "gemm_default_scalar_bias"],
    "GlobalAveragePool": ["globalaveragepool"],
    "GlobalMaxPool": ["globalmaxpool"],
    "GroupNormalization": ["group_normalization_epsilon"],
    "HardSigmoid": ["hardsigmoid_example"],
    "HardSwish": ["hardswish"],
    "InstanceNormalization": ["instancenorm_epsilon"],
    "LayerNormalization": ["layer_normalization_2d_axis0"],
    "LeakyRelu": ["leakyrelu_example"],
    "LogSoftmax": ["logsoftmax_axis_1", "logsoftmax_large_number"],
    "MaxPool": ["maxpool_2d_ceil_output_size_reduce_by_one", "maxpool_2d_dilations"],
    "Mish": ["mish"],
    "NegativeLogLikelihoodLoss": ["nllloss_NCd1_weight_ii"],
    "PRelu": ["prelu_broadcast"],
    "RMSNormalization": ["rms_normalization_3d_axis1_epsilon"],
    "ReduceLogSumExp": ["reduce_log_sum_exp_do_not_keepdims_example"],
    "RotaryEmbedding": ["rotary_embedding_interleaved", "rotary_embedding_3d_input"],
    "Selu": ["selu_example"],
    "Sigmoid": ["sigmoid"],
    "Softmax": ["softmax_axis_0", "softmax_large_number"],
    "SoftmaxCrossEntropyLoss": ["sce_mean_3d"],
    "Softplus": ["softplus"],
    "Softsign": ["softsign"],
    "Swish": ["swish"],
    "ThresholdedRelu": ["thresholdedrelu_example"],
}
COARSE = ["attention_4d_causal_bf16"]
"""Right to its type, which rounds by more than the suite allows."""


@pytest.mark.timeout(300)
@each_of(
    "operator, name",
    *((operator, name) for operator, names in MODELS.items() for name in names),
    *(("Attention", name) for name in COARSE),
)
def test_the_operator_goes_and_the_result_stays(operator, name, tmp_path):
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    case = load(f"node/test_{name}")
    assert operator in {node.op_type for node in case.model.graph.node}
    outcome, fault = examine(case, preset("lower"), contract_of("lower"), tmp_path)
    assert fault is None, outcome
    result = ir.load(tmp_path / "result.onnx")
    assert not {*MODELS} & {node.op_type for node in result.graph.all_nodes()}


def test_a_real_model_runs_on_primitives(tmp_path):
    source, target = ROOT / "examples" / "digits" / "model.onnx", tmp_path / "result.onnx"
    loaded = load_model(source)
    assert {"Conv", "BatchNormalization", "MaxPool", "Gemm"} <= {
        node.op_type for node in loaded.model.graph
    }
    run = run_pipeline(loaded.model, preset("lower"))
    run.raise_for_failure()
    assert not run.report.not_verified
    save_model(run.model, target, source=loaded)
    kinds = {node.op_type for node in load_model(target).model.graph.all_nodes()}
    assert "MatMul" in kinds
    assert not {*MODELS} & kinds
