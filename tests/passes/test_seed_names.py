"""Every name that the seed system (0.4.1) registers means something here."""

import pytest

from onnx_passes.passes.registry import lookup
from onnx_passes.passes.seed_names import is_for_seed, uses_of

NAMES = ["DeMorganBoolean", "MoveSplitPastElementwise", "MoveTransposePastElementwiseBinary", "MoveTransposePastElementwiseTernary", "MoveTransposePastElementwiseUnary", "absorb-layouts", "algebraic", "checker", "cleanup", "convert-layouts", "convert-opset18", "convert-opset19", "convert-", "opset20", "convert-opset21", "convert-opset22", "convert-opset23", "decompose-thresholds", "deduplicate-initializers", "eliminate", "eliminate-common-subexpression", "eliminate-identity", "eliminate-where", "factorize", "fold-constants", "fuse-silu", "fuse-thresholds", "import-qonnx", "infer-", "thresholds", "inject-ops", "inline", "inline-batchnorm", "inline-functions", "inline-gemm", "inline-qonnx", "inline-thresholds", "lift-constants", "lower-conv", "lower-pooling", "range-annotation", "remove-", "initializers-from-inputs", "remove-unused", "remove-unused-functions", "remove-unused-nodes", "remove-unused-opsets", "reorder", "shape-inference", "sort-thresholds", "streamline", "streamline-", "thresholds", "topological-sort", "unbroadcast", "unique-names", "verify"]
PAST_TRANSPOSE = ["Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "ElementwiseBinary", "ElementwiseTernary", "ElementwiseUnary", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "GreaterOrEqual", "Greater", "HardSigmoid", "HardSwish", "Identity", "IfInf", "IsNaN", "LeakyRelu", "LessOrEqual", "Less", "Log", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Tan", "Tanh", "ThresholdedRelu", "Xor"]
ALL = [*NAMES, *(f"Move{name}PastTranspose" for name in PAST_TRANSPOSE)]


def test_there_are_as_many_as_there():
    assert len(ALL) == 119


@pytest.mark.parametrize("name", [name for name in ALL if name != "verify"])
def test_each_is_a_pass_or_a_group(name):
    assert lookup(name)


def test_groups_hold_the_schemas():
    assert {cls.name for cls in lookup("reorder")} == {
        "sink-past-movement",
        "sink-scales",
        "sink-transposes",
        "unify-reshapes",
    }
    assert {cls.name for cls in lookup("algebraic")} == {"gather-terms", "simplify-booleans"}


def test_a_name_of_both_systems_means_what_its_author_meant():
    assert uses_of("lower-conv") is None
    (use,) = uses_of("lower-conv", for_seed=True)
    assert use.options == {"to": "im2col"}
    names = [use.name for use in uses_of("eliminate-identity", for_seed=True)]
    assert names == ["eliminate-noop-arithmetic", "eliminate-identity"]
    assert is_for_seed({"passes": [], "model_checker": {}})
    assert not is_for_seed({"passes": [], "verify": True})


def test_one_operator_past_transposes():
    (use,) = uses_of("MoveAddPastTranspose")
    assert (use.name, use.options) == ("sink-transposes", {"operators": ["Add"]})
    assert uses_of("MoveNothing") is None
