"""What the IR version of a model allows."""

import onnx_ir as ir

FREE_INITIALIZERS = 4


def require_free_initializers(model: ir.Model) -> None:
    """Raise the IR version to 4 if needed: before, every initializer had to be an input."""
    model.ir_version = max(model.ir_version, FREE_INITIALIZERS)
