"""What an error of a library comes from."""

from __future__ import annotations


def root_cause(error: BaseException) -> BaseException:
    """Follow an error to its first cause: onnx-ir wraps each in the text of whole models."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
