import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule, RewriteRuleSet
from onnxscript.rewriter.rules.common import cast_cast_rule

from onnx_passes.certifying import Arithmetic, Effort, Outcome, prove_rule
from onnx_passes.certifying.rewrite_rule import (
    apply_rule,
    assumes_finite,
    for_certificate,
    literals,
    rules_of,
)
from onnx_passes.certifying.template_models import instances
from onnx_passes.passes.base import RewriteRulePass, Transformation

pytest.importorskip("z3")


def test_every_instance_fires():
    rule = RewriteRule(
        lambda op, x, y, z: op.MatMul(op.MatMul(x, y), z),
        lambda op, x, y, z: op.MatMul(x, op.MatMul(y, z)),
    )
    models = list(instances(rule, limit=4))
    assert len(models) == 4
    assert all(apply_rule(rule, m) is not None for m in models)


def test_the_guard_s_own_number_is_tried():
    def check(context, x, c):
        array = None if c.const_value is None else c.const_value.numpy()
        return array is not None and array.size == 1 and np.isclose(array.item(), 0.7310586)

    rule = RewriteRule(
        lambda op, x, c: op.Mul(x, c), lambda op, x, c: op.Identity(x), check, name="odd"
    )
    assert 0.7310586 in literals(rule)
    assert next(instances(rule), None) is not None
    assert prove_rule(rule).outcome == Outcome.REFUTED


def test_attributes_that_the_pattern_does_not_mention_are_set():
    rule = RewriteRule(
        lambda op, x: op.LeakyRelu(op.Relu(x)), lambda op, x: op.Relu(x), name="leaky"
    )
    slopes = {
        node.attributes["alpha"].value
        for model in instances(rule)
        for node in model.graph
        if "alpha" in node.attributes
    }
    assert slopes


@pytest.mark.parametrize("seed", [0, 1])  # chains of types are planned: no seed may matter
def test_double_rounding_is_found_among_the_types(seed):
    # float64 -> float32 -> float16 rounds twice; all other types that fit come out the same.
    # ONNX Runtime itself casts by way of float32, so that it shows no difference.
    ieee = prove_rule(cast_cast_rule, effort=Effort(seed=seed))[Arithmetic.IEEE]
    assert ieee.outcome == Outcome.UNDECIDED
    assert "z3 has a counterexample" in ieee.reason


def test_a_rule_whose_result_is_an_input_fires_too():
    rule = RewriteRule(lambda op, x: op.Identity(x), lambda op, x: x, name="drop")
    proof = prove_rule(rule)
    assert proof.templates
    assert proof.outcome == Outcome.PROVED


def test_sets_and_passes_give_all_their_rules():
    rule = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))
    assert rules_of(RewriteRuleSet([rule, rule])) == [rule, rule]

    class Pass:
        def rules(self):
            return [rule]

    assert rules_of(Pass) == [rule]


def _thirds(dtype, hundred, third):
    return ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 18]>
        g ({dtype}[3] x) => ({dtype}[3] o) <{dtype} c = {{{hundred}}}, {dtype} d = {{{third}}},
        {dtype}[3] p> {{ p = Mul(x, c) o = Mul(p, d) }}""")


def test_half_precision_does_not_keep_a_formula_from_being_proved():
    # Its constants are rounded so coarsely that their product is another number.
    def rewrite(op, x, c, d):
        product = np.asarray(c.const_value.numpy() * d.const_value.numpy())
        return op.Mul(x, op.Constant(value=ir.tensor(product)))

    rule = RewriteRule(lambda op, x, c, d: op.Mul(op.Mul(x, c), d), rewrite)
    half = _thirds("float16", 22080, 13653)  # the parser wants the bits
    single = _thirds("float", 100, 0.33333334)
    assert prove_rule(rule, [half]).outcome != Outcome.PROVED
    proof = prove_rule(rule, [half, single])
    assert proof.outcome == Outcome.PROVED
    assert {t for each in proof.covers["operands"].values() for t in each["types"]} == {
        "FLOAT"
    }


def test_what_a_pass_may_assume_is_assumed_and_told():
    class Assuming(RewriteRulePass, Transformation):
        assume_no_nan: bool = False

        def pattern(self, op, x):
            return op.Relu(x)

        def check(self, context, **_):
            return self.assume_no_nan

        def rewrite(self, op, x):
            return op.Max(x, 0.0)

    assert for_certificate(Assuming).assume_no_nan
    assert not Assuming().assume_no_nan
    assert assumes_finite(Assuming)
    assert not assumes_finite(Transformation)


def test_a_constant_of_the_pattern_has_no_second_value():
    # A template with value and value_float is not a model: a right rule was not proved.
    half = RewriteRule(
        lambda op, x: op.Mul(x, op.Constant(value_float=0.5)),
        lambda op, x: op.Div(x, op.Constant(value_float=2.0)),
        name="half",
    )
    for model in instances(half, limit=8):
        held = [node for node in model.graph if node.op_type == "Constant"]
        assert [list(node.attributes) for node in held] == [["value_float"]]
    assert prove_rule(half).outcome is Outcome.PROVED
