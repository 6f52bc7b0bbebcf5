"""The forms a model file can have: which one a file has, and its content as a protobuf."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Literal

import onnx
from google.protobuf.message import DecodeError

from onnx_passes.errors import ModelError
from onnx_passes.model.paths import near_by

Form = Literal["binary", "text", "textproto", "json"]

LIMIT = 2**31 - 1
"""Bytes that a protobuf message can have."""

# onnx's text parser recurses on the C++ stack and crashes the process when text nests deeply.
_DEPTH = 200
# A string without an end continues to the end of the text: no character is read twice.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|#[^\n]*|[({[<]|[)}\]>]', re.DOTALL)

_EXTENSIONS: dict[str, Form] = {
    ".onnx": "binary",
    ".pb": "binary",
    ".onnxtxt": "text",
    ".onnxtext": "text",
    ".txt": "text",
    ".textproto": "textproto",
    ".prototxt": "textproto",
    ".pbtxt": "textproto",
    ".json": "json",
    ".onnxjson": "json",
}
_FOREIGN = [
    (0, b"version https://git-lfs", "a git-LFS pointer", "fetch the content: git lfs pull"),
    (0, b"\x1f\x8b", "compressed with gzip", "decompress it: gunzip"),
    (0, b"\x93NUMPY", "an array of numpy", "show it: onnx-passes inspect data FILE"),
    (0, b"\x89PNG", "an image", "give the .onnx file"),
    (0, b"PK\x03\x04", "a zip archive", "unpack it, or export the checkpoint in it to ONNX"),
    (0, b"\x89HDF", "an HDF5 file", "export the model to ONNX, with tf2onnx if it is Keras'"),
    (4, b"TFL3", "a TensorFlow Lite model", "export it to ONNX with tf2onnx"),
    (0, b"vtrt", "a TensorRT engine", "beside a GPU: --engine 'tensorrt-rtx{load=FILE}'"),
    (4, b"ORTM", "in ONNX Runtime's own format", "give the .onnx file it was made from"),
]
_EXPORT = "check that the file is complete, or export the model again"


def form_of(path: Path) -> Form | None:
    """Return the form that a file's extension names; None if it names no form."""
    name = path.name.lower()
    return next((f for end, f in _EXTENSIONS.items() if name.endswith(end)), None)


def parse(path: Path, form: Form | None = None) -> onnx.ModelProto:
    """Read a file as a model, without its external data.

    Args:
        path: The file.
        form: Its form; by default its extension says it, else its content.

    Raises:
        ModelError: The file cannot be read, or is not an ONNX model.
    """
    data = _read(path)
    for start, magic, what, advice in _FOREIGN:
        if data.startswith(magic, start):
            raise ModelError(f"the file is {what}, no model", where=str(path), help=advice)
    return _PARSERS[form or form_of(path) or _guess(data)](data, path)


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ModelError(
                "a model is a file, this is a folder",
                where=str(path),
                help="give the .onnx file inside it",
            )
        if path.exists() and not path.is_file():
            raise ModelError(
                "a model is a regular file, this is a pipe or device",
                where=str(path),
                help="save the model to a file first",
            )
        size = path.stat().st_size
        if size > LIMIT:
            raise ModelError(
                f"the file has {size} bytes, more than the {LIMIT} that protobuf can read",
                where=str(path),
                help="export the model with external data",
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        near = near_by(path) if isinstance(error, FileNotFoundError) else None
        raise ModelError(
            f"the model cannot be read: {reason}",
            where=str(path),
            help=f"did you mean {near!r}?"
            if near
            else "check the path, and that you may read the file",
        ) from error
    if not data:
        raise ModelError("the file is empty", where=str(path), help=_EXPORT)
    return data


def _guess(data: bytes) -> Form:
    """Find the form from the content: a binary model begins with a control character."""
    start = data[:4096].lstrip()
    try:
        # Incremental: the cut may be inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "binary"
    if any(byte < 32 and byte not in b"\t\n\r" for byte in start):
        return "binary"
    if start.startswith(b"{"):
        return "json"
    return "textproto" if re.match(rb"[a-z_]+ *[:{]", start) else "text"


def _binary(data: bytes, path: Path) -> onnx.ModelProto:
    try:
        model = onnx.ModelProto()
        model.ParseFromString(data)
    except DecodeError as error:
        if _guess(data) != "binary":
            raise ModelError(
                "the file is text, though its extension is that of a binary model",
                where=str(path),
                help="give ONNX text the extension .onnxtxt, JSON .json",
            ) from error
        raise ModelError(
            "the file is not an ONNX model, or damaged: protobuf cannot decode it",
            where=str(path),
            help=_EXPORT,
        ) from error
    return model


def _text(data: bytes, path: Path) -> onnx.ModelProto:
    try:
        text = data.decode()
        line = _too_deep(text)
        if line is not None:
            raise ModelError(
                f"the text nests more than {_DEPTH} levels deep",
                where=f"{path}:{line}",
                help="close brackets that are open, or move subgraphs into functions",
            )
        return onnx.parser.parse_model(text)
    except onnx.parser.ParseError as error:
        # The message is the text of a bytes object: b'...' with escapes.
        said = str(error).replace("\\n", "\n").rstrip("'\"")
        place = re.search(r"line: (\d+) column: (\d+)", said)
        where = f"{path}:{place[1]}:{place[2]}" if place else str(path)
        raise ModelError(
            f"ONNX text has a syntax error: {said.splitlines()[-1]}",
            where=where,
            help="see https://onnx.ai/onnx/repo-docs/Syntax.html",
        ) from error
    except UnicodeDecodeError as error:
        raise ModelError(
            f"the file is not ONNX text: byte {error.start} is not UTF-8",
            where=str(path),
            help="give a binary model the extension .onnx",
        ) from error
    except (DecodeError, IndexError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"the ONNX text cannot be read: {error}",
            where=str(path),
            help="check that numbers fit their types",
        ) from error


def _too_deep(text: str) -> int | None:
    """Find the line where brackets nest too deeply; None if they do nowhere."""
    depth = 0
    for token in _BRACKETS.finditer(text):
        if token[0] in "({[<":
            depth += 1
            if depth > _DEPTH:
                return text.count("\n", 0, token.start()) + 1
        elif token[0] in ")}]>":
            depth = max(depth - 1, 0)
    return None


def _textproto(data: bytes, path: Path) -> onnx.ModelProto:
    from google.protobuf import text_format

    try:
        model = onnx.ModelProto()
        text_format.Parse(data, model)
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        raise ModelError(
            f"the protobuf text cannot be read: {error}",
            where=f"{path}:{line}:{column}" if line else str(path),
            help="give ONNX text the extension .onnxtxt",
        ) from error
    except (RecursionError, ValueError) as error:
        raise ModelError(
            f"the protobuf text cannot be read: {error}", where=str(path), help=_EXPORT
        ) from error
    return model


def _json(data: bytes, path: Path) -> onnx.ModelProto:
    from google.protobuf import json_format

    try:
        model = onnx.ModelProto()
        json_format.Parse(data, model)
    except (json_format.ParseError, RecursionError, ValueError, AttributeError) as error:
        raise ModelError(
            f"the JSON is not an ONNX model: {error}", where=str(path), help=_EXPORT
        ) from error
    return model


_PARSERS = {"binary": _binary, "text": _text, "textproto": _textproto, "json": _json}
