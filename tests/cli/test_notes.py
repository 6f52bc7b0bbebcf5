"""Notes on the noise of an engine are printed with -v only, and always reported."""

import json
from pathlib import Path

from onnx_passes.report.text import NOISE

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


def test_notes_on_noise_are_printed_with_v_only(cli):
    words = ("-c", "optimize", "-o", "out.onnx", "--json", "run.json", DIGITS)
    quiet = cli(*words)
    assert quiet.code == 0, quiet.err
    assert any(NOISE in note for note in json.loads(Path("run.json").read_text())["notes"])
    assert NOISE not in quiet.err
    assert NOISE in cli(*words, "-v").err
