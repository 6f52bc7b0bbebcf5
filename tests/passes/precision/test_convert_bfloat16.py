import numpy as np
import onnx_ir as ir

from onnx_passes.passes.precision.convert_bfloat16 import ConvertBfloat16


def test_what_has_no_kernel_is_kept_and_told(digits, images, run):
    model, pass_ = digits(), ConvertBfloat16()
    pass_.call(model)
    assert any("no kernel in bfloat16" in note for note in pass_.context.notes)
    (old,), (new,) = (run(m, {"image": images}) for m in (digits(), model))
    assert (old.argmax(1) == new.argmax(1)).mean() > 0.99


def test_rounding_around_nodes_shows_what_another_engine_would_compute(digits, images, run):
    model, pass_ = digits(), ConvertBfloat16(missing="round")
    assert pass_.call(model).modified
    (old,), (new,) = (run(m, {"image": images}) for m in (digits(), model))
    assert 0.01 < np.abs(old - new).max() < 1.0


def test_numbers_are_rounded_to_eight_bits(typed, run):
    model = typed("(float[4] x) => (float[4] y) { y = Add(x, x) }")
    assert ConvertBfloat16(missing="round").call(model).modified
    x = np.array([1.0, 1.01, np.pi, 1e30], np.float32)
    low = ir.DataType.BFLOAT16.numpy()
    wanted = (2 * x.astype(low).astype(np.float32)).astype(low).astype(np.float32)
    (y,) = run(model, {"x": x})
    np.testing.assert_array_equal(y, wanted)


def test_an_output_that_is_read_inside_is_rounded_for_both(typed, run):
    model = typed("(float[2] x) => (float[2] a, float[2] y) { a = Add(x, x) y = Neg(a) }")
    ConvertBfloat16(missing="round", operators=["Add"]).call(model)
    a, y = run(model, {"x": np.array([1.01, 3.3], np.float32)})
    np.testing.assert_array_equal(a, -y)
    assert [v.name for v in model.graph.outputs] == ["a", "y"]


def test_for_other_engines_all_is_converted(typed):
    model = typed("(float[2] x, float[2] z) => (float[2] y) { a = Add(x, z) y = Mul(a, z) }")
    assert ConvertBfloat16(missing="convert", io="convert").call(model).modified
    assert [n.op_type for n in model.graph] == ["Add", "Mul"]
    assert {v.dtype for n in model.graph for v in n.outputs} == {ir.DataType.BFLOAT16}
