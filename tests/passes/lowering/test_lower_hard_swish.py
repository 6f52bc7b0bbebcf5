from tests.passes.lowering.forms import elementwise

test_lowers = elementwise("HardSwish(x)", 14, "Add Min Max Div Mul")
