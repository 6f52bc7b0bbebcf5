"""A transformation that is wrong on some model is found; a right one is not accused."""

from dataclasses import dataclass

import onnx_ir as ir
import pytest

from onnx_passes.certifying.models import recipes
from onnx_passes.certifying.models.fuzz_pass import (
    NOT_PREPARED,
    attempt,
    fuzz_pass,
)
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.model.walk import all_graphs, topological_order
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.passes.eliminate.eliminate_noop_transpose import EliminateNoopTranspose
from onnx_passes.passes.lowering.lower_max_pool import LowerMaxPool

pytestmark = pytest.mark.usefixtures("random_models_are_kept")


def right(model):
    return EliminateIdentity()(model).model


def product_is_sum(model):
    for node in model.graph:
        if node.op_type == "Mul":
            node.op_type = "Add"
    return model


def loses_an_output(model):
    model.graph.outputs.pop()
    return model


def raises(model):
    raise KeyError("lost")


def dangling(model):
    for node in model.graph:
        if node.op_type not in ("Constant", "If", "Loop", "Scan"):
            node.replace_input_with(0, ir.Value(name="nowhere"))
    return model


def faults(transform, count):
    trials = [attempt(recipe, transform) for recipe in recipes(count, seed=4)]
    return [trial for trial in trials if trial.fault is not None]


@dataclass
class Fixed:
    """Acts as a recipe: a model, and transformations that make it another one."""

    text: str
    seed: int = 1

    def model(self):
        return ir.from_onnx_text(self.text)

    def with_other(self, old, new):
        """Return a transformation that replaces a text of the model."""
        assert old in self.text
        return lambda model: ir.from_onnx_text(self.text.replace(old, new))


HALF = Fixed("""<ir_version: 10, opset_import: ["" : 18]>
    g (float16[500] x, float16[500] w) => (float16[500] o) {
    a = Cast<to=1>(x) b = Cast<to=1>(w) k = Constant<value_float=0.75>()
    p = Mul(a, b) h = Cast<to=10>(p) g = Cast<to=1>(h) q = Sub(g, k) o = Cast<to=10>(q) }""")
"""A product of half precision, from which something is subtracted."""
ONE_ROUNDING = HALF.with_other("Sub(g, k)", "Sub(p, k)")
WRONG = HALF.with_other("0.75", "0.77")


def test_a_sum_of_half_precision_that_cancels_keeps_the_rounding_of_its_terms():
    assert attempt(HALF, ONE_ROUNDING, contract=Tolerance()).fault is None
    assert attempt(HALF, ONE_ROUNDING, contract=Equality()).fault is not None
    assert "more than the tolerance" in attempt(HALF, WRONG, contract=Tolerance()).fault


def test_a_tolerance_that_the_contract_gives_in_numbers_is_not_widened():
    given = Tolerance(rtol=1e-3, atol=1e-6)
    assert "more than the tolerance" in attempt(HALF, ONE_ROUNDING, contract=given).fault
    assert attempt(HALF, ONE_ROUNDING, contract=Tolerance(rtol=0.5, atol=0.5)).fault is None


def test_what_the_preparation_computes_otherwise_is_no_fault_of_the_pass():
    # The gain of a network was rounded by what runs before a pass, and the pass was accused.
    trial = attempt(HALF, right, prepare=WRONG)
    assert trial.judged
    assert trial.fault is None
    assert attempt(HALF, product_is_sum, prepare=WRONG).fault is not None
    assert attempt(HALF, right, prepare=raises).unjudged == NOT_PREPARED


CHAIN = Fixed(
    """<ir_version: 10, opset_import: ["" : 18]> g (float16[2,4,9] x) => (float16[2,36] y)
    <float[4] s = {1, 1, 1, 1}, float[4] b = {0, 0, 0, 0},
     float k = {-0.63}, float c = {0.3}> {
    sh = Cast<to = 10>(s) bh = Cast<to = 10>(b) kh = Cast<to = 10>(k) ch = Cast<to = 10>(c)
    n = InstanceNormalization(x, sh, bh) t = Transpose<perm = [0, 1, 2]>(n)
    f = Flatten(t) m = Mul(f, kh) y = Add(m, ch) }""",
    seed=2,
)
"""A chain of half precision, which a node that does nothing ends."""


