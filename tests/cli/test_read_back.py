"""The written file is read again before it replaces anything."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.model import save, wire
from onnx_passes.model.save import Pending
from onnx_passes.verify.snapshot import ReadBack
from tests.cli.modules import read_json
from tests.tables import each_of, model_of

GOOD = b"the file that was there"


@pytest.fixture
def weights(tmp_path):
    """y = Relu(x @ w) behind an Identity, with 256 kB of weights."""
    text = """<ir_version: 10, opset_import: ["" : 20]>
        main (float[N, 256] x) => (float[N, 256] y) {
            [dense] h = MatMul(x, w) i = Identity(h) [leak] y = LeakyRelu<alpha = 0.25>(i) }"""
    model = model_of(text, w=np.ones((256, 256), np.float32))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def flipped(chunks):
    """Stand in for a disk that changes one byte of each weight."""

    def broken(tensor):
        for chunk in chunks(tensor):
            data = bytearray(chunk)
            data[len(data) // 2] ^= 1
            yield bytes(data)

    return broken


def report(path="report.json"):
    return read_json(path)


@each_of("where", "inline", "external")
@each_of("name", "out.onnx", "out.onnxtxt")
def test_the_report_says_that_the_file_was_read_back_and_is_equal(cli, weights, name, where):
    words = ["-o", name, "-s", f"save.external_data={where}", weights, "eliminate-identity"]
    done = cli(*words, "--json", "report.json", "--html", "report.html", "-v")
    assert done.code == 0, done.err
    found = report()["read_back"]
    assert (found["result"], found["reason"]) == ("equal", None)
    assert found["tensor_bytes"] == 256 * 256 * 4
    assert "read back: equal, 262.1 kB of tensors" in done.err
    with open("report.html") as page:
        assert "file read back" in page.read()


def test_weights_written_wrong_are_an_error_and_replace_nothing(
    cli, weights, tmp_path, monkeypatch
):
    (tmp_path / "out.onnx").write_bytes(GOOD)
    monkeypatch.setattr(wire, "chunks", flipped(wire.chunks))
    done = cli("-o", "out.onnx", weights, "eliminate-identity", "--json", "report.json")
    done.tells(1, "is not the model that was verified: graph 'main', initializer 'w', content")
    assert (tmp_path / "out.onnx").read_bytes() == GOOD
    assert report()["read_back"]["result"] == "differs"
    assert report()["output"] is None
    assert {p.name for p in tmp_path.iterdir()} == {"model.onnx", "out.onnx", "report.json"}


def test_a_data_file_written_wrong_replaces_nothing(cli, weights, tmp_path, monkeypatch):
    words = ["-o", "out.onnx", "-s", "save.external_data=external", weights]
    assert cli(*words, "eliminate-identity").code == 0
    good = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(good) == 3
    write = Pending.write

    def broken(self, data):
        write(self, bytes(data[:-1]) + bytes([data[-1] ^ 1]) if len(data) > 9999 else data)

    monkeypatch.setattr(Pending, "write", broken)
    cli(*words, "eliminate-identity").tells(1, "initializer 'w', content")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == good


@each_of(
    "change, told",
    (lambda m: m.graph.node[1].attribute[0].__setattr__("f", 0.5), "attribute 'alpha'"),
    (lambda m: m.graph.node[0].__setattr__("name", "other"), "node 0 'dense' (MatMul)"),
    (lambda m: m.graph.node[1].__setattr__("op_type", "Elu"), "node 1 'leak' (LeakyRelu)"),
    (lambda m: m.graph.input[0].type.tensor_type.__setattr__("elem_type", 11), "value 'x'"),
    (lambda m: m.graph.output[0].type.tensor_type.shape.dim[0].Clear(), "value 'y'"),
    (lambda m: m.graph.initializer[0].dims.__setitem__(slice(None), [128, 512]), "'w'"),
    (lambda m: m.opset_import[0].__setattr__("version", 21), "the opset imports"),
    (lambda m: m.__setattr__("doc_string", "another"), "the header"),
    (lambda m: m.graph.node.pop(), "cannot be read back: nothing makes the output 'y'"),
)
def test_what_the_writer_changes_is_named(cli, weights, tmp_path, monkeypatch, change, told):
    (tmp_path / "out.onnx").write_bytes(GOOD)
    serialise = save.serialise

    def changed(*given):
        proto = serialise(*given)
        change(proto)
        return proto

    monkeypatch.setattr(save, "serialise", changed)
    cli("-o", "out.onnx", weights, "eliminate-identity").tells(1, told)
    assert (tmp_path / "out.onnx").read_bytes() == GOOD


def test_without_verification_the_file_is_not_read_back(cli, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "chunks", flipped(wire.chunks))
    words = ["-o", "out.onnx", "--no-verify", "--json", "report.json", weights]
    assert cli(*words, "eliminate-identity").code == 0
    assert report()["read_back"]["result"] == "not done"
    assert report()["read_back"]["reason"] == "verification is off"


@each_of("typed", True, False)
def test_the_name_of_a_functions_graph_is_not_missed_in_the_file(tmp_path, typed):
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[2] x) => (float[2] y) { y = local.F(x) }"""
    )
    given = ir.Value(name="p", type=ir.TensorType(ir.DataType.FLOAT) if typed else None)
    node = ir.node("Neg", [given])
    body = ir.Graph([given], node.outputs, nodes=[node], opset_imports={"": 20}, name="body")
    function = ir.Function("local", "F", graph=body, attributes=[])
    model.functions[function.identifier()] = function
    check = ReadBack()
    save.save_model(model, tmp_path / "model.onnx", inspect=check)
    assert check.parts


def test_an_output_without_a_name_has_no_type_in_a_file(tmp_path):
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 20]> g (float[2,4] x) => (float[2,4] y)
        { y, m = Dropout(x) }"""
    )
    unused = model.graph.node(0).outputs[1]
    unused.name, unused.type = "", ir.TensorType(ir.DataType.FLOAT16)
    save.save_model(model, tmp_path / "out.onnx", inspect=ReadBack())


def test_no_type_of_an_output_is_inferred_where_the_model_has_none(tmp_path):
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) { y = Exp(x) }"""
    )
    (output,) = model.graph.outputs
    output.type = output.shape = None
    save.save_model(model, tmp_path / "out.onnx", inspect=ReadBack())
