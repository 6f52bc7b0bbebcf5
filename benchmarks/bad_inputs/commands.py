"""Inputs of commands beside ``run``: files that do harm."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.bad_inputs.case import Case
from benchmarks.bad_inputs.hostile import EVIL, model

M = "model.onnx"
_RUN = ("-c", "cleanup", "-o", "out.onnx")
_SCRIPTS = {
    "leaves.py": "raise SystemExit(0)\n",
    "raises.py": f"raise ValueError({EVIL[:12]!r})\n",
    "feeds.py": "def feeds():\n    yield {'input': 'text'}\n\n\nrules = 7\n",
}
_TEXTS = {
    "leaves.yaml": "imports: [leaves.py]\npasses: []\n",
    "raises.yaml": "imports: [raises.py]\npasses: []\n",
    "keys.yaml": "passes: [eliminate-identity]\npasses: [merge-clips]\n",
    "budget.yaml": "verify: {metrics: {snr: [high, low]}}\ntune: {formats: [float128]}\n",
    "deep.onnxtxt": "<ir_version: 10, opset_import: ['' : 20]>\n"
    "g (float[N] x) => (float[N] y) {" + "y = If(x) <then_branch = g () => () {" * 2000,
    "list.json": "[" * 3000 + "]" * 3000,
}


def hostile(folder: Path) -> Iterator[Case]:
    """Yield what does harm; files are written to a folder."""
    (folder / M).write_bytes(model().SerializeToString())
    for name, text in (_SCRIPTS | _TEXTS).items():
        (folder / name).write_text(text)
    yield from _models(folder)
    os.mkfifo(folder / "pipe.onnx")
    yield Case("a pipe that nobody writes, as a model", ("inspect", "pipe.onnx"))
    (folder / "loop.onnx").symlink_to("loop.onnx")
    yield Case("a link to itself as a model", ("lint", "loop.onnx"))
    yield Case("2,000 branches within branches, as text", ("inspect", "deep.onnxtxt"))
    yield Case("an import that ends the program", ("-c", "leaves.yaml", M))
    yield Case("an import that raises", ("list", "-c", "raises.yaml"))
    yield Case("the same key twice in YAML", ("config", "check", "keys.yaml"))
    yield Case("a function of the system as rules", ("certify", "--rules", "os:abort"))
    yield Case("a number as rules", ("certify", "--rules", "feeds:rules"))
    yield Case("a loader that yields text", ("compare", M, "--data-loader", "feeds:feeds"))
    yield Case("a path as the name of a pass", ("new-pass", "../../etc/evil"))
    yield Case("budgets that are texts", ("tune", M, "-c", "budget.yaml", "-o", "a.onnx"))
    yield Case("3,000 lists as a report", ("view", M, "--report", "list.json"))
    report = {"version": 1, "passes": EVIL, "model": {"name": [EVIL]}}
    (folder / "report.json").write_text(json.dumps(report))
    yield Case("a report of other types", ("view", M, "--report", "report.json"))
    with zipfile.ZipFile(folder / "up.zip", "w") as archive:
        archive.writestr("../../evil.npy", _npy(np.ones(3, np.float32)))
    yield Case("results that climb up", ("compare", M, "--load-outputs", "up.zip"))
    np.save(folder / "fields.npy", np.zeros(3, [("a", "<f4"), ("b", "<i8")]))
    yield Case("an array of records", ("data", "convert", "fields.npy", "-o", "a.json"))
    np.savez(folder / "names.npz", **{EVIL.replace("\x00", ""): np.ones(3, np.float32)})
    yield Case("control characters in .npz", ("inspect", "data", "names.npz"))


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _models(folder: Path) -> Iterator[Case]:
    changes: dict[str, tuple[Callable[[onnx.ModelProto], object], tuple[str, ...]]] = {
        "weights twice, as bytes and as floats": (_doubled, ("inspect", "{}")),
        "a text that is not UTF-8": (_bytes, ("inspect", "{}", "--show", "weights")),
        "a node without an operator": (lambda m: m.graph.node[0].ClearField("op_type"),
                                       ("lint", "{}")),
        "an output that is listed twice": (
            lambda m: m.graph.output.append(m.graph.output[0]), (*_RUN, "{}")),
        "two versions of one opset": (
            lambda m: m.opset_import.append(helper.make_opsetid("", 7)), (*_RUN, "{}")),
        "sparse weights beyond their shape": (_sparse, (*_RUN, "{}")),
        "weights at a negative offset": (_offset, ("strip-weights", "{}", "-o", "a.onnx")),
    }  # fmt: skip
    for number, (told, (change, words)) in enumerate(changes.items()):
        made = model()
        change(made)
        file = f"made-{number}.onnx"
        (folder / file).write_bytes(made.SerializeToString())
        yield Case(told, tuple(word.format(file) for word in words))


def _doubled(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].float_data.extend([1.0] * 5)


def _bytes(made: onnx.ModelProto) -> None:
    texts = helper.make_tensor("texts", TensorProto.STRING, [2], [b"\xff\xfe\x80", b"\x1b[2J"])
    made.graph.initializer.append(texts)


def _sparse(made: onnx.ModelProto) -> None:
    values = numpy_helper.from_array(np.ones(2, np.float32), "sparse")
    places = numpy_helper.from_array(np.array([7, 1 << 40], np.int64), "places")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))


def _offset(made: onnx.ModelProto) -> None:
    weights = made.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "-8", "length": "9" * 30}.items():
        weights.external_data.add(key=key, value=value)
