import random
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.bench.compiler_support import parts_of
from onnx_passes.errors import ModelError
from onnx_passes.model.load import load_model
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, outputs_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"
HEAD = '<ir_version: 10, opset_import: ["": 20]> main '


def of_text(text):
    model = ir.from_onnx_text(HEAD + text)
    infer_shapes(model)
    return model


def run_all(parts, feeds):
    known = dict(feeds)
    for part in parts:
        wanted = {v.name: known[v.name] for v in part.model.graph.inputs}
        with OnnxRuntimeEngine().prepare(part.model) as session:
            known |= session.run(wanted)
    return known


@each_of("seed", *range(5))
def test_parts_run_one_after_the_other_give_what_the_model_gives(seed):
    model = load_model(DIGITS).model
    infer_shapes(model)
    apart = set(random.Random(seed).sample(list(model.graph), 5))
    parts = parts_of(model, apart)
    names = {node.outputs[0].name for node in apart}
    for part in parts:
        made = {node.outputs[0].name for node in part.model.graph}
        constants = {n.outputs[0].name for n in part.model.graph if n.op_type == "Constant"}
        assert not made & names if part.supported else made - constants <= names
    x = np.random.default_rng(seed).random((3, 1, 8, 8), np.float32)
    whole = outputs_of(OnnxRuntimeEngine(), model, {"image": x})
    found = run_all(parts, {"image": x})
    for name, array in whole.items():
        np.testing.assert_array_equal(found[name], array)


def test_what_does_not_depend_on_a_rejected_node_stays_in_the_first_part():
    model = of_text("""(float[2] a) => (float[2] y, float[2] z)
        { b = Relu(a) c = Neg(b) y = Abs(c) d = Exp(a) z = Tanh(d) }""")
    (neg,) = [node for node in model.graph if node.op_type == "Neg"]
    sizes = [(part.supported, len(part.model.graph)) for part in parts_of(model, {neg})]
    assert sizes == [(True, 3), (False, 1), (True, 1)]


def test_constants_go_to_each_part_that_reads_them():
    model = of_text("""(float[2] a) => (float[2] y, float[1] k)
        { k = Constant<value=float[1]{2.0}>() b = Mul(a, k) c = Neg(b) y = Mul(c, k) }""")
    (neg,) = [node for node in model.graph if node.op_type == "Neg"]
    parts = parts_of(model, {neg})
    assert [[v.name for v in part.model.graph.inputs] for part in parts] == [
        ["a"],
        ["b"],
        ["c"],
    ]
    found = run_all(parts, {"a": np.ones(2, np.float32)})
    assert found["y"].tolist() == [-4, -4]
    assert found["k"].tolist() == [2]


def test_a_cut_at_an_unknown_type_is_refused():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 20, "my": 1]>
        main (float[2] a) => (float[2] y) { b = my.Op(a) y = Relu(b) }""")
    with pytest.raises(ModelError, match="'b': its type is not known"):
        parts_of(model, {model.graph[0]})
