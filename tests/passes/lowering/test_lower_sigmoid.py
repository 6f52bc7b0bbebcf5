from tests.passes.lowering.forms import elementwise

test_lowers = elementwise(
    "Sigmoid(x)", 13, "Neg Exp Add Div", types=("float", "float16", "double"), old=6
)


def test_small_results_keep_their_digits_in_half_precision(lowers):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float16[4] x) => (float16[4] y)'
    kinds = lowers(text + " { y = Sigmoid(x) }")
    assert kinds == ["Cast", "Neg", "Exp", "Add", "Div", "Cast"]
