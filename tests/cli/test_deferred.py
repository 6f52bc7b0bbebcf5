"""Deferred modules are there when they are used, and not before."""

import subprocess
import sys
from pathlib import Path

from tests.tables import each_of

CODE = """
import sys
from onnx_passes.cli.main import defer
defer()
import onnx_ir as ir
assert "mpmath" not in sys.modules
print(ir.SymbolicDim("N") + 1)
assert "mpmath" in sys.modules
print(ir.SymbolicDim("max(2, N) // 2").evaluate({"N": 8}))
"""

THREADS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from onnx_passes.cli.main import defer
defer(["slow"])
import slow
assert "done" not in slow.__dict__
found, together = [], threading.Barrier(4)
def use():
    together.wait()
    found.append((slow.half(), slow.done))
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [(2, 1)] * 4, found
try:
    slow.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
"""

OPERATORS = """
import sys
from onnx_passes.cli.main import defer
defer()
import numpy, onnx, onnxscript
assert "onnx.reference.op_run" not in sys.modules
# An operator's own module first, then what onnxscript folds with.
from onnx.reference.ops.op_loop import Loop
import onnx.reference.ops
assert onnx.reference.ops.load_op("", "Loop", 20) is Loop
from onnx.reference import ReferenceEvaluator
text = "<ir_version: 10, opset_import: ['': 20]> g (float[2] x) => (float[2] y) {y = Neg(x)}"
model = onnx.parser.parse_model(text.replace("'", '"'))
print(ReferenceEvaluator(model).run(None, {"x": numpy.ones(2, numpy.float32)})[0])
"""

REDUCE = """
import sys
from onnx_passes.cli import main
def fails(path):
    import onnx
    return any(node.op_type == "Relu" for node in onnx.load(path).graph.node)
sys.modules["mine"] = sys.modules["__main__"]
words = ["-o", "small.onnx", "--no-shrink", "--check-function", "mine:fails"]
try:
    main(["reduce", sys.argv[1], *words])
except SystemExit as end:
    assert not end.code
assert "onnx_ir" in sys.modules and "mpmath" not in sys.modules
"""
MODEL = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


SCRIPTED = """
import sys
from onnx_passes.cli.main import SCRIPTED, defer
defer()
from onnxscript.rewriter.pattern import RewriteRule
import onnxscript.rewriter._pattern_ir as patterns
assert patterns is sys.modules["onnxscript.rewriter._pattern_ir"]
assert "onnxscript.onnx_opset" not in sys.modules
assert "onnxscript.rewriter.rules" not in sys.modules
# Whoever wants the whole package has it, in any order.
import onnxscript
assert onnxscript.__version__ and "script" in onnxscript.__all__
assert onnxscript.rewriter.RewriteRule is RewriteRule
assert onnxscript.rewriter.pattern.RewriteRule is RewriteRule
from onnxscript import opset18, script
from onnxscript.optimizer import optimize
import importlib, pkgutil
for name in SCRIPTED:
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__):
        known = vars(package).get(module.name)
        whole = sys.modules.get(f"{name}.{module.name}")
        assert known is None or known is whole, (name, module.name)
"""


ASLEEP = """
import os
from onnx_passes.cli.main import defer
os.environ.pop("OPENBLAS_THREAD_TIMEOUT", None)
defer()
print(os.environ["OPENBLAS_THREAD_TIMEOUT"])
os.environ["OPENBLAS_THREAD_TIMEOUT"] = "20"
defer()
print(os.environ["OPENBLAS_THREAD_TIMEOUT"])
"""


@each_of(
    "code, words, printed",
    (CODE, (), "4\n"),
    (THREADS, (".",), ""),
    (REDUCE, (MODEL,), ""),
    (OPERATORS, (), "[-1. -1.]\n"),
    (SCRIPTED, (), ""),
    (ASLEEP, (), "4\n20\n"),
    ids=["sizes", "threads", "a reduction", "operators", "a whole package", "asleep"],
)
def test_what_is_deferred_is_whole_when_it_is_used(tmp_path, code, words, printed):
    slow = "import time\ndef half(): return done + 1\ntime.sleep(0.2)\ndone = 1\n"
    (tmp_path / "slow.py").write_text(slow)
    program = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(printed)
