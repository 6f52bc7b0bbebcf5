"""Operands that fit operators which take more than data that broadcasts."""

import onnx_ir as ir
import onnxruntime
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from onnx_passes.certifying.template_models import candidates

PATTERNS = {
    "AffineGrid": lambda op, x, n: op.AffineGrid(x, n),
    "Col2Im": lambda op, x, n, b: op.Col2Im(x, n, b),
    "Col2Im of a sum": lambda op, x, n, b: op.Col2Im(op.Add(x, x), n, b),
    "DeformConv": lambda op, x, w, o: op.DeformConv(x, w, o),
    "DequantizeLinear": lambda op, x, s, z: op.DequantizeLinear(x, s, z),
    "Einsum of a fixed equation": lambda op, x, y: op.Einsum(x, y, equation="bhqd,bhkd->bhqk"),
    "GRU": lambda op, x, w, r: op.GRU(x, w, r),
    "GridSample": lambda op, x, g: op.GridSample(x, g),
    "GridSample of a sum": lambda op, x, g: op.GridSample(op.Add(x, x), g),
    "InstanceNormalization of a sum": lambda op, x, s, b: op.InstanceNormalization(
        op.Add(x, x), s, b
    ),
    "DepthToSpace of a sum": lambda op, x: op.DepthToSpace(op.Add(x, x), blocksize=2),
    "LSTM, both ways": lambda op, x, w, r: op.LSTM(x, w, r, direction="bidirectional"),
    "MaxRoiPool": lambda op, x, r: op.MaxRoiPool(x, r),
    "MaxUnpool": lambda op, x, i: op.MaxUnpool(x, i),
    "MelWeightMatrix": lambda op, b, n, r, x, y: op.MelWeightMatrix(b, n, r, x, y),
    "NegativeLogLikelihoodLoss": lambda op, x, t: op.NegativeLogLikelihoodLoss(x, t),
    "Resize": lambda op, x, r, s: op.Resize(x, r, s),
    "RNN": lambda op, x, w, r: op.RNN(x, w, r),
    "RoiAlign": lambda op, x, r, b: op.RoiAlign(x, r, b),
    "STFT": lambda op, x, n, w: op.STFT(x, n, w),
    "quantised and back": lambda op, x, s, z: op.DequantizeLinear(
        op.QuantizeLinear(x, s, z), s, z
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_of_any_operator_has_models_that_run(name):
    onnxruntime.set_default_logger_severity(4)
    rule = RewriteRule(PATTERNS[name], lambda op, x, **_: op.Identity(x), name="one")
    for group in candidates(rule, attempts=100, seed=0):
        if group:
            try:
                proto = ir.to_proto(group[0].model)
                onnxruntime.InferenceSession(proto.SerializeToString())
            except Exception:
                continue  # another model of the pattern may run
            return
    pytest.fail("no model runs")


def test_a_lost_quantisation_is_refuted():
    rule = RewriteRule(
        PATTERNS["quantised and back"], lambda op, x, **_: op.Identity(x), name="lost"
    )
    assert fuzz_rule(rule).verdict == "refuted"


@pytest.mark.parametrize(
    ("right", "expected"), [(True, "tested"), (False, "refuted")], ids=["right", "swapped"]
)
def test_an_einsum_with_its_equation_is_tried(right, expected):
    rule = RewriteRule(
        lambda op, x, y: op.Einsum(x, y, equation="ij,jk->ik"),
        lambda op, x, y: op.MatMul(x, y) if right else op.MatMul(y, x),
        name="product",
    )
    assert fuzz_rule(rule, models=20).verdict == expected
