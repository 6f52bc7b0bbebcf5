import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import PassError
from onnx_passes.passes.convert.freeze_dims import FreezeDims
from onnx_passes.passes.convert.unfreeze_dims import UnfreezeDims
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import assert_leaves_alone, assert_verified, parse
from onnx_passes.verify.snapshot import Snapshot
from tests.tables import each_of, outputs_of

NET = """(float[1,2,4,4] x, float[3,2,3,3] w, float[12,5] m) => (float[1,5] y, int64[4] s)
<int64[2] flat = {%s}>
{ c = Conv(x, w) r = Relu(c) [flatten] f = Reshape(r, flat) y = MatMul(f, m) s = Shape(r) }"""
BATCH = {"dims": {"x": {0: "batch"}}}


def unfrozen(text, **options):
    model = parse(text)
    before, pass_ = Snapshot(model), UnfreezeDims(**options)
    assert pass_(model).modified
    assert_verified(pass_, before, model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert_leaves_alone(UnfreezeDims(**options), model)
    return before.model, model


def dims(value):
    return [str(dim) for dim in value.shape]


def run(model, feeds):
    return outputs_of(OnnxRuntimeEngine(), model, feeds)


def assert_batches_are_stacks(frozen, model, key="y"):
    """Compare a batch with its samples one by one, each on the model as it was."""
    random = np.random.default_rng(0)
    weights = {
        v.name: random.normal(size=[int(d) for d in v.shape]).astype(np.float32)
        for v in frozen.graph.inputs[1:]
    }
    shape = [int(d) for d in frozen.graph.inputs[0].shape]
    for batch in (1, 2, 5, 8):
        x = random.normal(size=[batch, *shape[1:]]).astype(np.float32)
        together = run(model, {"x": x, **weights})[key]
        apart = [run(frozen, {"x": x[i : i + 1], **weights})[key] for i in range(batch)]
        np.testing.assert_allclose(together, np.concatenate(apart), rtol=1e-5, atol=1e-5)


@each_of("target", "-1, 12", "0, 12", "0, -1")
def test_outputs_follow_and_batches_are_stacks_of_samples(target):
    frozen, model = unfrozen(NET % target, **BATCH)
    assert dims(model.graph.inputs[0]) == ["batch", "2", "4", "4"]
    assert dims(model.graph.outputs[0]) == ["batch", "5"]
    assert dims(model.graph.outputs[1]) == ["4"]
    assert_batches_are_stacks(frozen, model)


@each_of("target", "1, 12", "1, -1")
def test_a_baked_in_target_is_refused_by_name_or_repaired(target):
    with pytest.raises(PassError, match=r"old size: 'flatten' to \[1, ") as caught:
        UnfreezeDims(**BATCH)(parse(NET % target))
    assert "repair: true" in str(caught.value)
    frozen, model = unfrozen(NET % target, **BATCH, repair=True)
    assert dims(model.graph.outputs[0]) == ["batch", "5"]
    assert_batches_are_stacks(frozen, model)


def test_what_cannot_be_repaired_is_refused_with_repair_too():
    text = (
        """(float[2,6] x) => (float[12] y) <int64[1] s = {12}> { [fold] y = Reshape(x, s) }"""
    )
    with pytest.raises(PassError, match=r"'fold' to \[12\]") as caught:
        UnfreezeDims(**BATCH, repair=True)(parse(text))
    assert "has to be computed" in str(caught.value)


def test_other_operators_that_contradict_are_named():
    text = (
        """(float[2,6] x) => (float[2,6] y) <float[2,1] w = {1, 2}> { [sum] y = Add(x, w) }"""
    )
    with pytest.raises(PassError, match=r"cannot take batch = 3: .*sum"):
        UnfreezeDims(**BATCH)(parse(text))


def test_dimensions_that_follow_otherwise_become_dynamic_without_a_name():
    _, model = unfrozen(
        "(float[2,6] x) => (float[4,6] y) { y = Concat <axis = 0> (x, x) }", **BATCH
    )
    assert model.graph.outputs[0].shape[0] == ir.SymbolicDim(None)
    assert model.graph.outputs[0].shape[1] == 6


def test_two_dimensions_are_kept_apart():
    _, model = unfrozen(
        "(float[2,2] x) => (float[2,2] y) { y = Transpose(x) }",
        dims={"x": {0: "rows", -1: "columns"}},
    )
    assert dims(model.graph.outputs[0]) == ["columns", "rows"]


def test_it_undoes_freeze_dims():
    model = parse("(float[batch,3] x) => (float[batch,3] y) { t = Exp(x) y = Neg(t) }")
    FreezeDims(dims={"batch": 4})(model)
    UnfreezeDims(**BATCH)(model)
    values = (*model.graph.inputs, *model.graph.outputs)
    assert [dims(value) for value in values] == [["batch", "3"]] * 2


@each_of(
    "options, told",
    ({"dims": {"q": {0: "n"}}}, "no input 'q'"),
    ({"dims": {"x": {7: "n"}}}, "axis 7 of input 'x' is not there"),
    ({"dims": {"x": {0: "n", 1: "n"}}}, "is 2, and 'n' is 1 elsewhere"),
    ({"dims": {"z": {0: "n"}}}, "dynamic already"),
)
def test_refuses(options, told):
    text = "(float[1,2] x, float[k] z) => (float[1,2] y) { y = Exp(x) }"
    with pytest.raises(PassError, match=told):
        UnfreezeDims(**options)(parse(text))


def test_an_output_whose_sizes_are_not_known_any_more_keeps_its_rank():
    model = parse("""(float[2,3] x) => (float[2,3] y) {
        n = Constant<value = int64 {1}>() c = Constant<value = bool {1}>()
        y = Loop(n, c, x) <body = b (int64 i, bool go, float[2,3] a) => (bool on, float[2,3] o)
        { on = Identity(go) o = Identity(a) }> }""")
    UnfreezeDims(dims={"x": {0: "any"}})(model)
    (output,) = model.graph.outputs
    assert len(output.shape) == 2


def test_functions_are_not_looked_into():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[1,8] x) => (float[1,8] y) { y = l.F(x) }
        <domain: "l", opset_import: ["" : 20]> F (a) => (b) { b = Exp(a) }""")
    with pytest.raises(PassError) as caught:
        UnfreezeDims(**BATCH)(model)
    assert "inline-functions" in str(caught.value)


def test_leaves_alone(leaves_alone):
    leaves_alone(NET % "1, 12")
