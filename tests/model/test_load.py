import onnx
import onnx_ir as ir
from onnx import helper

from onnx_passes.model import load
from onnx_passes.model.load import load_model

FUNCTION = """
<ir_version: 10, opset_import: ["": 20, "my": 1]>
g (float[2] x) => (float[2] y) { y = my.f(x) }
<domain: "my", opset_import: ["": 20]> f (a) => (b) { b = Relu(a) }
"""


def test_types_of_function_inputs_are_kept(write):
    proto = onnx.parser.parse_model(FUNCTION)
    proto.functions[0].value_info.append(helper.make_tensor_value_info("a", 1, [2]))
    model = load_model(write(proto)).model
    assert model.functions["my", "f", ""].inputs[0].shape == ir.Shape([2])
    assert len(ir.to_proto(model).functions[0].value_info) == 1


def test_metadata_of_all_kinds_is_kept(write, proto):
    for holder in (proto, proto.graph, proto.graph.node[0]):
        holder.metadata_props.add(key="k", value="v")
    proto.producer_name, proto.producer_version, proto.model_version = "me", "1", 7
    proto.graph.node[0].doc_string = "why"
    annotation = proto.graph.quantization_annotation.add(tensor_name="z")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    back = ir.to_proto(load_model(write(proto)).model)
    assert back.graph.quantization_annotation == proto.graph.quantization_annotation
    assert back.metadata_props == proto.metadata_props
    assert back.graph.node[0].metadata_props == proto.metadata_props
    assert back.graph.node[0].doc_string == "why"
    assert (back.producer_name, back.model_version) == ("me", 7)


def test_fields_that_onnx_does_not_know_are_not_dropped_silently(refused, proto):
    # Field 4000 of a node, a number.
    node = onnx.NodeProto.FromString(
        proto.graph.node[0].SerializeToString() + b"\x80\xfa\x01\x01"
    )
    proto.graph.node[0].CopyFrom(node)
    assert "field 4000" in refused(proto).message


def test_a_loss_in_onnx_ir_is_refused(refused, proto, monkeypatch):
    original = ir.to_proto

    def lossy(model):
        back = original(model)
        back.graph.node[0].op_type = "Sub"
        return back

    monkeypatch.setattr(load.ir, "to_proto", lossy)
    assert "graph.node[0].op_type" in refused(proto).message
