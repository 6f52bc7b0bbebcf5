"""What a run that checks nothing does without."""

import os
import subprocess
import sys
from pathlib import Path

from tests.tables import each_of

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "digits" / "model.onnx"
CHECKS = ("pipeline.gate", "runtime.inputs", "certifying")


@each_of("words", ["--no-verify"], [])
def test_only_a_verified_run_imports_what_checks(tmp_path, words):
    code = (
        "import atexit, sys\n"
        f"names = {[f'onnx_passes.{name}' for name in CHECKS]!r}\n"
        "atexit.register(lambda: print(*(n in sys.modules for n in names), file=sys.stderr))\n"
        "from onnx_passes.cli import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-c", "cleanup", *words, "-o", "out.onnx", MODEL],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    # No rounding is weighed on this model, so that the modules of rules are not needed.
    verified = str(not words)
    assert f"{verified} {verified} False" in done.stderr.splitlines(), done.stderr
