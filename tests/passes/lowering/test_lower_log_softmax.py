import pytest

from tests.tables import pass_cases


@pytest.mark.parametrize("call", ["LogSoftmax(x)"])
def test_fires(call, lowers_elementwise):
    kinds = lowers_elementwise(call, 13, types=("float", "float16"))
    assert "LogSoftmax" not in kinds


def test_becomes_primitives(lowers):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[2,N] x) => (float[2,N] y)'
    kinds = lowers(text + " { y = LogSoftmax(x) }")
    assert kinds == ["ReduceMax", "Sub", "Exp", "ReduceSum", "Log", "Sub"]


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone("LogSoftmax(x)", 20)


def test_leaves_old_opsets_alone(leaves_alone):
    text = '<ir_version: 7, opset_import: ["" : 6]> g (float[2] x) => (float[2] y)'
    leaves_alone(text + " { y = LogSoftmax(x) }")


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
@pytest.mark.parametrize("axis", [0, 1])
def test_old_opsets_flatten(opset, axis, lowers):
    lowers(
        f"""<ir_version: 8, opset_import: ["" : {opset}]> g
        (float[2,3,4] x) => (float[2,3,4] y) {{ y = LogSoftmax<axis = {axis}>(x) }}""",
    )


test_cases = pass_cases("""
leaves doubles alone: (double[2] x) => (double[2] y) { y = LogSoftmax(x) }
""")
