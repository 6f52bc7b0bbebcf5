"""The model, the passes and the pipeline of these tests, and how they are run."""

import os
import subprocess
import sys

import onnx_ir as ir

TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y) <float w = {2}>
{ a = Identity(x) b = Mul(a, w) c = Identity(b) y = Identity(c) }"""
PASSES = """\
import os, time
import numpy as np
import onnx_ir as ir
from onnx_passes import passes
from onnx_passes.cli import supervision
from onnx_passes.pipeline import run as resume

if "SAVE_EACH" in os.environ:
    resume.SHARE = 1e9
if "SAVE_SLOWLY" in os.environ:
    supervision.PATIENCE, save = 0.2, resume.save_model
    resume.save_model = lambda *a, **k: (time.sleep(1), save(*a, **k))[1]

def scale(model, factor):
    for value in model.graph.initializers.values():
        value.const_value = ir.tensor(value.const_value.numpy() * np.float32(factor))
    return ir.passes.PassResult(model, True)

@passes.verify.equality
@passes.register()
class OwnStop(passes.Transformation):
    def call(self, model):
        match os.environ.get("STOP", ""):
            case "wrong":
                return scale(model, 2)
            case "raise":
                raise ValueError("broken")
            case "sleep":
                time.sleep(30)
            case "chdir":
                os.chdir("/")
                raise ValueError("elsewhere")
            case number if number:
                os.kill(os.getpid(), int(number))
        return ir.passes.PassResult(model, False)

@passes.register()
class OwnDrift(passes.Transformation):
    def call(self, model):
        return scale(model, 1.5)

@passes.verify.tolerance
@passes.register()
class OwnNudge(passes.Transformation):
    def call(self, model):
        return scale(model, 1 + 6e-5)

@passes.verify.equality
@passes.register()
class OwnShare(passes.Transformation):
    value: str = "plain"
    def call(self, model):
        match self.value:
            case "meta":
                next(iter(model.graph)).meta["note"] = 1
            case "object":
                self.state_dict["made"] = object()
            case _:
                seen = self.state_dict.setdefault("made", [])
                seen.append(self.value)
                model.metadata_props["made"] = str(seen)
        return ir.passes.PassResult(model, True)
"""
CONFIG = """\
imports: [own]
passes: [{}]
cache: cache
reproducers: false
reference: {{inputs: in.npz}}
"""
STEPS = "own-share, eliminate-identity, own-stop, remove-unused-nodes"


def start(folder, *words, **env):
    command = [sys.executable, "-m", "onnx_passes", "-c", "p.yaml", "-o", "out.onnx"]
    return subprocess.Popen(
        [*command, *words, "m.onnx"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | env,
    )


def run_apart(folder, *words, **env):
    process = start(folder, *words, **env)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def saved(folder):
    return [path for path in (folder / "cache").rglob("*") if path.is_file()]


def is_right(folder):
    """Whether the result is what the passes make of the model in one go."""
    model = ir.load(folder / "out.onnx")
    (node,) = model.graph
    (weight,) = model.graph.initializers.values()
    return node.op_type == "Mul" and float(weight.const_value.numpy()) == 2
