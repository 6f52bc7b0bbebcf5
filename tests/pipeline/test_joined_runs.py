"""Parts that run beside each other compute what each computes alone."""

import numpy as np
import onnx_ir as ir

from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.region import NodeRun, run_joined, run_nodes
from tests.tables import each_row

ENGINE = OnnxRuntimeEngine()
HEAD = """<ir_version: 10, opset_import: ["" : 20]> g (float[N, 4] x) => (float[N, 4] y) """
BEFORE = "{ k = Constant<value_float = 3.0>() a = Mul(x, k) b = Exp(a) y = Neg(b) }"
AFTER = "{ k = Constant<value_float = 5.0>() a = Mul(x, k) b = Exp(a) y = Neg(b) }"


def rows(count, *names):
    draw = np.random.default_rng(count)
    return [
        {name: draw.standard_normal((n + 2, 4), np.float32) for name in names}
        for n in range(count)
    ]


def pieces(before=BEFORE, after=AFTER):
    models = [ir.from_onnx_text(HEAD + text) for text in (before, after)]
    return [
        NodeRun(model, [n for n in model.graph if n.op_type in operators], found)
        for model, operators, found in (
            (models[0], {"Mul", "Exp"}, rows(3, "x")),
            (models[1], {"Mul", "Exp"}, rows(3, "x")),
            (models[1], {"Neg"}, rows(1, "b", "unread")),
            (models[1], set(), rows(2, "b")),
        )
    ]


def test_each_computes_what_it_computes_alone():
    asked = pieces()
    found = run_joined(ENGINE, asked)
    assert found is not None
    for one, together in zip(asked, found, strict=True):
        alone = run_nodes(ENGINE, one.model, one.nodes, one.rows)
        assert len(together) == len(one.rows)
        for row, other in zip(together, alone, strict=True):
            assert row.keys() == other.keys()
            assert all(np.array_equal(row[name], other[name]) for name in row)
    assert not np.array_equal(found[0][0]["a"], found[1][0]["a"])


def test_tensors_that_models_share_keep_their_names():
    weight = ir.tensor(np.ones(4, np.float32), name="w")
    value = ir.Value(name="w", const_value=weight)
    node = ir.Node("", "Mul", [ir.Value(name="x"), value])
    node.outputs[0].name = "y"
    graph = ir.Graph(
        [node.inputs[0]],
        [node.outputs[0]],
        nodes=[node],
        initializers=[value],
        opset_imports={"": 20},
    )
    model = ir.Model(graph, ir_version=10)
    assert run_joined(ENGINE, [NodeRun(model, [node], rows(1, "x"))] * 2) is not None
    assert weight.name == "w"


@each_row("""text
random: { a = Mul(x, x) b = RandomNormalLike(a) y = Exp(b) }
below float32: { h = Cast<to = 10>(x) b = Exp(h) y = Cast<to = 1>(b) }
not valid: { a = Mul(x, x) b = Exp(a, a) y = Neg(b) }
""")
def test_what_depends_on_its_surroundings_runs_alone(text):
    model = ir.from_onnx_text(HEAD + text)
    assert run_joined(ENGINE, [NodeRun(model, list(model.graph), rows(1, "x"))] * 2) is None


def test_a_row_on_which_one_fails_leaves_each_to_run_alone():
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (float[N, 4] x, float[M, 4] z) => (float[K, 4] y) { y = Add(x, z) }"""
    )
    mixed = [{"x": np.ones((2, 4), np.float32), "z": np.ones((3, 4), np.float32)}]
    assert run_joined(ENGINE, [*pieces(), NodeRun(model, list(model.graph), mixed)]) is None
