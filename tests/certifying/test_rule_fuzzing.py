from itertools import islice

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying import rule_fuzzing
from onnx_passes.certifying.certification import is_reproducible
from onnx_passes.certifying.replay import ENGINE_FAULTS
from onnx_passes.certifying.rule_fuzzing import Examiner, fuzz_rule
from onnx_passes.certifying.template_models import candidates, formed_candidates, probed
from onnx_passes.certifying.variants import RAISED, VARIANTS
from onnx_passes.contracts import Equality, Tolerance


def test_a_right_rule_is_tested_in_every_surrounding():
    rule = RewriteRule(
        lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), remove_nodes=False
    )
    tested = fuzz_rule(rule, seconds=600, models=100)
    assert tested.verdict == "tested"
    assert tested.contract == Equality()
    assert tested.models == 100 + tested.planned
    assert tested.firings > tested.models  # two matches in one model
    names = {name for name, _ in VARIANTS} - {"initializers are inputs", RAISED}
    assert names <= set(tested.kinds)
    assert {"float", "int64", "double", "float16"} <= set(tested.dtypes)


def test_a_wrong_rule_is_refuted_with_the_smallest_tensors():
    tested = fuzz_rule(
        RewriteRule(lambda op, x: op.Relu(x), lambda op, x: op.Abs(x)), seconds=60
    )
    assert tested.verdict == "refuted"
    assert tested.fault.found is not None
    assert max(a.size for a in tested.fault.found.feeds.values()) == 1
    assert "Relu" in tested.fault.text()
    assert "Abs" in tested.fault.text()


def test_a_rule_that_swaps_for_ever_is_a_verdict():
    rule = RewriteRule(
        lambda op, x, y: op.Add(x, y), lambda op, x, y: op.Add(y, x), name="swap"
    )
    tested = fuzz_rule(rule, seconds=600)
    assert tested.verdict == "refuted"
    assert "matches again and again" in tested.fault.reason


def test_a_rule_that_raises_is_a_verdict():
    def rewrite(op, x):
        raise KeyError("axis")

    tested = fuzz_rule(RewriteRule(lambda op, x: op.Relu(x), rewrite), seconds=600)
    assert tested.verdict == "refuted"
    assert "KeyError" in tested.fault.reason


def test_rounding_supports_a_tolerance_only():
    def check(context, x, y):
        return x.dtype == ir.DataType.FLOAT

    rule = RewriteRule(
        lambda op, x, y: op.Div(x, y),
        lambda op, x, y: op.Mul(x, op.Reciprocal(y)),
        check,
        name="div",
    )
    tested = fuzz_rule(rule, seconds=600, models=40)
    assert tested.verdict == "tested"
    assert tested.inexact is not None
    assert tested.contract == Tolerance()


@pytest.mark.parametrize("size", [0, 2])
def test_a_wrong_shape_of_the_original_is_the_engine_s_fault(size):
    # ONNX Runtime keeps a reduced axis that is negative where the tensor is empty.
    model = ir.from_onnx_text(f"""<ir_version: 8, opset_import: ["" : 13]>
        g (int32[{size}, 1] x) => (int64[{size}, 1] y) {{
            a = Constant<value_ints = [-1]>() t = ArgMax<axis = -1, keepdims = 0>(x)
            y = Unsqueeze(t, a) }}""")
    rule = RewriteRule(
        lambda op, x: op.Unsqueeze(op.ArgMax(x), _allow_other_inputs=True),
        lambda op, x: op.ArgMax(x, axis=-1, keepdims=1),
    )
    trial = Examiner(rule).examine(model, "plain", [{"x": np.zeros((size, 1), np.int32)}])
    assert trial.fired == 1
    assert trial.fault is None
    assert trial.excused[ENGINE_FAULTS] == (size == 0)


