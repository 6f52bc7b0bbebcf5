from tests.passes.lowering.elementwise import elementwise

test_lowers = elementwise("HardSwish(x)", 14, "Add Min Max Div Mul")
