import onnx_ir as ir
import pytest

from onnx_passes.model.copy import copy_model, header_difference
from tests.tables import each_of

TEXT = """g (float[N, 2] x, bool c) => (float[N, 2] y) <float[2] w = {1, 2}>
{
    a = Add(x, w)
    y = If(c) <
      then_branch = t () => (float[N, 2] p) { p = my.f<k = 2>(a) },
      else_branch = e () => (float[N, 2] q) { q = Relu(a) }>
}"""
FUNCTION = '<domain: "my", opset_import: ["": 20]> f <k> (i) => (o) { o = Exp(i) }'


def saved(model: ir.Model) -> bytes:
    return ir.to_proto(model).SerializeToString(deterministic=True)


@pytest.fixture
def original(model):
    return model(TEXT, FUNCTION)


def noted(model: ir.Model) -> ir.Node:
    """Note all that a node and its output can hold; return the node."""
    node = model.graph.node(0)
    stage = ir.ModelConfiguration("gpus", 2, ("a", "b"))
    spec = ir.ShardingSpec(value=node.outputs[0], device=(0, 1))
    model.device_configurations = (stage,)
    node.device_configurations = (ir.NodeDeviceConfiguration(stage, (spec,), 3),)
    node.metadata_props["k"] = "v"
    node.meta["mine"] = 1
    node.meta.invalidate("mine")
    value = node.outputs[0]
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N", 2])
    value.meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "w"}
    shape = ir.Shape([1])
    type_ = ir.AttrTypeProto("t", ir.TypeAndShape(ir.TensorType(ir.DataType.INT8), shape))
    node.attributes.add(type_)
    model.ir_version = 11
    return node


def test_a_copy_is_saved_to_the_same_bytes(original):
    noted(original)
    assert saved(copy_model(original)) == saved(original)


def test_nothing_that_a_pass_does_to_a_model_reaches_its_copy(original):
    node = noted(original)
    copy = copy_model(original)
    before = saved(copy)
    value = node.outputs[0]
    value.dtype = ir.DataType.FLOAT16  # changes the type object itself
    value.shape[1] = 7
    value.shape.set_denotation(0, "BATCH")
    value.meta["quant_parameter_tensor_names"]["SCALE_TENSOR"] = "x"
    node.attributes["t"].value.shape[0] = 5
    node.attributes["t"].value.type.dtype = ir.DataType.INT4
    node.attributes["t"].name = "u"
    node.metadata_props.clear()
    original.graph.opset_imports[""] = 1
    original.functions["my", "f", ""].opset_imports[""] = 1
    original.graph.outputs[0].name = "other"
    assert saved(copy) == before


def test_weights_are_shared_and_sharding_follows_the_copy(original):
    noted(original)
    copy = copy_model(original)
    assert copy.graph.initializers["w"].const_value is (
        original.graph.initializers["w"].const_value
    )
    node = copy.graph.node(0)
    (spec,) = node.device_configurations[0].sharding_specs
    assert spec.value is node.outputs[0]
    assert not node.meta.is_valid("mine")


def test_nodes_out_of_order_and_values_that_nothing_makes_are_copied(original):
    nodes = list(original.graph)
    original.graph.remove(nodes)
    original.graph.extend(reversed(nodes))
    original.graph.node(1).replace_input_with(1, ir.val("nowhere"))
    assert saved(copy_model(original)) == saved(original)


FIELDS = ("producer_name", "producer_version", "domain", "doc_string")


def described(model):
    for name in FIELDS:
        setattr(model, name, "text")
    model.model_version, model.graph.doc_string = 3, "text"
    model.metadata_props["names"] = model.graph.metadata_props["stride"] = "32"
    return model


@each_of(
    "change, found",
    *((lambda m, n=n: setattr(m, n, None), f"{n} is lost") for n in FIELDS),
    (lambda m: setattr(m, "producer_name", "other"), "producer_name is changed"),
    (lambda m: setattr(m, "model_version", None), "model_version is lost"),
    (lambda m: setattr(m.graph, "doc_string", ""), "doc_string of the graph is lost"),
    (lambda m: m.metadata_props.clear(), "metadata 'names' is lost"),
    (lambda m: m.metadata_props.update(names="64"), "metadata 'names' is changed"),
    (lambda m: m.graph.metadata_props.clear(), "graph metadata 'stride' is lost"),
)
def test_what_a_model_no_longer_says_of_itself_is_found(change, found, original):
    before = described(original)
    after = copy_model(before)
    assert header_difference(before, after) == []
    change(after)
    assert header_difference(before, after) == [found]