def _first_of_empty(rewrite):
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[0, 2] x) => (int64[0, 1] y) {
            k = Constant<value_ints = [1]>() v, y = TopK(x, k) }""")
    rule = RewriteRule(
        lambda op, x, k: op.TopK(x, k, _outputs=["v", "i"])[1],
        lambda op, x, k, **_: rewrite(op, x),
    )
    return Examiner(rule).examine(model, "plain", [{"x": np.zeros((0, 2), np.float32)}])


def test_a_wrong_shape_of_the_result_is_the_engine_s_fault():
    trial = _first_of_empty(lambda op, x: op.ArgMax(x, axis=-1, keepdims=1))
    assert trial.fired == 1
    assert trial.fault is None
    assert trial.excused == {ENGINE_FAULTS: 1}


def test_a_result_of_another_shape_on_nothing_is_a_fault():
    trial = _first_of_empty(lambda op, x: op.Cast(x, to=int(ir.DataType.INT64)))
    assert "shape" in trial.fault.reason


def test_numbers_beside_the_guard_s_are_probed():
    assert {0.5, 0.45, 1.5, -0.5} <= set(probed([0.5]))
    assert any(np.isclose(n, 0.55) for n in probed([0.5]))


def _int32(context, x, **_):
    return x.dtype == ir.DataType.INT32


def _is_minus_one(context, x, y):
    number = None if y.const_value is None else y.const_value.numpy()
    return _int32(context, x) and number is not None and number.ndim == 0 and number == -1


def _minus_one(op):
    return op.Constant(value=ir.tensor(np.array(-1, np.int32)))


def test_an_engine_that_ends_its_process_on_the_result_alone_is_a_finding():
    # The least integer has no negative: Neg wraps round, and Div ends the process.
    rule = RewriteRule(
        lambda op, x: op.Neg(x), lambda op, x: op.Div(x, _minus_one(op)), _int32, name="r"
    )
    tested = fuzz_rule(rule, seconds=600, confirm=lambda fault: is_reproducible(fault, None))
    assert tested.verdict == "refuted"
    assert tested.fault.breaks == "engine"
    assert "crashed with SIGFPE" in tested.fault.reason


def test_a_sample_on_which_the_original_ends_the_process_says_nothing():
    rule = RewriteRule(
        lambda op, x, y: op.Div(x, y), lambda op, x, y: op.Neg(x), _is_minus_one, name="r"
    )
    tested = fuzz_rule(rule, seconds=600, models=3)
    assert tested.verdict == "tested"
    assert tested.models >= 3


@pytest.fixture
def few(monkeypatch):
    """Have few models made."""

    for made in (candidates, formed_candidates):

        def first(*args, made=made, **kwargs):
            return islice(made(*args, **kwargs), 100)

        monkeypatch.setattr(rule_fuzzing, made.__name__, first)


def test_models_that_the_engine_does_not_run_are_skipped_and_counted(few):
    rule = RewriteRule(
        lambda op, x, y: op.Div(x, op.Sub(y, y)),
        lambda op, x, y: op.Neg(op.Neg(op.Div(x, op.Sub(y, y)))),
        lambda context, x, y: x.dtype == ir.DataType.INT64 and 0 not in [*x.shape, *y.shape],
        name="r",
    )
    tested = fuzz_rule(rule, seconds=600)
    assert tested.verdict == "never fired"
    assert tested.not_run > 5


def test_operands_that_the_standard_does_not_admit_are_not_made(few):
    # ONNX Runtime reads a factor of layer normalization beyond its end, or dies of it.
    def check(context, normal, **_):
        seen.append([tuple(v.shape) for v in normal.producer().inputs if v is not None])
        return False

    seen = []
    rule = RewriteRule(
        lambda op, x: op.LayerNormalization(x, _allow_other_inputs=True, _outputs=["normal"]),
        lambda op, x, **_: op.Identity(x),
        check,
        name="r",
    )
    fuzz_rule(rule, seconds=600)
    assert len(seen) > 20
    assert all(np.broadcast_shapes(*shapes) == shapes[0] for shapes in seen)
