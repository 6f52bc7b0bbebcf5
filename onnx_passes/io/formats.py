"""The forms that a model file can have."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import onnx
from google.protobuf.message import DecodeError

from onnx_passes.errors import ModelError

Form = Literal["binary", "text", "textproto", "json"]

_EXTENSIONS: dict[str, Form] = {
    ".onnx": "binary",
    ".pb": "binary",
    ".onnxtxt": "text",
    ".onnxtext": "text",
    ".onnx.txt": "text",
    ".txt": "text",
    ".textproto": "textproto",
    ".prototxt": "textproto",
    ".pbtxt": "textproto",
    ".json": "json",
    ".onnxjson": "json",
}
LIMIT = 2**31 - 1
"""Bytes that a protobuf message can have."""


def form_of(path: Path) -> Form | None:
    """Tell the form that a file's extension stands for; None if it says nothing."""
    name = path.name.lower()
    return next((f for end, f in _EXTENSIONS.items() if name.endswith(end)), None)


def parse(path: Path) -> onnx.ModelProto:
    """Read a file as a model, without its external data.

    Raises:
        ModelError: The file cannot be read, or is no ONNX model.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"the model cannot be read: {error.strerror}",
            where=str(path),
            help="give the path of an ONNX model",
        ) from error
    form = form_of(path) or ("text" if data.lstrip()[:1] == b"<" else "binary")
    try:
        if form == "binary":
            return onnx.ModelProto.FromString(data)
        if form == "text":
            return onnx.parser.parse_model(data.decode())
        return onnx.load_model_from_string(data, format=form)
    except (DecodeError, onnx.parser.ParseError, ValueError) as error:
        raise ModelError(
            f"the file is no ONNX model: {error}", where=str(path), help="export it again"
        ) from error
