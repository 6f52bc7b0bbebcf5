import numpy as np

from onnx_passes.passes.precision.quantize_dynamic import QuantizeDynamic
from tests.tables import each_of


@each_of("optimization", "none", "all")
@each_of(
    "options",
    {},
    {"weights": "uint8"},
    {"per_channel": False},
    {"reduce_range": True},
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


@each_of("call, told", ("Conv(x, w)", True), ("Add(x, w)", False))
def test_where_it_converts_nothing_it_names_the_pass_that_has_convolutions(typed, call, told):
    model = typed(f"""(float[1,1,2,2] x) => (float[a,b,c,d] y)
        <float[1,1,1,1] w = {{2}}> {{ y = {call} }}""")
    pass_ = QuantizeDynamic()
    assert not pass_.call(model).modified
    (note,) = (note for note in pass_.context.notes if "nothing to convert" in note)
    assert ("quantize-static (int8-static) converts Conv" in note) == told


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
