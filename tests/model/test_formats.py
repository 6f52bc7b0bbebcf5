import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from onnx_passes.errors import ModelError
from onnx_passes.model import formats
from onnx_passes.model.formats import lost_fields, split_losses
from onnx_passes.model.load import load_model
from tests.tables import each_of, each_row

TEXT = """
<ir_version: 10, opset_import: ["": 20]>
g (float[N, 4] x) => (float[N, 4] y)
<float[4] w = {1.0, 2.0, 3.0, 0.1}>
{
    z = Add(x, w)
    y = Relu(z)
}
"""


@each_of(
    "name, render",
    ("m.onnx", lambda p: p.SerializeToString()),
    ("m.pb", lambda p: p.SerializeToString()),
    ("m.bin", lambda p: p.SerializeToString()),
    ("m", lambda p: p.SerializeToString()),
    ("m.onnxtxt", lambda _: TEXT),
    ("m.onnx.txt", lambda _: TEXT),
    ("m.txt", lambda _: "# a comment first\n" + TEXT),
    ("m.model", lambda _: TEXT),
)
def test_every_form_is_read_by_extension_or_content(write, proto, name, render):
    model = load_model(write(render(proto), name)).model
    assert [node.op_type for node in model.graph] == ["Add", "Relu"]


@each_row(r"""content | says | advice
- =b'version https://git-lfs.github.com/spec/v1\noid sha256:0' | git-LFS | git lfs pull
- =b'\x1f\x8b\x08\x00' | gzip | gunzip
- =b'\x93NUMPY\x01\x00' | an array of numpy | inspect data
- =b'\x89PNG\r\n' | an image | give the .onnx file
- =b'PK\x03\x04abc' | zip | unpack
- =b'\x89HDF\r\n' | HDF5 | export
- =b'\x1c\x00\x00\x00TFL3' | TensorFlow Lite | tf2onnx
- =b'\x1c\x00\x00\x00ORTM' | ONNX Runtime | .onnx
- =b'vtrt\x00\x00\x00\x01' | a TensorRT engine | load=FILE
- =b'{"irVersion": "8"}' | JSON | format='json'
- =b'ir_version: 8' | protobuf text | format='textproto'
- =b'' | empty | complete
- =b'\xff\xfe\xfd rubbish' | damaged | export
- =b'\x08\n' | no graph | complete
- =TEXT.encode() | is text | .onnxtxt
- =b'<!doctype html><p>404' | a web page, not an ONNX model | download the file itself
""")
def test_what_is_no_model_is_called_what_it_is(refused, content, says, advice):
    error = refused(content)
    assert says in error.message
    assert advice in str(error.help)


def test_missing_files_folders_and_pipes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("gone.onnx")
    for name, says in [
        ("no.onnx", "No such file"),
        ("PIPE", "did you mean 'pipe'?"),
        (".", "folder"),
        ("pipe", "pipe or device"),
        ("link", "it is a link to gone.onnx"),
        ("https://x/m.onnx", "download it first"),
        ("a\0b", "null"),
        ("n" * 300, "too long"),
    ]:
        with pytest.raises(ModelError) as caught:
            load_model(name if ":" in name else tmp_path / name)
        assert says in str(caught.value)
    with pytest.raises(ModelError, match="standard input"):
        load_model("-")


def test_a_file_above_the_limit_of_protobuf_is_not_read(write, monkeypatch):
    path = write(b"\x08\x0a" * 10)
    monkeypatch.setattr(formats, "LIMIT", 10)
    with pytest.raises(ModelError, match="20 bytes") as caught:
        load_model(path)
    assert "external data" in str(caught.value.help)


def test_errors_in_text_have_line_and_column(refused):
    error = refused(TEXT.replace("Add(x, w)", "Add(x, w"), "m.onnxtxt")
    assert str(error.where).endswith(":7:5")
    assert "Expected character )" in error.message


@each_of(
    "content",
    TEXT.replace("[4] w", "[99999999999999999999] w"),
    TEXT.replace("0.1}", "1e99999}"),
    TEXT + "trailing",
    "hello",
    b"\xff\xfe",
)
def test_text_that_onnx_cannot_parse_is_refused(refused, content):
    refused(content, "m.onnxtxt")


@each_of("opening", "seq(", "y = If(c) <then_branch = g () => (float z) {", "{")
def test_text_that_nests_deeply_does_not_crash_the_process(refused, opening):
    error = refused("<ir_version: 10>\ng (float x) => (float y) {" + opening * 50_000, "m.txt")
    assert "nests" in error.message
    assert str(error.where).endswith(":2")


def test_brackets_in_strings_and_comments_do_not_nest(write):
    noise = "# " + "(" * 500 + "\n"
    text = TEXT.replace('["": 20]>', '["": 20], doc_string: "' + "{" * 500 + '">')
    assert load_model(write(noise + text, "m.txt")).model.doc_string == "{" * 500


