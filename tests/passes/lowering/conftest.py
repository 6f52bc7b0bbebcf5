"""Assertions on lowering passes: the operator is gone, and what is left computes the same."""

import numpy as np
import pytest

from onnx_passes import testing
from onnx_passes.model.walk import all_nodes

EXTREMES = [
    *(-1e4, -100.0, -20.0, -3.0, -1.0, -1e-3, -0.0),
    *(0.0, 1e-3, 1.0, 3.0, 20.0, 100.0, 1e4),
]
TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16}


@pytest.fixture
def lowers(on_subject, rewrites):
    """Lower a model; returns the operators of the result, Constant left out."""

    @on_subject
    def check(pass_, text, *, after=None, feeds=None):
        before = {node.op_type for node in all_nodes(testing.parse(text))}
        model = rewrites(pass_, text, after, feeds=feeds)
        kinds = [node.op_type for node in all_nodes(model) if node.op_type != "Constant"]
        assert before - {*kinds}, "no operator is gone"
        return kinds

    return check


@pytest.fixture
def lowers_elementwise(on_subject, lowers):
    """Lower an operator on one input: extreme numbers, types, empty, in a branch."""

    @on_subject
    def check(pass_, call, opset, *, types=("float", "float16"), after=None):
        header = f'<ir_version: 8, opset_import: ["" : {opset}]> g '
        if opset > 20:
            header = f'<ir_version: 10, opset_import: ["" : {opset}]> g '
        for dtype in types:
            text = f"{header} ({dtype}[N] x) => ({dtype}[N] y) {{ y = {call} }}"
            numbers = np.array(EXTREMES, TYPES[dtype])
            empty = np.array([], TYPES[dtype])
            goal = None if after is None else f"{header} {after.replace('float', dtype)}"
            lowers(pass_, text, after=goal, feeds=[{"x": numbers}, {"x": empty}])
        inner = call.replace("(x", "(t")
        return lowers(
            pass_,
            f"""{header} (float[2] x, bool c) => (float[2] y) <float[2] t> {{
            t = Neg(x)
            y = If(c) <then_branch = then () => (float[2] p) {{ p = {inner} }},
              else_branch = other () => (float[2] q) {{ q = Identity(t) }}> }}""",
        )

    return check


@pytest.fixture
def leaves_functions_alone(on_subject, leaves_alone):
    """Check that nothing is lowered in a function, whose types depend on the call."""

    @on_subject
    def check(pass_, call, opset=20):
        names = call[call.index("(") + 1 : -1]
        inputs = ", ".join(f"float[2,2] {name}" for name in names.split(", "))
        leaves_alone(
            pass_,
            f"""<ir_version: 10, opset_import: ["" : {opset}, "l" : 1]>
            main ({inputs}) => (float[2,2] y) {{ y = l.f({names}) }}
            <domain: "l", opset_import: ["" : {opset}]> f ({names}) => (y) {{ y = {call} }}""",
        )

    return check
