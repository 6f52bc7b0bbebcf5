"""Passes for the tests of --resume: whatever may be lost between two processes, one needs."""

import os

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Analysis, Transformation
from onnx_passes.passes.compose import ComposePass


@passes.register()
class ResumeCount(Analysis):
    """Count the nodes."""

    def analyse(self, model):
        return len(model.graph)


@passes.verify.equality
@passes.register()
class ResumeNote(Transformation):
    """Put an unnamed node in, whose name onnx-ir gives, and note what was counted."""

    requires = ("resume-count",)
    preserves = ("resume-count",)

    def call(self, model):
        made = self.state_dict.setdefault("made", [])
        made.append(self.context.analysis("resume-count"))
        weights = ir.tensor(np.full(3, len(made), np.float32), name="w")
        constant = ir.node("Constant", [], {"value": weights})
        add = ir.node("Neg", [constant.outputs[0]])
        model.graph.extend([constant, add])
        model.metadata_props[f"note {len(made)}"] = f"{made} {self.id}"
        return ir.passes.PassResult(model, True)


@passes.verify.equality
@passes.register()
class ResumeDrop(Transformation):
    """Take a node out that nobody reads."""

    def call(self, model):
        dead = [n for n in model.graph if not any(o.uses() for o in n.outputs)]
        dead = [n for n in dead if not any(o.is_graph_output() for o in n.outputs)]
        for node in dead[:1]:
            model.graph.remove(node, safe=True)
        return ir.passes.PassResult(model, bool(dead))


@passes.verify.equality
@passes.register()
class ResumeWrong(Transformation):
    """Change every weight, which is undone."""

    def call(self, model):
        for value in model.graph.initializers.values():
            if value.dtype == ir.DataType.FLOAT:
                value.const_value = ir.tensor(value.const_value.numpy() * np.float32(-3))
        return ir.passes.PassResult(model, True)


@passes.verify.equality
@passes.register()
class ResumeBoth(ComposePass):
    """Note, and drop until nothing is left to drop."""

    __passes__ = ("resume-note", "resume-drop")


@passes.verify.equality
@passes.register()
class ResumeStop(Transformation):
    """End the process, or raise, when the environment says so."""

    def call(self, model):
        if number := os.environ.get("RESUME_STOP"):
            os.kill(os.getpid(), int(number))
        return ir.passes.PassResult(model, False)
