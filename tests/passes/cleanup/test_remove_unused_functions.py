MODEL = """<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
m (bool c, float[N] x) => (float[N] y) {{ y = If(c) <
    then_branch = g () => (float[N] t) {{ t = {call} }},
    else_branch = h () => (float[N] e) {{ e = Neg(x) }}> }}
<domain: "l", opset_import: ["" : 20, "l" : 1]> Outer (a) => (b) {{ b = l.Inner(a) }}
<domain: "l", opset_import: ["" : 20]> Inner (a) => (b) {{ b = Exp(a) }}"""


def names(model):
    return sorted(function.name for function in model.functions.values())


def test_removes_what_is_called_only_by_unused_functions(rewrites):
    assert names(rewrites(MODEL.format(call="Exp(x)"))) == []


def test_keeps_what_is_called_from_a_function_that_is_called(leaves_alone):
    assert names(leaves_alone(MODEL.format(call="l.Outer(x)"))) == ["Inner", "Outer"]


def test_removes_the_caller_and_keeps_the_called(rewrites):
    assert names(rewrites(MODEL.format(call="l.Inner(x)"))) == ["Inner"]
