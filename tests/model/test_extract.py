"""Parts cut out at named values, and cuts that make no sense."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import UsageError
from onnx_passes.model.extract import Cut, extract
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from tests.tables import each_of, outputs_of

FLOAT = ir.DataType.FLOAT
MODEL = """(float[N,2] x, float[N,2] z) => (float[N,2] y, float[N,2] s)
<float[2] w = {2.0, 3.0}, float[N,2] a, float[N,2] b>
{ a = Mul(x, w) b = Neg(a) y = Relu(b) s = Add(a, z) }"""
BRANCH = """<ir_version: 10, opset_import: ["" : 20]>
main (bool c, float[2] x) => (float[2] y)
<float[2] w = {2.0, 3.0}, float[2] a>
{
  a = Abs(x)
  y = If (c) <then_branch = t () => (float[2] q) { p = Mul(a, w) q = Neg(p) },
              else_branch = e () => (float[2] r) { r = Identity(a) }>
}"""


def names(values):
    return [str(value.name) for value in values]


def run(model, **feeds):
    return outputs_of(OnnxRuntimeEngine(), model, feeds)


def test_what_lies_between_two_values_is_cut_out():
    model = parse(MODEL)
    part = extract(model, [Cut("a")], [Cut("y")])
    assert [node.op_type for node in part.graph] == ["Neg", "Relu"]
    assert (names(part.graph.inputs), names(part.graph.outputs)) == (["a"], ["y"])
    assert not part.graph.initializers
    assert np.array_equal(run(part, a=np.array([[-1, 2]], np.float32))["y"], [[1, 0]])
    assert len(model.graph) == 4


def test_a_part_of_a_subgraph_is_cut_out_of_it():
    part = extract(parse(BRANCH), [Cut("a")], [Cut("q", FLOAT)])
    assert [node.op_type for node in part.graph] == ["Mul", "Neg"]
    assert names(part.graph.inputs) == ["a"]
    assert np.array_equal(run(part, a=np.ones(2, np.float32))["q"], [-2, -3])


@each_of(
    "inputs, outputs, told",
    (["aa"], ["y"], r"no value 'aa'\n.*did you mean 'a'"),
    (["a"], ["s"], "the outputs depend on 'z' as well"),
    (["a", "z"], ["y"], "no output depends on the input 'z'"),
    (["y"], ["b"], "the outputs depend on 'x' as well"),
)
def test_cuts_that_make_no_part_are_told(inputs, outputs, told):
    with pytest.raises(UsageError, match=told):
        extract(parse(MODEL), list(map(Cut, inputs)), list(map(Cut, outputs)))


def test_a_type_that_is_not_known_is_asked_for():
    model = parse(MODEL.replace(", float[N,2] a", ""))
    with pytest.raises(UsageError, match="the type of 'a' is not known"):
        extract(model, [Cut("a")], [Cut("y")])
    extract(model, [Cut("a", FLOAT, (1, 2))], [Cut("y")])


def test_a_part_keeps_what_the_model_says_of_itself():
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 17], producer_name:
            "pytorch", producer_version: "2.11", domain: "org.example", model_version: 7,
            doc_string: "of the model">
        g (float[n, 3] x) => (float[n, 3] y) { r = Relu(x) y = Exp(r) }""")
    model.metadata_props["names"] = "{0: 'person'}"
    model.graph.metadata_props["stride"], model.graph.doc_string = "32", "of the graph"
    part = extract(model, outputs=[Cut("r")])
    for field in ("producer_name", "producer_version", "domain", "model_version"):
        assert getattr(part, field) == getattr(model, field)
    assert part.doc_string == model.doc_string == "of the model"
    assert part.metadata_props == {"names": "{0: 'person'}"}
    assert part.graph.metadata_props == {"stride": "32"}
    assert part.graph.doc_string == "of the graph"
    part.metadata_props["names"] = "other"
    assert model.metadata_props["names"] == "{0: 'person'}"
