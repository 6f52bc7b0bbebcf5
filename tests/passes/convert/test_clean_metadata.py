import onnx_ir as ir

from onnx_passes.model.diff import structurally_equal
from onnx_passes.passes.convert.clean_metadata import CleanMetadata
from onnx_passes.testing import parse

MODEL = """(bool c, float[3] x) => (float[3] y) { [branch] y = If(c) <
    then_branch = t () => (float[3] p) { [inner] p = Exp(x) },
    else_branch = e () => (float[3] q) { q = Neg(x) }> }"""


def told():
    model = parse(MODEL)
    inner = next(iter(model.graph[0].attributes["then_branch"].as_graph()))
    for holder in (model, model.graph, model.graph[0], inner, model.graph.inputs[1]):
        holder.doc_string = "a story"
        holder.metadata_props.update({"trace": "line 1", "licence": "MIT"})
    model.producer_name, model.producer_version = "exporter", "1.2"
    return model, inner


def test_drops_stories_and_properties_everywhere():
    model, inner = told()
    assert CleanMetadata(keep=["licence"])(model).modified
    for holder in (model, model.graph, model.graph[0], inner, model.graph.inputs[1]):
        assert not holder.doc_string
        assert holder.metadata_props == {"licence": "MIT"}
    assert (model.producer_name, inner.name) == ("exporter", "inner")
    assert not CleanMetadata(keep=["licence"])(model).modified
    assert structurally_equal(model, parse(MODEL))


def test_producer_and_names_of_nodes_only_if_asked():
    model, inner = told()
    CleanMetadata(doc_strings=False, metadata_props=False, producer=True, node_names=True)(
        model
    )
    assert model.doc_string == inner.doc_string == "a story"
    assert (model.producer_name, model.producer_version, inner.name) == (None, None, None)
    assert b"exporter" not in ir.to_proto(model).SerializeToString()


def test_leaves_alone(leaves_alone):
    leaves_alone(MODEL)
