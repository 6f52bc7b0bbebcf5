import ast
from pathlib import Path

import numpy as np
import onnx

import onnx_passes
from onnx_passes.model.ort_sessions import open_session, session_options
from tests.tables import each_of

ROOT = Path(onnx_passes.__file__).parent
OWN = {
    "model/ort_sessions.py",
    "verify/repro.py",  # a script of a reproducer runs without this package
}
"""Modules that may make options and sessions of ONNX Runtime."""
MAKERS = {"InferenceSession", "SessionOptions"}


def model(text):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')


def test_one_place_opens_sessions():
    found = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text("utf-8")
        if not any(name in text for name in MAKERS):
            continue
        calls = (n.func for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call))
        if {getattr(func, "attr", getattr(func, "id", "")) for func in calls} & MAKERS:
            found.add(path.relative_to(ROOT).as_posix())
    assert found == OWN


def test_a_session_computes_on_one_thread_of_the_cpu():
    session = open_session(model("g (float[2] x) => (float[2] y) { y = Add(x, x) }"))
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_session_options().intra_op_num_threads == 1
    (found,) = session.run(None, {"x": np.float32([1, 2])})
    assert found.tolist() == [2, 4]


@each_of("prepacking, entry", (False, "1"), (True, "0"))
def test_weights_are_prepacked_if_asked_for(prepacking, entry):
    options = session_options(prepacking=prepacking)
    assert options.get_session_config_entry("session.disable_prepacking") == entry
