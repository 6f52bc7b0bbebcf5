"""How a model is called, and complaints about calls that do not fit: one for every engine."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import Data, Feeds


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a help line: the nearest known name if one is near, and all of them.

    Args:
        name: What was asked for.
        known: What there is.
    """
    near = difflib.get_close_matches(name, known, n=1)
    listing = ", ".join(sorted(known)) or "none"
    return f"did you mean {near[0]!r}? known: {listing}" if near else f"known: {listing}"


class SessionInterface:
    """The inputs and outputs of a model, as they were when it was made ready.

    Attributes:
        inputs: Types of the graph inputs by name, in order.
        outputs: Types of the graph outputs by name, in order.
        required: Inputs that have no default: those without an initializer.
    """

    def __init__(self, model: ir.Model) -> None:
        self.inputs = {str(value.name): value.type for value in model.graph.inputs}
        self.outputs = {str(value.name): value.type for value in model.graph.outputs}
        self.required = [
            str(value.name) for value in model.graph.inputs if not value.is_initializer()
        ]

    def check(self, feeds: Feeds, outputs: Sequence[str] | None) -> list[str]:
        """Check a call.

        Args:
            feeds: As for ``Session.run``.
            outputs: As for ``Session.run``.

        Returns:
            The names of the outputs wanted.

        Raises:
            EngineError: A feed is missing, has another element type than the input declares,
                or a name is not the model's.
        """
        for name in self.required:
            if name not in feeds:
                raise EngineError(
                    f"the input {name!r} is not fed", help=f"fed: {', '.join(feeds) or 'none'}"
                )
        for name, data in feeds.items():
            if name not in self.inputs:
                raise EngineError(
                    f"the model has no input {name!r}", help=did_you_mean(name, self.inputs)
                )
            _check_type(name, data, self.inputs[name])
        names = list(self.outputs) if outputs is None else list(outputs)
        for name in names:
            if name not in self.outputs:
                raise EngineError(
                    f"the model has no output {name!r}", help=did_you_mean(name, self.outputs)
                )
        return names


def _check_type(name: str, data: Data, declared: ir.TypeProtocol | None) -> None:
    if isinstance(declared, ir.OptionalType):
        if data is None:
            return
        declared = declared.elem_type
    if isinstance(declared, ir.SequenceType):
        if not isinstance(data, list):
            raise EngineError(f"the input {name!r} is a sequence, but is not fed a list")
        for index, item in enumerate(data):
            _check_type(f"{name}[{index}]", item, declared.elem_type)
    elif isinstance(declared, ir.TensorType):
        if not isinstance(data, np.ndarray | np.generic):
            raise EngineError(
                f"the input {name!r} is a tensor, but is fed {type(data).__name__}"
            )
        _check_dtype(name, data.dtype, declared.dtype)


def _check_dtype(name: str, fed: np.dtype[np.generic], declared: ir.DataType) -> None:
    if declared == ir.DataType.STRING:
        fits = fed.kind in "OSUT"
    else:
        fits = fed.newbyteorder("=") == declared.numpy()
    if not fits:
        raise EngineError(
            f"the input {name!r} is fed {fed}, but the model declares {declared.name.lower()}"
        )
