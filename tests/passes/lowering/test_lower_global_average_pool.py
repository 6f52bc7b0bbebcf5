from tests.tables import each_of


@each_of("opset", 7, 13, 18, 20)
@each_of("shape", "2,3,4", "N,3,4,5", "N,C,H,W")
def test_fires(shape, opset, lowers):
    ones = ",".join([*shape.split(",")[:2], *["1"] * (shape.count(",") - 1)])
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[{shape}] x)
    => (float[{ones}] y) {{ y = GlobalAveragePool(x) }}"""
    assert lowers(text) == ["ReduceMean"]


def test_half_precision_is_reduced_in_single_precision(lowers):
    text = "(float16[1,2,99,9] x) => (float16[1,2,1,1] y) { y = GlobalAveragePool(x) }"
    assert lowers(text) == ["Cast", "ReduceMean", "Cast"]


@each_of("shape", "2,3", "2,3,0")
def test_leaves_alone(shape, leaves_alone):
    ones = "2,3" if shape == "2,3" else "2,3,1"
    leaves_alone(f"(float[{shape}] x) => (float[{ones}] y) {{ y = GlobalAveragePool(x) }}")
