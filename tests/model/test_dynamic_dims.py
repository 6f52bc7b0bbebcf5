"""Negative sizes are dynamic dimensions, each its own; files keep those of the interface."""

import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.model.load import LONGEST, load_model
from onnx_passes.model.save import save_model
from tests.tables import each_of

TEXT = """<ir_version: 8, opset_import: ["" : 17, "own" : 1], producer_name: "paddle2onnx">
g (float[a, 3, b, c] x, bool t, seq(float[d]) s) => (float[a, 3, b, c] y, seq(float[d]) u) {
    r = Relu(x)
    n = own.Twice(r)
    u = Identity(s)
    y = If(t) <then_branch = one () => (float[a, 3, b, c] p) { p = Neg(n) },
               else_branch = two () => (float[a, 3, b, c] q) { q = Abs(n) }>
}
<domain: "own", opset_import: ["" : 17]>
Twice (i) => (o) { o = Add(i, i) }
"""
SIZES = {"a": -1, "b": -1, "c": -2, "d": -(1 << 63)}


def negative(proto, sizes=SIZES):
    """Write sizes in place of names, in all graphs."""
    graphs = [proto.graph]
    graphs += [a.g for node in proto.graph.node for a in node.attribute if a.HasField("g")]
    for graph in graphs:
        for info in (*graph.input, *graph.output, *graph.value_info):
            for dim in dims_of(info):
                if dim.dim_param in sizes:
                    dim.dim_value = sizes[dim.dim_param]
    return proto


def dims_of(info):
    type_ = info.type
    if type_.HasField("sequence_type"):
        type_ = type_.sequence_type.elem_type
    return type_.tensor_type.shape.dim


def declared(proto):
    ports = (*proto.graph.input, *proto.graph.output)
    return {
        info.name: [
            None if d.WhichOneof("value") is None else d.dim_param or d.dim_value
            for d in dims_of(info)
        ]
        for info in ports
    }


@pytest.fixture
def proto():
    proto = negative(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(TEXT)))
    assert proto.graph.value_info
    return proto


def test_all_negative_sizes_are_dynamic_and_one_note_says_so(proto, tmp_path):
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    (note,) = loaded.notes
    assert note.startswith(
        "negative sizes are read as dynamic dimensions: x[0], x[2], x[3] and"
    )
    for graph in loaded.model.graph, *loaded.model.graph.subgraphs():
        for value in (*graph.inputs, *graph.outputs, *(v for n in graph for v in n.outputs)):
            dims = value.shape or ()
            assert all(isinstance(dim, int) is (dim == 3) for dim in dims), value


def test_files_keep_what_the_interface_declares(proto, tmp_path):
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    save_model(loaded.model, tmp_path / "o.onnx", source=loaded)
    written = onnx.load(tmp_path / "o.onnx")
    assert declared(written) == declared(proto)
    assert declared(written)["x"] == [-1, 3, -1, -2]
    # onnx-ir has no size of its own for those of inner values, which engines infer.
    assert all(dim.dim_value >= 0 for i in written.graph.value_info for dim in dims_of(i))


def test_what_is_inferred_is_written(proto, tmp_path):
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    loaded.model.graph.outputs[0].shape = ir.Shape(["n", 3, None, 7])
    save_model(loaded.model, tmp_path / "o.onnx", source=loaded)
    assert declared(onnx.load(tmp_path / "o.onnx"))["y"] == ["n", 3, -1, 7]


@each_of("kind", "path", "proto", "ir")
def test_python_reads_and_writes_them_so(proto, tmp_path, kind):
    onnx.save(proto, tmp_path / "m.onnx")
    before = proto.SerializeToString()
    given = {"path": tmp_path / "m.onnx", "proto": proto, "ir": ir.from_proto(proto)}[kind]
    found = onnx_passes.run(given, "optimize")
    assert found.verdict == "VERIFIED"
    assert sum("negative sizes" in note for note in found.report.notes) == 1
    assert declared(found.proto()) == declared(proto)
    found.save(tmp_path / "o.onnx")
    assert declared(onnx.load(tmp_path / "o.onnx")) == declared(proto)
    assert proto.SerializeToString() == before


def test_an_endless_name_is_a_note(tmp_path):
    proto = onnx.parser.parse_model(TEXT)
    for dim in (*dims_of(proto.graph.input[0]), *dims_of(proto.graph.output[0])):
        if dim.dim_param == "a":
            dim.dim_param = "floor(" * LONGEST + "a"
    onnx.save(proto, tmp_path / "m.onnx")
    (note,) = load_model(tmp_path / "m.onnx").notes
    assert "are read as unknown dimensions: x[0]" in note
    found = onnx_passes.run(tmp_path / "m.onnx", "cleanup")
    assert found.passed
    assert declared(found.proto()) == declared(proto)
