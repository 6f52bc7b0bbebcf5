import numpy as np
import pytest

from onnx_passes.passes.precision.quantize_dynamic import QuantizeDynamic


@pytest.mark.parametrize("optimization", ["none", "all"])
@pytest.mark.parametrize(
    "options",
    [{}, {"weights": "uint8"}, {"per_channel": False}, {"reduce_range": True}],
    ids=str,
)
def test_digits_are_read_as_before(digits, images, run, options, optimization):
    model = digits()
    assert QuantizeDynamic(least=1, **options).call(model).modified
    assert [n.op_type for n in model.graph].count("MatMulInteger") == 2
    (old,), (new,) = (run(m, {"image": images}, optimization) for m in (digits(), model))
    assert 0 < np.abs(old - new).max() < 1
    assert (old.argmax(1) == new.argmax(1)).mean() >= 0.99


def test_reduced_weights_use_seven_bits(digits):
    model = digits()
    QuantizeDynamic(least=1, reduce_range=True).call(model)
    integers = [v.const_value.numpy() for v in model.graph.initializers.values()]
    integers = [array for array in integers if array.dtype == np.int8]
    assert integers
    assert all(array.min() >= -64 and array.max() <= 63 for array in integers)


def test_readers_share_one_quantiser(typed, run):
    model = typed("""(float[2,2] x) => (float[2,2] y, float[2,2] z)
        <float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {1, 0, 0, 1}, float[2] c = {10, 20}>
        { y = MatMul(x, w) z = Gemm <transB = 1> (x, v, c) }""")
    QuantizeDynamic(least=1).call(model)
    assert [n.op_type for n in model.graph].count("DynamicQuantizeLinear") == 1
    y, z = run(model, {"x": np.eye(2, dtype=np.float32)})
    np.testing.assert_allclose(y, [[1, 2], [3, 4]], atol=0.05)
    np.testing.assert_allclose(z, [[11, 20], [10, 21]], atol=0.05)


def test_a_product_of_computed_values_stays(typed):
    model = typed("(float[2,2] x, float[2,2] z) => (float[2,2] y) { y = MatMul(x, z) }")
    assert not QuantizeDynamic(least=0).call(model).modified