def test_deep_graphs_are_refused(refused):
    graph = onnx.parser.parse_graph("g () => (float y) { y = Constant<value_float = 1.0>() }")
    wrap = b""
    for _ in range(60):
        # Built from bytes: protobuf refuses to build what it would refuse to read.
        wrap = graph.SerializeToString() if not wrap else _nest(wrap)
    refused(b"\x08\x0a" + _field(7, wrap))


def _nest(graph: bytes) -> bytes:
    return _field(1, _field(5, _field(6, graph)))


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


@each_of("unit", '"\\', '"a\\"', '"', "#", "(", '")', "\\")
def test_long_text_is_read_once(refused, unit):
    """Text with quotes that do not end was read again from each of them."""
    refused(f"<ir_version: 10> {unit * (200_000 // len(unit))}", "m.onnxtxt")


@pytest.fixture
def other(proto):
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def test_nothing_is_lost_between_equals_however_stored(proto, other):
    other.graph.node[0].domain = ""
    array = numpy_helper.to_array(proto.graph.initializer[0])
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    other.graph.value_info.append(helper.make_tensor_value_info("z", 1, [1]))
    proto.opset_import.append(helper.make_opsetid("my", 1))
    other.opset_import.insert(0, helper.make_opsetid("my", 1))
    assert list(lost_fields(proto, other)) == []


def test_a_type_that_an_output_declares_too_is_not_lost(proto, other):
    (again,) = proto.graph.output
    proto.graph.value_info.append(again)
    assert list(lost_fields(proto, other)) == []
    proto.graph.value_info[-1].type.tensor_type.elem_type = 7
    assert list(lost_fields(proto, other)) == [
        f"graph.value_info[{again.name}].type.tensor_type.elem_type"
    ]


@each_of(
    "change, path",
    (lambda m: m.graph.node[0].__setattr__("op_type", "Sub"), "graph.node[0].op_type"),
    (lambda m: m.graph.node.__delitem__(1), "graph.node (2 entries became 1)"),
    (lambda m: m.graph.node[0].input.__setitem__(1, "q"), "graph.node[0].input[1]"),
    (lambda m: m.graph.initializer[0].__setattr__("doc_string", "d"), "doc_string"),
    (lambda m: m.graph.initializer[0].dims.__setitem__(0, 5), "graph.initializer[w].data"),
    (lambda m: m.graph.initializer[0].float_data.__setitem__(0, -1), "[w].data"),
    (lambda m: m.graph.input[0].ClearField("type"), "graph.input[x].type"),
    (lambda m: m.ClearField("graph"), "graph"),
    (lambda m: m.opset_import[0].__setattr__("version", 21), "opset_import[0].version"),
    (lambda m: m.opset_import.add(domain="more", version=1), "opset_import (added)"),
    (lambda m: m.graph.node[0].attribute.add(name="a"), "attribute (added)"),
    (lambda m: m.functions.add(name="f"), "functions (added)"),
    (lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].Clear(), "dim_param"),
)
def test_each_loss_is_named_by_its_path(proto, other, change, path):
    change(other)
    losses = list(lost_fields(proto, other))
    assert any(path in loss for loss in losses), losses


def test_values_are_compared_by_their_bits(proto, other):
    for model, bits in ((proto, 0x7FC00001), (other, 0x7FC00002)):
        array = np.array([bits], np.uint32).view(np.float32)
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    assert list(lost_fields(proto, proto)) == []
    assert list(lost_fields(proto, other)) == ["graph.initializer[w].data"]
    nan = helper.make_attribute("a", float("nan"))
    for model in (proto, other):
        model.graph.node[0].attribute.append(nan)
    assert list(lost_fields(proto.graph.node[0], other.graph.node[0])) == []


def test_strings_and_external_places_are_compared(proto, other):
    for model, text in ((proto, "a"), (other, "b")):
        tensor = numpy_helper.from_array(np.array([text]), "s")
        model.graph.initializer[0].CopyFrom(tensor)
    assert list(lost_fields(proto, other)) == ["graph.initializer[s].data"]
    for model, location in ((proto, "a.bin"), (other, "b.bin")):
        tensor = model.graph.initializer[0]
        tensor.ClearField("string_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
    assert list(lost_fields(proto, other)) == ["graph.initializer[s].data"]


def test_a_value_that_a_body_reads_and_gives_may_name_its_size_twice(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[n] x, int64 k, bool c) => (float[m] y) {
            y = Loop(k, c, x) <body = b (int64 i, bool go, float[p] s)
                => (bool go, float[q] s) { }> }""")
    onnx.save(model, tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    assert [note[:8] for note in loaded.notes] == ["not kept"]
    model.graph.node[0].attribute[0].g.input[2].type.tensor_type.elem_type = 10
    grave, _ = split_losses(lost_fields(model, ir.to_proto(loaded.model)))
    assert "elem_type" in grave[0]
