from tests.passes.lowering.forms import elementwise

test_lowers = elementwise(
    "Gelu(x)", 20, "Div Erf Add Mul Mul", 'Gelu<approximate = "tanh">(x)'
)
