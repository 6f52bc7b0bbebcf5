"""Parts of a model behave by themselves as they do within it."""

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.runtime.ort import OnnxRuntimeEngine, rounding_engine
from onnx_passes.tuning.format_scores import Scorer, negate_outputs
from onnx_passes.tuning.groups import BUILTIN, partition, prepare
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import Task
from tests.tables import each_of, outputs_of


def constant(name, array):
    kind, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(array.shape)
    tensor = ir.tensor(array, name=name)
    return ir.Value(name=name, type=kind, shape=shape, const_value=tensor)


def layers(count):
    rng = np.random.default_rng(0)
    x = ir.Value(name="x0", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["n", 64]))
    weights, nodes, last = [], [], x
    for i in range(count):
        names = {f"w{i}": rng.normal(size=(64, 64)) / 8, f"b{i}": rng.normal(size=64)}
        own = [constant(name, array.astype(np.float32)) for name, array in names.items()]
        weights += own
        nodes.append(ir.node("Gemm", [last, *own], name=f"layer{i}"))
        nodes[-1].outputs[0].name = f"y{i}"
        nodes.append(ir.node("Relu", nodes[-1].outputs, name=f"relu{i}"))
        last = nodes[-1].outputs[0]
        last.name = f"x{i + 1}"
    last.type, last.shape = x.type, x.shape
    imports = {"": 21}
    graph = ir.Graph([x], [last], nodes=nodes, initializers=weights, opset_imports=imports)
    return prepare(ir.Model(graph, ir_version=10))


@each_of("name", "float16", "int8-weights", "int4-weights")
def test_a_part_moves_the_outputs_as_it_does_within_the_model(name):
    """An engine that fuses a part by itself in another way would compute it in integers."""
    model, engine = layers(3), OnnxRuntimeEngine(optimization="all")
    feeds = [{"x0": np.random.default_rng(1).normal(size=(16, 64)).astype(np.float32)}]
    groups = partition(model, [name], {}, 8)
    formats = {"float32": BUILTIN["float32"], name: BUILTIN[name]}
    budget = LossBudget({"snr": (10.0, math.inf)})
    task = Task(model, groups, formats, engine, "size", budget, feeds, feeds)
    scorer = Scorer(model, groups, formats, engine, "size", feeds, task.known)
    scores = [score for group in groups for score in scorer.score(group)]
    found = [score for score in scores if score.format == name]
    old = outputs_of(engine, model, feeds[0])["x3"]
    assert [score.refused for score in found] == [""] * 3
    for score in found:
        alone = task.build({score.group: name})
        moved = outputs_of(rounding_engine(engine, alone), alone, feeds[0])["x3"] - old
        np.testing.assert_allclose(score.effect[0]["x3"], moved, atol=1e-5)
        assert np.abs(moved).max() > 1e-4


def test_ends_of_the_model_and_other_types_are_not_negated():
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([3]))
    nodes = [
        ir.node("Abs", [x], name="a"),
        ir.node("Neg", [x], name="Neg"),
        ir.node("IsNaN", [x], name="c"),
    ]
    ends = [node.outputs[0] for node in nodes]
    kinds = [ir.DataType.FLOAT, ir.DataType.FLOAT, ir.DataType.BOOL]
    for value, name, kind in zip(ends, ("kept", "read", "bool"), kinds, strict=True):
        value.name, value.type, value.shape = name, ir.TensorType(kind), x.shape
    model = ir.Model(ir.Graph([x], ends, nodes=nodes, opset_imports={"": 21}), ir_version=10)
    before = ir.to_proto(model)
    made, negated = negate_outputs(model, {"kept"})
    assert ir.to_proto(model) == before
    assert list(negated.values()) == ["read"]
    with OnnxRuntimeEngine(optimization="none").prepare(made) as session:
        found = session.run({"x": np.array([1, -2, 3], np.float32)})
    assert set(found) == {"kept", "bool", *negated}
    np.testing.assert_array_equal(found[next(iter(negated))], [1, -2, 3])
