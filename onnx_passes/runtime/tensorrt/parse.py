"""A model through the parser, and the nodes that it refuses."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx_ir as ir

from onnx_passes.errors import EngineError, ModelError, UnsupportedModelError
from onnx_passes.model.formats import inlined
from onnx_passes.model.save import save_model
from onnx_passes.model.walk import replaced, weight_bytes
from onnx_passes.runtime.tensorrt.binding_types import TrtParser, TrtParserError

_LIMIT = (2 << 30) - (64 << 20)
_MOST = 3


def parse(parser: TrtParser, model: ir.Model, *, limit: int = _LIMIT) -> None:
    """Hand a model to the parser, as bytes, or as a file beyond 2 GiB.

    Args:
        parser: An ``OnnxParser``.
        model: The model; it is not changed.
        limit: Bytes of weights from which it goes through a file.

    Raises:
        UnsupportedModelError: The parser refuses it; the message names nodes and reasons.
        EngineError: It cannot be serialised.
    """
    try:
        if weight_bytes(model) < limit:
            with replaced(model, inlined):
                data = ir.to_proto(model).SerializeToString()
            parsed = parser.parse(data)
        else:
            with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
                path = Path(folder) / "model.onnx"
                save_model(model, path, external_data="external")
                parsed = parser.parse_from_file(str(path))
    except (ir.serde.SerdeError, ModelError, OSError, ValueError, TypeError) as error:
        raise EngineError(f"the model cannot be serialised: {error}") from error
    if not parsed:
        raise _refusal(parser, model)


def _refusal(parser: TrtParser, model: ir.Model) -> UnsupportedModelError:
    reasons = list(dict.fromkeys(_describe(error, model) for error in errors_of(parser)))
    rest = f"; and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
    return UnsupportedModelError(
        "; ".join(reasons[:_MOST]) + rest or "the parser gives no reason"
    )


def errors_of(parser: TrtParser) -> list[TrtParserError]:
    """Return why a parser refused the model that it was given last."""
    return [parser.get_error(index) for index in range(parser.num_errors)]


def reason_of(error: TrtParserError) -> str:
    """Return the parser's own words, and its code such as UNSUPPORTED_NODE."""
    # The code of the bindings is an enumeration: ErrorCode.UNSUPPORTED_NODE.
    return f"{error.desc().strip()} ({str(error.code()).rpartition('.')[2]})"


def _describe(error: TrtParserError, model: ir.Model) -> str:
    stack = list(error.local_function_stack())
    inside = f" in function {' > '.join(stack)}" if stack else ""
    operator = error.node_operator()
    if not operator:
        return reason_of(error)
    name = error.node_name() or _outputs(error.node(), operator, model)
    return f"node {name!r} ({operator}){inside}: {reason_of(error)}"


def _outputs(index: int, operator: str, model: ir.Model) -> str:
    """Name a node that has no name by what it computes."""
    if 0 <= index < len(model.graph) and model.graph[index].op_type == operator:
        return ", ".join(str(value.name) for value in model.graph[index].outputs)
    return f"#{index}"
