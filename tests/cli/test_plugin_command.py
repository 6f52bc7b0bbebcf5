"""TensorRT plugins: what they take over is found, reported and replaced."""

import json

import onnx
import onnx.parser
import pytest

from onnx_passes.runtime.tensorrt.bindings import installed_version

PLUGINS = '''
from onnx_passes.surgery.plugins import Plugin

class ConvRelu(Plugin):
    """A convolution and the Relu behind it."""

    creator = "CustomConvRelu"
    version = "2"

    def pattern(self, op, x, w):
        return op.Relu(op.Conv(x, w, _allow_other_attributes=True), _outputs=["out"])

    def attributes(self, out, **values):
        conv = out.producer().inputs[0].producer()
        return {"pads": conv.attributes.get_ints("pads", [0, 0, 0, 0])}

class AddRelu(Plugin):
    """A sum and its Relu."""

    creator = "CustomAddRelu"

    def pattern(self, op, x, y):
        return op.Relu(op.Add(x, y))
'''
TEXT = """<ir_version: 10, opset_import: ["": 20]>
g (float[1,1,8,8] x) => (float[1,1,8,8] y)
<float[1,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[1] b = {1}>
{ c = Conv <pads = [1, 1, 1, 1]> (x, w) r = Relu(c) s = Add(r, b) t = Relu(s)
  u = Add(t, b) y = Relu(u) }"""


@pytest.fixture
def given(write, tmp_path):
    write("own.py", PLUGINS)
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(TEXT).SerializeToString())
    return path, "--plugins", "own.py"


def test_matches_are_told_with_numbers_and_change_nothing(cli, given):
    before = given[0].read_bytes()
    done = cli("plugin", "match", *given)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "1: CustomConvRelu computes r"
    assert lines[3].startswith(
        "    + r = trt.plugins::CustomConvRelu(x, w) {pads=(1, 1, 1, 1)"
    )
    assert lines[-1] == f"3 places in {given[0]}"
    assert given[0].read_bytes() == before
    found = json.loads(cli("plugin", "match", *given, "--json").out)
    assert [one["values"] for one in found] == [["r"], ["t"], ["y"]]


def test_all_or_some_are_replaced_by_nodes_that_name_the_plugin(cli, given, tmp_path):
    done = cli("plugin", "replace", *given, "-o", "all.onnx")
    assert done.code == 0, done.err
    assert done.out.startswith("3 places replaced; not verified")
    nodes = onnx.load(tmp_path / "all.onnx").graph.node
    assert [n.op_type for n in nodes] == ["CustomConvRelu", "CustomAddRelu", "CustomAddRelu"]
    fields = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[0].attribute}
    assert fields["plugin_version"] == b"2"
    assert fields["plugin_namespace"] == b""
    assert fields["pads"] == [1, 1, 1, 1]
    assert cli("plugin", "replace", *given, "-o", "some.onnx", "--only", "1,3").code == 0
    nodes = onnx.load(tmp_path / "some.onnx").graph.node
    assert [n.op_type for n in nodes] == ["CustomConvRelu", "Add", "Relu", "CustomAddRelu"]
    assert list(nodes[-1].output) == ["y"]


def test_what_cannot_be_done_is_told(cli, given, write, tmp_path):
    path = given[0]
    assert (
        "there is no match 9"
        in cli("plugin", "replace", *given, "-o", "o.onnx", "--only", "9").err
    )
    write("empty.py", "x = 1\n")
    assert (
        "empty.py holds no plugin" in cli("plugin", "match", path, "--plugins", "empty.py").err
    )
    write("broken.py", "1 / 0\n")
    told = cli("plugin", "match", path, "--plugins", "broken.py").err
    assert "broken.py cannot be imported: ZeroDivisionError" in told
    write("nameless.py", PLUGINS.replace('creator = "CustomAddRelu"', ""))
    told = cli("plugin", "match", path, "--plugins", "nameless.py").err
    assert "AddRelu does not say its 'creator'" in told
    assert "give --plugins" in cli("plugin", "match", path).err
    for body, said in (("raise ValueError('no')", "ValueError: no"), ("return None", "")):
        text = PLUGINS.replace("return op.Relu(op.Add(x, y))", body)
        write("wrong.py", text)
        told = cli("plugin", "match", path, "--plugins", "wrong.py")
        assert (told.code, f"the pattern of AddRelu cannot be used: {said}" in told.err) == (
            2,
            True,
        )
    assert "there is nothing to list" in cli("plugin", "list").err


def test_plugins_are_listed(cli, given):
    done = cli("plugin", "list", *given[1:])
    assert done.out.splitlines()[0] == (
        "CustomConvRelu version 2: A convolution and the Relu behind it."
    )
    if installed_version("tensorrt-rtx") is None:
        assert cli("plugin", "list", "--engine", "tensorrt-rtx").code == 3


@pytest.mark.tensorrt
def test_nvidias_own_plugins_are_listed_and_missing_ones_named(cli, given):
    done = cli("plugin", "list", "--engine", "tensorrt-rtx", "--json")
    names = {one["name"] for one in json.loads(done.out)["registered"]}
    assert "ROIAlign_TRT" in names
    lost = cli("plugin", "list", "--engine", "tensorrt-rtx", "--library", "nowhere.so")
    assert (lost.code, "there is no file" in lost.err) == (2, True)
    cli("plugin", "replace", *given, "-o", "all.onnx")
    told = cli("inspect", "capability", "all.onnx", "--engine", "tensorrt-rtx")
    assert told.code == 1
    assert "Plugin not found" in told.out
