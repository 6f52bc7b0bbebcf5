"""Operators whose formulas have roots and powers, in double precision, beside ONNX Runtime."""

import math
import operator

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.certifying.replay import EngineFailure, PairRunner
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.reals import RealSemantics
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.semantics import Semantics, Unsupported
from tests.tables import each_of, each_row

PRIMITIVES = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "max": max,
    "min": min,
}


class Doubles(Semantics):
    """Python's floats."""

    def literal(self, value, dtype):
        return value

    def variable(self, name, dtype):
        raise NotImplementedError

    def number(self, scalar, dtype):
        return scalar

    def apply(self, name, dtype, *args):
        return PRIMITIVES[name](*args)

    def cast(self, scalar, source, target):
        return scalar

    def function(self, name, dtype, *args):
        raise NotImplementedError


def some(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


IMAGE = some(2, 4, 3, 2)
HEADS = [some(2, 4, 3, 6), some(2, 2, 5, 6, seed=1), some(2, 2, 5, 3, seed=2)]
SEQUENCE = some(2, 3, 5)
FORMULAS = [
    ("InstanceNormalization", [IMAGE, some(4), some(4, seed=1)], {"epsilon": 0.1}, 18),
    ("GroupNormalization", [IMAGE, some(4), some(4, seed=1)], {"num_groups": 2}, 21),
    ("GlobalAveragePool", [SEQUENCE], {}, 18),
    ("GlobalMaxPool", [SEQUENCE], {}, 18),
    ("RotaryEmbedding", [some(2, 3, 4, 6), some(2, 4, 3), some(2, 4, 3, seed=1)], {}, 23),
    ("ConvTranspose", [some(2, 4, 3, 2), some(4, 3, 2, 3, seed=1)], {}, 18),
    (
        "ConvTranspose",
        [some(2, 4, 3, 2), some(4, 3, 2, 3, seed=1), some(6)],
        {
            "group": 2,
            "strides": [2, 3],
            "dilations": [1, 2],
            "pads": [0, 1, 1, 0],
            "output_padding": [1, 0],
        },
        18,
    ),
    ("Attention", HEADS, {}, 23),
    ("Attention", HEADS, {"scale": 0.25}, 23),
    ("Attention", [*HEADS, some(3, 5)], {}, 23),
    ("Attention", [*HEADS, some(2, 1, 3, 5)], {}, 24),
]


def evaluated(op_type, arrays, attributes, opset):
    tensors = [ir.tensor(array) for array in arrays]
    inputs = [
        ir.val(f"x{k}", dtype=t.dtype, shape=list(t.shape.numpy()))
        for k, t in enumerate(tensors)
    ]
    node = ir.node(op_type, inputs, attributes=attributes)
    node.outputs[0].name = "y"
    graph = ir.Graph(inputs, node.outputs, nodes=[node], opset_imports={"": opset}, name="g")
    model, semantics = ir.Model(graph, ir_version=10), Doubles()
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    given = {n: constant(a, ir.tensor(a).dtype, semantics) for n, a in feeds.items()}
    return model, feeds, evaluate(graph, given, semantics)["y"]


@each_of("op_type, arrays, attributes, opset", *FORMULAS)
def test_the_formula_gives_what_the_engine_gives(op_type, arrays, attributes, opset):
    model, feeds, result = evaluated(op_type, arrays, attributes, opset)
    expected, _ = PairRunner((model, model)).run(feeds)
    assert not isinstance(expected, EngineFailure), expected
    assert result.shape == expected[0].shape
    np.testing.assert_allclose(result.data.astype(float), expected[0], rtol=2e-3, atol=2e-5)


@each_row("""op_type | arrays | attributes
- Attention | =HEADS | ={'is_causal': 1}
- Attention | =HEADS | ={'softcap': 2.0}
- Attention | =[some(0, 2, 3, 4)] * 3 | ={}
- Attention | =[*HEADS, some(3, 4)] | ={}
- RotaryEmbedding | =[some(2, 3, 4, 6), some(2, 4, 3), some(2, 4, 3)] | ={'interleaved': 1}
""")
def test_what_the_formula_leaves_out_is_not_evaluated(op_type, arrays, attributes):
    with pytest.raises(Unsupported):
        evaluated(op_type, arrays, attributes, 23)


def test_an_element_alone_is_a_tensor_of_rank_0():
    # numpy hands out the element where an index leaves no axis: 'object' has no 'reshape'.
    element = object()
    assert Tensor(element, ir.DataType.FLOAT).shape == ()
    assert Tensor(element, ir.DataType.FLOAT).data[()] is element


def test_roots_of_constants_are_near_where_that_is_asked_for():
    z3 = pytest.importorskip("z3")
    two = z3.RealVal(2)
    near = RealSemantics(near=True).apply("sqrt", ir.DataType.FLOAT, two)
    assert abs(float(near.as_fraction()) - 2**0.5) < 1e-15
    assert not z3.is_rational_value(RealSemantics().apply("sqrt", ir.DataType.FLOAT, two))
    unknown = RealSemantics(near=True).apply("sqrt", ir.DataType.FLOAT, z3.Real("x"))
    assert not z3.is_rational_value(unknown)
