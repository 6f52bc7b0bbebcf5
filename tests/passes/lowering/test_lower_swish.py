from tests.passes.lowering.forms import elementwise

test_lowers = elementwise("Swish(x)", 24, "Sigmoid Mul", "Swish<alpha = 1.7>(x)")
