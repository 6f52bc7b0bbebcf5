"""Inputs that someone made to do harm."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.bad_inputs.case import Case

EVIL = "a\x1b[31m\x1b]0;owned\x07\r\nb\u202e\x00c"
"""Colours, the title of a window, a line of its own, text from right to left, NUL."""

PLACES = (
    *("input", "output", "node", "graph", "dimension", "producer", "doc", "key"),
    *("initializer", "inner value", "operator", "domain", "attribute", "function"),
)
COMMANDS = (
    ("inspect", "model", "{}", "--show", "layers", "attrs"),
    ("lint", "{}"),
    ("view", "{}", "-o", "page.html"),
    ("compare", "{}"),
    ("-c", "cleanup", "-o", "out.onnx", "{}"),
)


def model(**names: str) -> onnx.ModelProto:
    """Return a small model, with some names replaced."""
    name = {place: place.replace(" ", "_") for place in PLACES}
    name |= {"operator": "Relu", "domain": "", "dimension": "N"} | names
    attributes = {names["attribute"]: 1} if "attribute" in names else {}
    nodes = [
        helper.make_node(
            name["operator"], [name["input"]], [name["inner value"]], name["node"],
            domain=name["domain"], **attributes,
        ),
        helper.make_node("Add", [name["inner value"], name["initializer"]], [name["output"]]),
    ]  # fmt: skip
    shape = [name["dimension"], 2]
    graph = helper.make_graph(
        nodes,
        name["graph"],
        [helper.make_tensor_value_info(name["input"], TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name["output"], TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.ones(2, np.float32), name["initializer"])],
        name["doc"],
    )
    opsets = [helper.make_opsetid("", 20)]
    if name["domain"]:
        opsets.append(helper.make_opsetid(name["domain"], 1))
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    made.producer_name = name["producer"]
    helper.set_model_props(made, {name["key"]: name["key"]})
    if "function" in names:
        body = [helper.make_node("Relu", ["x"], ["y"])]
        made.functions.append(
            helper.make_function("f", names["function"], ["x"], ["y"], body, opsets)
        )
    return made


def cases(folder: Path) -> Iterator[Case]:
    """Yield them; their files are written to a folder."""
    yield from _names(folder)
    yield from _files(folder)
    yield from _models(folder)
    yield from _data(folder)
    yield from _pipelines(folder)


def _names(folder: Path) -> Iterator[Case]:
    for place in PLACES:
        file = f"name-{place.replace(' ', '-')}.onnx"
        (folder / file).write_bytes(model(**{place: EVIL}).SerializeToString())
        for words in COMMANDS:
            yield Case("control characters in a name", tuple(w.format(file) for w in words))
    (folder / "plain.onnx").write_bytes(model().SerializeToString())
    yield Case("control characters in two inputs", ("diff", "name-input.onnx", "plain.onnx"))
    yield Case("control characters in a path", ("inspect", "model", f"no{EVIL[:10]}.onnx"))
    yield Case("control characters in a pass", ("plain.onnx", f"fuse{EVIL[:10]}"))


def _files(folder: Path) -> Iterator[Case]:
    whole = model().SerializeToString()
    rng = np.random.default_rng(0)
    for number in range(8):
        (folder / f"cut-{number}.onnx").write_bytes(whole[: len(whole) * number // 8])
        yield Case("the first eighths of a model", ("inspect", "model", f"cut-{number}.onnx"))
    for number in range(12):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 4):
            damaged[place] = rng.integers(0, 256)
        (folder / f"flip-{number}.onnx").write_bytes(bytes(damaged))
        words = ("-c", "cleanup", "-o", "out.onnx", f"flip-{number}.onnx")
        yield Case("four random bytes in a model", words)
    with zipfile.ZipFile(folder / "zip.onnx", "w") as archive:
        archive.writestr("a", b"0" * 1000)
    (folder / "pickle.onnx").write_bytes(pickle.dumps(print))
    yield Case("a zip file as a model", ("inspect", "model", "zip.onnx"))
    yield Case("a pickle as a model", ("inspect", "model", "pickle.onnx"))
    yield Case("a device as a model", ("inspect", "model", "/dev/null"))


def _save(folder: Path, file: str, made: onnx.ModelProto) -> str:
    (folder / file).write_bytes(made.SerializeToString())
    return file


def _models(folder: Path) -> Iterator[Case]:
    run = ("-c", "cleanup", "-o", "out.onnx")
    made = model()
    made.graph.initializer[0].ClearField("raw_data")
    made.graph.initializer[0].data_location = TensorProto.EXTERNAL
    places = ("../../../../etc/passwd", "/etc/passwd", "none.bin", ".", EVIL)
    for number, location in enumerate(places):
        del made.graph.initializer[0].external_data[:]
        made.graph.initializer[0].external_data.add(key="location", value=location)
        file = _save(folder, f"outside-{number}.onnx", made)
        yield Case(f"weights in {location[:22]!r}", (*run, file))
    for dims in ([1 << 62], [-1], [1 << 31, 1 << 31, 4], [3]):
        made = model()
        del made.graph.initializer[0].dims[:]
        made.graph.initializer[0].dims.extend(dims)
        file = _save(folder, f"dims-{len(dims)}-{dims[0] % 97}.onnx", made)
        yield Case(f"two floats as a tensor of shape {dims}", (*run, file))
    for number, (told, change) in enumerate(_changes().items()):
        made = model()
        change(made)
        yield Case(told, (*run, _save(folder, f"change-{number}.onnx", made)))


def _changes() -> dict[str, Callable[[onnx.ModelProto], object]]:
    def set_input(m: onnx.ModelProto, name: str) -> None:
        m.graph.node[0].input[0] = name

    def set_output(m: onnx.ModelProto) -> None:
        m.graph.node[1].output[0] = m.graph.node[0].output[0]

    def deep(m: onnx.ModelProto) -> None:
        made = helper.make_graph([], "g", [], [])
        for _ in range(40):
            node = helper.make_node("If", ["c"], ["o"], then_branch=made, else_branch=made)
            made = helper.make_graph([node], "g", [], [])
            if made.ByteSize() > 100_000:
                break
        m.graph.node.append(made.node[0])

    def endless(m: onnx.ModelProto) -> None:
        body = [helper.make_node("f", ["x"], ["y"], domain="d")]
        own = [helper.make_opsetid("d", 1)]
        m.functions.append(helper.make_function("d", "f", ["x"], ["y"], body, own))
        m.opset_import.append(own[0])
        m.graph.node[0].op_type, m.graph.node[0].domain = "f", "d"

    def first(m: onnx.ModelProto) -> onnx.TypeProto.Tensor:
        return m.graph.input[0].type.tensor_type

    return {
        "a graph that is a cycle": lambda m: set_input(m, m.graph.node[1].output[0]),
        "a value that two nodes compute": set_output,
        "a node that reads what is not there": lambda m: set_input(m, "nowhere"),
        "opset 9999": lambda m: setattr(m.opset_import[0], "version", 9999),
        "opset -1": lambda m: setattr(m.opset_import[0], "version", -1),
        "IR version 9999": lambda m: setattr(m, "ir_version", 9999),
        "an element type 999": lambda m: setattr(first(m), "elem_type", 999),
        "branches within branches": deep,
        "a function that calls itself": endless,
        "an input of 2^61 elements": lambda m: setattr(
            first(m).shape.dim[0], "dim_value", 1 << 60
        ),
    }


def _data(folder: Path) -> Iterator[Case]:
    np.save(folder / "pickle.npy", np.array([{"a": 1}], object), allow_pickle=True)
    yield Case("a pickle in .npy", ("inspect", "data", "pickle.npy"))
    yield Case("a pickle as inputs", ("compare", "plain.onnx", "--inputs", "pickle.npy"))
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}
        )
        archive.writestr("x.npy", header.getvalue() + bytes(1000))
    yield Case("an array of 2^50 elements in .npz", ("inspect", "data", "bomb.npz"))
    (folder / "deep.json").write_text("[" * 100_000)
    yield Case("100,000 brackets as JSON", ("inspect", "data", "deep.json"))
    (folder / "evil.json").write_text(json.dumps({EVIL: EVIL}))
    yield Case("control characters in JSON", ("inspect", "data", "evil.json"))
    with tarfile.open(folder / "up.tar", "w") as archive:
        info = tarfile.TarInfo("../../up.npy")
        archive.addfile(info, io.BytesIO())
    yield Case("a tar that climbs up", ("compare", "plain.onnx", "--data", "up.tar"))


def _pipelines(folder: Path) -> Iterator[Case]:
    letters = "bcdefghijklmnopqrstuv"
    doubled = zip(letters, "a" + letters, strict=False)
    texts = {
        "a YAML bomb": "a: &a [x, x]\n"
        + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for new, old in doubled),
        "a Python object in YAML": "passes: !!python/object/apply:os.system ['echo owned']\n",
        "an alias to itself": "passes: &a [*a]\n",
        "10,000 brackets in YAML": "passes: " + "[" * 10_000,
        "control characters in YAML": f"passes: ['fuse{EVIL[:6]}']\n",
        "a module that is not there": "imports: ['../../evil']\npasses: []\n",
        "NUL in YAML": "passes: [a\x00b]\n",
        "a number as long as a book": f"passes: []\nlimits: {{rewrites: {'9' * 5000}}}\n",
    }  # fmt: skip
    for number, (told, text) in enumerate(texts.items()):
        (folder / f"p{number}.yaml").write_text(text)
        yield Case(told, ("-c", f"p{number}.yaml", "plain.onnx"))
