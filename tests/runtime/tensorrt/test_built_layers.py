"""Layers as TensorRT's builder logs them, and as its inspector and profiler report them."""

from types import SimpleNamespace

from onnx_passes.runtime.tensorrt.bindings import MARK, inspect_layers, read_logged_layers
from onnx_passes.runtime.tensorrt.engine import BuiltModel, EngineLayer, layers_of

PORT = "{ Name: x, Dimensions: [4,1], Datatype: Float, Format: (NHWC) Channel major format }"
TEXT = f"""{MARK}Name: __myl_Add_0, LayerType: kgen, Inputs: [ {PORT}], Constants: [], \
Outputs: [ {PORT}], TacticName: __myl_Add_0x6861, StreamId: 0, Metadata: [ONNX Layer: /a/Add]\
[ONNX Layer: /a/Relu]
Name: /pool, LayerType: maxpool, Inputs: [ {PORT}, {PORT}], Outputs: [ {PORT}], \
TacticName: , StreamId: 0, Metadata: [ONNX Layer: /pool]

I/O Tensors:
 Name: image, IOMode: Input"""


def test_the_log_of_a_builder_has_the_layers_with_their_onnx_nodes():
    assert layers_of(BuiltModel(b"", "no GPU", TEXT)) == [
        EngineLayer("__myl_Add_0", "kgen", "__myl_Add_0x6861", "/a/Add, /a/Relu"),
        EngineLayer("/pool", "maxpool", "", "/pool"),
    ]
    assert read_logged_layers("") == []


def test_the_inspector_may_tell_names_or_more():
    def asked(text):
        inspector = SimpleNamespace(get_engine_information=lambda form: text)
        engine = SimpleNamespace(create_engine_inspector=lambda: inspector)
        trt = SimpleNamespace(LayerInformationFormat=SimpleNamespace(JSON=1))
        return [one["name"] for one in inspect_layers(trt, engine)]

    assert asked('{"Layers": [{"Name": "a", "TacticValue": "0x1"}, "b"]}') == ["a", "b"]
    assert asked("a\n\nb") == ["a", "b"]
