from tests.passes.lowering.forms import elementwise

test_lowers = elementwise(
    "Mish(x)", 18, "Abs Neg Exp Add Sub Log Div Mul Equal Where Max Add Tanh Mul"
)
