"""Convert overridable initializers to constants."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.graph_edits import require_free_initializers


@passes.verify.equality
@passes.register()
class RemoveInitializersFromInputs(passes.Transformation):
    """Convert overridable initializers to constants.

    Before: ``(float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}>``
    After:  ``(float[2] x) => (float[2] y) <float[2] w = {1, 2}>``

    The IR version is raised to 4, before which every initializer had to be an input. So is
    that of a model with an initializer that is not: ONNX Runtime runs it until a rewrite
    leaves such an initializer without a reader.

    Sound because callers who do not override an initializer get its value before and after.
    Callers who do can no longer: the interface changes. Before IR version 4 there is no such
    caller: every initializer had to be an input, and ONNX Runtime refuses to override one.

    Leaves alone: inputs without an initializer.

    Attributes:
        before_ir_version: Only change models of an IR version before this one.
    """

    interface_changes = frozenset({"inputs"})

    before_ir_version: int | None = None

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Drop the inputs that have an initializer."""
        graph, version = model.graph, model.ir_version
        if self.before_ir_version is not None and version >= self.before_ir_version:
            return ir.passes.PassResult(model, modified=False)
        if not all(v.is_graph_input() for v in graph.initializers.values()):
            require_free_initializers(model)
        required = [v for v in graph.inputs if not v.is_initializer()]
        if len(required) == len(graph.inputs):
            return ir.passes.PassResult(model, modified=model.ir_version != version)
        if version >= 4:
            names = [str(v.name) for v in graph.inputs if v.is_initializer()]
            more = f" and {len(names) - 3} more" if names[3:] else ""
            self.context.notes.append(
                f"callers can no longer give inputs that had a default: "
                f"{', '.join(names[:3])}{more}"
            )
        graph.inputs[:] = required
        require_free_initializers(model)
        return ir.passes.PassResult(model, modified=True)