def test_the_roundings_that_onnx_runtime_leaves_out_are_no_fault_of_equality():
    def without(model):
        result = EliminateNoopTranspose()(model)
        assert result.modified
        return result.model

    another_number = CHAIN.with_other("{0.3}", "{0.3003}")
    assert attempt(CHAIN, without, contract=Equality()).fault is None
    assert attempt(CHAIN, another_number, contract=Equality()).fault is not None


STEPS = """<ir_version: 10, opset_import: ["" : 21]> g (int8[64] n, bool c) => (float[64] y)
    <float s = {1}, uint8 z = {128}, float a = {0.1}, float b = {5}> {
    m = Cast<to = 1>(n) k = Mul(m, a) x = Mul(k, b) BODY }"""
"""Half of the elements of x are next to where a quantizer of steps of 1 rounds."""
PAIR = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"
IN_BODY = """y = If(c)<then_branch = t () => (float[64] p) { q = QuantizeLinear(x, s, z)
    p = DequantizeLinear(q, s, z) },
    else_branch = e () => (float[64] r) { r = Identity(x) }>"""
DYNAMIC = "q, s2, z2 = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s2, z2)"
TWO_PRODUCTS = "k = Mul(m, a) x = Mul(k, b)"


@pytest.mark.parametrize("body", [PAIR, IN_BODY, DYNAMIC])
def test_an_element_next_to_a_step_of_a_quantizer_may_be_a_step_off(body):
    model = Fixed(STEPS.replace("BODY", body))
    for half, right in ((0.5, True), (0.51, False)):
        once = f"h = Constant<value_float = {half}>() x = Mul(m, h)"
        trial = attempt(model, model.with_other(TWO_PRODUCTS, once), contract=Tolerance())
        assert trial.judged
        assert (trial.fault is None) is right
    assert attempt(model, model.with_other(TWO_PRODUCTS, once)).fault is not None


LOWEST = Fixed("""<ir_version: 8, opset_import: ["" : 18]>
    g (float[1,1,6] x) => (float[1,1,4] y) { i = Constant<value_float=-inf>() t = Add(x, i)
    y = MaxPool<kernel_shape = [3]>(t) }""")
"""Of -inf, ONNX Runtime's MaxPool makes the lowest finite number."""


def test_windows_of_minus_infinity_that_are_as_the_standard_says_are_no_fault():
    def lowered(model):
        ShapeInference()(model)
        result = LowerMaxPool(assume_no_nan=True)(model)
        assert result.modified
        return result.model

    trial = attempt(LOWEST, lowered, contract=Tolerance())
    assert (trial.judged, trial.fault) == (True, None)


@pytest.mark.parametrize("wrong", ["Neg(s)", "Max(s, n)"])
def test_what_the_standard_does_not_say_of_such_windows_is_a_fault(wrong):
    pool = "MaxPool<kernel_shape = [3]>(t)"
    new = f"s = {pool} n = Constant<value_float=-7.0>() y = {wrong}"
    trial = attempt(LOWEST, LOWEST.with_other(f"y = {pool}", new), contract=Tolerance())
    assert trial.judged
    assert trial.fault is not None


def test_one_model_in_eight_has_its_nodes_out_of_order():
    seen = []

    def order(model):
        late = any(topological_order(graph) != list(graph) for graph in all_graphs(model))
        seen.append(late)
        return TopologicalSort()(model).model

    for recipe in recipes(60, seed=4):
        before = len(seen)
        trial = attempt(recipe, order, disorder=True)
        assert trial.fault is None
        if len(seen) > before and recipe.seed % 8:
            assert not seen[-1]
    assert any(seen)
    assert fuzz_pass(TopologicalSort, seconds=600, models=40).changed


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        (product_is_sum, "differ"),
        (loses_an_output, "v"),
        (raises, "it raised KeyError"),
        (dangling, "nowhere"),
    ],
)
def test_a_wrong_pass_is_found(transform, told):
    found = faults(transform, 60)
    assert found
    assert any(told in trial.fault for trial in found)
    assert all(trial.before for trial in found)
