import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import OptionError, PassError
from onnx_passes.passes.convert.convert_layout import ConvertLayout
from onnx_passes.passes.registry import lookup
from onnx_passes.testing import assert_leaves_alone, assert_verified, parse
from onnx_passes.verify.snapshot import Snapshot
from tests.tables import each_of

CONV = """(float[N,3,5,4] x, float[2,3,1,1] w) => (float[N,2,5,4] y)
{ t = Exp(x) y = Conv(t, w) }"""


def converted(text, **options):
    model = parse(text)
    before, pass_ = Snapshot(model), ConvertLayout(**options)
    assert pass_(model).modified
    assert_verified(pass_, before, model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


def operators(model):
    return [node.op_type for node in model.graph]


def shape(value):
    return [str(dim) for dim in value.shape]


def test_channels_last_at_both_ends():
    model = converted(CONV, inputs={"x": "nhwc"}, outputs={"y": "nhwc"})
    assert operators(model) == ["Transpose", "Exp", "Conv", "Transpose"]
    assert shape(model.graph.inputs[0]) == ["N", "5", "4", "3"]
    assert shape(model.graph.outputs[0]) == ["N", "5", "4", "2"]
    assert_leaves_alone(ConvertLayout(inputs={"x": "nhwc"}, outputs={"y": "nhwc"}), model)


@each_of(
    "layout, sizes", ("ncw", "3,4"), ("nwc", "4,3"), ("ncdhw", "3,4,5,6"), ("ndhwc", "4,5,6,3")
)
def test_layouts_of_other_ranks(layout, sizes):
    first, *others = sizes.split(",")
    other = [others[-1], first, *others[:-1]] if layout.endswith("c") else [*others, first]
    y = ",".join("ABCDE"[: len(layout)])
    text = f"(float[N,{','.join(other)}] x) => (float[{y}] y) {{ y = Relu(x) }}"
    model = converted(text, inputs={"x": layout})
    assert shape(model.graph.inputs[0]) == ["N", *sizes.split(",")]


def test_a_transpose_that_undoes_it_goes_behind_it():
    model = converted(
        """(float[N,3,5,4] x) => (float[N,5,4,3] y)
        { a = Neg(x) y = Transpose <perm = [0, 2, 3, 1]> (a) }""",
        inputs={"x": "nhwc"},
    )
    for name in ("sink-transposes", "eliminate-double-transpose"):
        (cls,) = lookup(name)
        cls().call(model)
    assert operators(model) == ["Neg"]


def test_a_body_reads_the_transposed():
    converted(
        """(bool c, float[1,3,2,2] x) => (float[1,3,2,2] y) { y = If(c) <
        then_branch = t () => (float[1,3,2,2] p) { p = Exp(x) },
        else_branch = e () => (float[1,3,2,2] q) { q = Neg(x) }> }""",
        inputs={"x": "nhwc"},
    )


def test_refuses():
    with pytest.raises(PassError, match="rank 2, and no channels"):
        ConvertLayout(inputs={"x": "nhwc"})(
            parse("(float[2,3] x) => (float[2,3] y) { y = Exp(x) }")
        )
    with pytest.raises(PassError, match="no input 'q'"):
        ConvertLayout(inputs={"q": "nhwc"})(parse(CONV))
    with pytest.raises(OptionError, match="nhwc"):
        ConvertLayout(inputs={"x": "hwc"})


def test_the_map_says_the_same_without_a_graph():
    mapped = ConvertLayout(inputs={"x": "nhwc"}).interface_map(parse(CONV))
    array = np.arange(60).reshape(1, 3, 5, 4)
    _, there = mapped.inputs("x", array)
    assert there.shape == (1, 5, 4, 3)
    assert there[0, 2, 1, 0] == array[0, 0, 2, 1]
    assert (mapped.back("x", there)[1] == array).all()


def test_leaves_alone(leaves_alone):
    leaves_alone(CONV)
