import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnx_passes.cli import main
from onnx_passes.passes import registry

ROOT = Path(__file__).parents[2]


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    def tells(self, code, *texts):
        """Check the exit code and what is said on stderr."""
        assert self.code == code, self.err
        assert [text for text in texts if text not in self.err] == [], self.err

    def prints(self, code, *texts):
        """Check the exit code and what is said on stdout."""
        assert self.code == code, self.err
        assert [text for text in texts if text not in self.out] == [], self.out


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Call the program in an empty folder; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["onnx-passes", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        assert "--debug" in words or "Traceback" not in captured.err
        return Outcome(end.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def write(tmp_path):
    """Write a text file below the folder of the test."""

    def put(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return put


@pytest.fixture
def model(tmp_path):
    """A small model file: y = Relu(a + b), with an Identity to remove."""
    import onnx.parser

    text = """<ir_version: 10, opset_import: ["" : 20]>
    main (float[N,2] a, float[N,2] b) => (float[N,2] y)
    { s = Add(a, b) i = Identity(s) y = Relu(i) }"""
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch):
    """Forget the passes that a test registers, and print on wide lines."""
    registry.discover()

    def ours(cls):
        return cls.__module__.startswith("onnx_passes.")

    for cls in registry._passes.values():
        if not ours(cls):
            # Or a pipeline that imports the module would find it loaded, and its passes gone.
            monkeypatch.delitem(sys.modules, cls.__module__, raising=False)
    known = {name: cls for name, cls in registry._passes.items() if ours(cls)}
    groups = {name: list(filter(ours, found)) for name, found in registry._groups.items()}
    monkeypatch.setattr(registry, "_passes", known)
    monkeypatch.setattr(registry, "_groups", {k: v for k, v in groups.items() if v})
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
