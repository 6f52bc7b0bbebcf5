"""The tolerance of an output is that of the coarsest rounding that it depends on."""

import onnx_ir as ir
import pytest

from onnx_passes.contracts import Tolerance
from onnx_passes.verify.low_precision import low_tolerances

HALF, BRAIN = Tolerance(4 * 2**-10, 1e-5), Tolerance(4 * 2**-7, 1e-5)
BYTE = Tolerance(0.25, 2**-16)


def tolerances(nodes, outputs="float[4] y", inputs="float[4] x, bool c", more=""):
    return low_tolerances(
        ir.from_onnx_text(
            f"""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
            g ({inputs}) => ({outputs}) {{ {nodes} }} {more}"""
        )
    )


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Exp(x)", {}),
        ("a = Cast<to=10>(x) b = Exp(a) y = Cast<to=1>(b)", {"y": HALF}),
        ("a = Cast<to=16>(x) b = Cast<to=10>(a) y = Cast<to=1>(b)", {"y": BRAIN}),
        ("a = Cast<to=19>(x) b = Cast<to=10>(a) y = Cast<to=1>(b)", {"y": BYTE}),
        ("a = Cast<to=10>(x) s = Shape(a) y = Expand(x, s)", {}),
        ("k = Constant<value = float16 {2}>() b = Cast<to=1>(k) y = Mul(x, b)", {}),
        ("y = If(c)<then_branch = t () => (float[4] p) { a = Cast<to=10>(x)"
         " p = Cast<to=1>(a) }, else_branch = e () => (float[4] q) { q = Identity(x) }>",
         {"y": HALF}),
        ("a = Cast<to=10>(x) b = Cast<to=1>(a)"
         " y = If(c)<then_branch = t () => (float[4] p) { p = Exp(b) },"
         " else_branch = e () => (float[4] q) { q = Identity(x) }>", {"y": HALF}),
    ],
)  # fmt: skip
def test_an_output_has_the_tolerance_of_the_coarsest_type(nodes, expected):
    assert tolerances(nodes) == expected


def test_an_input_of_half_precision_has_no_error_of_its_own():
    assert tolerances("y = Cast<to=1>(h)", inputs="float16[4] h") == {}
    found = tolerances("a = Exp(h) y = Cast<to=1>(a)", inputs="float16[4] h")
    assert found == {"y": HALF}


def test_integers_stay_exact():
    nodes = "a = Cast<to=10>(x) y = Cast<to=1>(a) n = Cast<to=7>(a)"
    assert tolerances(nodes, "float[4] y, int64[4] n") == {"y": HALF}


def test_a_function_that_casts_is_as_coarse_as_its_casts():
    function = """<domain: "local", opset_import: ["" : 21]>
        f (u) => (w) { a = Cast<to=16>(u) w = Cast<to=1>(a) }"""
    assert tolerances("y = local.f(x)", more=function) == {"y": BRAIN}
