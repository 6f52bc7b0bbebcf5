"""More inputs, of all commands: files that do harm."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.bad_inputs.case import Case
from benchmarks.bad_inputs.hostile import EVIL, model

M = "model.onnx"
_TEXTS = {
    "ends.py": "import sys\n\n\ndef feeds():\n    sys.exit(0)\n    yield\n",
    "endless.yaml": "passes: [{repeat: {passes: [eliminate-identity], times: -1}}]\n",
    "unknown.yaml": "verify: {metrics: {happiness: [0, 1]}}\npasses: [eliminate-identity]\n",
    "engine.yaml": "engines: [{name: onnxruntime, threads: many}]\npasses: [merge-clips]\n",
    "merge.yaml": "a: &a {passes: [merge-clips]}\n<<: *a\nb: 1\n",
    "proto.pbtxt": "ir_version: 8 graph { node { input: '" + "x" * 200_000 + "' } }",
    "model.json": '{"graph": {"node": [{"opType": 5, "input": [null]}]}}',
    "journal.txt": '{"shard": 0}\nnot json\n',
}


def hostile(folder: Path) -> Iterator[Case]:
    """Yield what does harm; files are written to a folder."""
    (folder / M).write_bytes(model().SerializeToString())
    for name, text in _TEXTS.items():
        (folder / name).write_text(text)
    yield from _models(folder)
    yield Case("a loader that ends the program", ("compare", M, "--data-loader", "ends:feeds"))
    yield Case("a loop of -1 rounds", ("-c", "endless.yaml", M))
    yield Case("a metric that is not there", ("-c", "unknown.yaml", M))
    yield Case("an engine with a text as a number", ("-c", "engine.yaml", M))
    yield Case("a merge of YAML maps", ("config", "check", "merge.yaml"))
    yield Case("protobuf text", ("inspect", "proto.pbtxt"))
    yield Case("JSON as a model", ("lint", "model.json"))
    data = ("compare", M, M, "--data", "data.npz", "--journal", "journal.txt")
    np.savez(folder / "data.npz", input=np.ones((4, 2), np.float32))
    yield Case("a journal of something else", data)
    header = struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, 0xFFFF)
    (folder / "short.npy").write_bytes(header + b"{'descr'")
    yield Case("a header that is too short", ("inspect", "data", "short.npy"))
    (folder / "evil.json").write_text(json.dumps({"schema_version": EVIL}))
    yield Case("control characters in a report", ("view", M, "--report", "evil.json"))
    (folder / "x.engine").write_bytes(b"vtrt" + b"\xff" * 200)
    yield Case("an engine of ones", ("inspect", "x.engine"))
    yield Case("control characters in a new name", (
        "rename", M, "-o", "a.onnx", f"input={EVIL[:9]}"))  # fmt: skip
    yield Case("control characters in an engine", ("compare", M, "--engine", EVIL[:20]))


def _models(folder: Path) -> Iterator[Case]:
    changes: dict[str, tuple[Callable[[onnx.ModelProto], object], tuple[str, ...]]] = {
        "an attribute with two values": (_attribute, ("inspect", "{}", "--show", "attrs")),
        "10,000 inputs of one node": (
            lambda m: m.graph.node[1].input.extend(["inner_value"] * 10_000), ("lint", "{}")),
        "two nodes, functions and inputs of one name": (_same, ("view", "{}", "-o", "a.html")),
        "a domain that is a path": (_domain, ("diff", "{}", M)),
        "an input that is a sequence of maps": (_sequence, ("compare", "{}")),
        "a tensor of an unknown type": (_unknown, ("strip-weights", "{}", "-o", "a.onnx")),
    }  # fmt: skip
    for number, (told, (change, words)) in enumerate(changes.items()):
        made = model()
        change(made)
        file = f"mixed-{number}.onnx"
        (folder / file).write_bytes(made.SerializeToString())
        yield Case(told, tuple(word.format(file) for word in words))


def _attribute(made: onnx.ModelProto) -> None:
    attribute = helper.make_attribute("alpha", 1.0)
    attribute.ints.extend([1, 2, 3])
    attribute.s = b"\xff\x1b[0m"
    made.graph.node[0].attribute.append(attribute)


def _same(made: onnx.ModelProto) -> None:
    made.graph.node[1].name = made.graph.node[0].name = "input"
    body = [helper.make_node("Relu", ["x"], ["y"])]
    own = [helper.make_opsetid("", 20)]
    for _ in range(2):
        made.functions.append(helper.make_function("d", "input", ["x"], ["y"], body, own))


def _domain(made: onnx.ModelProto) -> None:
    made.graph.node[0].domain = "../../etc"
    made.opset_import.append(helper.make_opsetid("../../etc", 1 << 40))


def _sequence(made: onnx.ModelProto) -> None:
    keyed = made.graph.input[0].type.sequence_type.elem_type.map_type
    keyed.key_type = TensorProto.STRING
    keyed.value_type.tensor_type.elem_type = TensorProto.FLOAT


def _unknown(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].data_type = 77
