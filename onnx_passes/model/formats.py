"""The forms of a model file: which one a file has, its content, and what a form loses."""

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import numpy_helper

from onnx_passes.errors import ModelError, nearest
from onnx_passes.model.protos import attribute_tensors
from onnx_passes.model.tensor_bytes import ListedTensor


def closest_file_name(missing: Path) -> str | None:
    """Return the name beside a path that is not there that may be meant."""
    folder = missing.parent
    try:
        beside = [path.name for path in folder.iterdir()]
    except (OSError, ValueError):
        return None
    return next(iter(nearest(missing.name, beside)), None)


Form = Literal["binary", "text"]

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
    (0, b"{", "JSON", "load it with onnx.load(FILE, format='json'), and onnx.save it"),
    (0, b"ir_version:", "protobuf text", "load it with onnx.load(FILE, format='textproto')"),
    (4, b"ORTM", "in ONNX Runtime's own format", "give the .onnx file it was made from"),
    *(
        (0, start, "a web page", "download the file itself, not the page about it")
        for start in (b"<!DOCTYPE", b"<!doctype", b"<html")
    ),
]
_EXPORT = "check that the file is complete, or export the model again"


def form_of(path: Path) -> Form | None:
    """Return the form that a file's extension names; None if it names no form."""
    name = path.name.lower()
    return next((f for end, f in _EXTENSIONS.items() if name.endswith(end)), None)


def parse(path: Path, form: Form | None = None) -> onnx.ModelProto:
    """Read a file as a model, without its external data.

    By default, the extension says the form, else the content. Raises ``ModelError`` if the
    file cannot be read, or is not an ONNX model.
    """
    data = _read(path)
    for start, magic, what, advice in _FOREIGN:
        if data.startswith(magic, start):
            raise ModelError(
                f"the file is {what}, not an ONNX model", where=str(path), help=advice
            )
    return _PARSERS[form or form_of(path) or _guess(data)](data, path)


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ModelError(
                "a model is a file, this is a folder",
                where=str(path),
                help="give the .onnx file inside it",
            )
        stdin = str(path) == "-" and not path.exists()
        if stdin or (path.exists() and not path.is_file()):
            what = "standard input" if stdin else "a pipe or device"
            raise ModelError(
                f"a model is a regular file, this is {what}",
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
        near = closest_file_name(path) if isinstance(error, FileNotFoundError) else None
        raise ModelError(
            f"the model cannot be read: {reason}",
            where=str(path),
            help=f"it is a link to {os.readlink(path)}"
            if os.path.islink(path)
            else f"did you mean {near!r}?"
            if near
            else "download it first"
            if re.match(r"\w{2,}:/", str(path))
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
    control = any(byte < 32 and byte not in b"\t\n\r" for byte in start)
    return "binary" if control else "text"


def _binary(data: bytes, path: Path) -> onnx.ModelProto:
    try:
        model = onnx.ModelProto()
        model.ParseFromString(data)
    except DecodeError as error:
        if _guess(data) != "binary":
            raise ModelError(
                "the file is text, though its extension is that of a binary model",
                where=str(path),
                help="give ONNX text the extension .onnxtxt",
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


_PARSERS = {"binary": _binary, "text": _text}


# The order of these says nothing.
_UNORDERED: dict[str, Callable[[Any], str]] = {
    "value_info": lambda entry: str(entry.name),
    "metadata_props": lambda entry: str(entry.key),
    "opset_import": lambda entry: str(entry.domain),
    "quantization_annotation": lambda entry: str(entry.tensor_name),
    "quant_parameter_tensor_names": lambda entry: str(entry.key),
    "attribute": lambda entry: entry if isinstance(entry, str) else str(entry.name),
}
REMARKS = frozenset({"doc_string", "metadata_props", "value_info", "denotation"})
"""Fields that no engine needs."""
_NAMED_IN_BODY = re.compile(r"\.g\.(input|output)\[.*\.dim_param")
"""The name of a size in a body; a value that the body reads and gives may have two of them."""


def split_losses(losses: Iterable[str]) -> tuple[list[str], list[str]]:
    """Part losses into those that matter and those of remarks."""
    grave: list[str] = []
    remarks: list[str] = []
    for loss in losses:
        fields = {re.split(r"[\[ ]", part)[0] for part in loss.split(".")}
        remark = not REMARKS.isdisjoint(fields) or _NAMED_IN_BODY.search(loss)
        (remarks if remark else grave).append(loss)
    return grave, remarks


def lost_fields(
    before: Message, after: Message, skip: frozenset[str] = frozenset(), place: str = ""
) -> Iterator[str]:
    """Name what a message holds that another does not, as paths of fields.

    Whether a default is spelled out, how a tensor's data are stored, and types of values that
    ``after`` adds make no difference. Fields named in ``skip`` are not compared. ``place`` is
    the path of the message itself.
    """
    # Weights are not worth serialising at each level on the way down.
    if not _holds_graphs(before) and (
        before.SerializeToString(deterministic=True)
        == after.SerializeToString(deterministic=True)
    ):
        return
    if isinstance(before, onnx.TensorProto):
        yield from _lost_tensor(before, after, skip, place)
        return
    for field, value in before.ListFields():
        if field.name in skip:
            continue
        path = f"{place}.{field.name}" if place else field.name
        other = getattr(after, field.name)
        if isinstance(value, Message):
            if not after.HasField(field.name) and value.ByteSize():
                yield path
            else:
                yield from lost_fields(value, other, skip, path)
        elif isinstance(value, str | bytes | int | float | bool):
            if value != other and not (value != value and other != other):  # NaN
                yield path
        else:
            if isinstance(after, onnx.GraphProto) and field.name == "value_info":
                other = [*after.input, *after.output, *other]  # there it need not be repeated
            yield from _lost_items(field.name, value, other, skip, path)
    for unknown in UnknownFieldSet(before):
        yield f"{place}.(field {unknown.field_number}, unknown to onnx {onnx.__version__})"
    # A field that is there only afterwards changes what the model says.
    for field, _ in after.ListFields():
        if (
            field.name not in skip
            and field.name != "value_info"
            and _unset(before, field.name)
        ):
            yield f"{place}.{field.name} (added)"


def _holds_graphs(message: Message) -> bool:
    if isinstance(message, onnx.NodeProto):
        return any(map(_holds_graphs, message.attribute))
    if isinstance(message, onnx.AttributeProto):
        return message.HasField("g") or len(message.graphs) > 0
    return isinstance(message, onnx.ModelProto | onnx.GraphProto | onnx.FunctionProto)


def _unset(message: Message, name: str) -> bool:
    value = getattr(message, name)
    if isinstance(value, Message):
        return not message.HasField(name)
    return hasattr(value, "__len__") and not isinstance(value, str | bytes) and not len(value)


def _lost_items(
    name: str,
    before: Sequence[object],
    after: Sequence[object],
    skip: frozenset[str],
    path: str,
) -> Iterator[str]:
    if name in _UNORDERED:
        key = _UNORDERED[name]
        others = {key(item): item for item in after}
        pairs = [(item, others.get(key(item))) for item in before]
        if name != "value_info" and len(after) > len(before):
            yield f"{path} (added)"
    elif len(before) != len(after):
        yield f"{path} ({len(before)} entries became {len(after)})"
        return
    else:
        pairs = list(zip(before, after, strict=True))
    for index, (item, other) in enumerate(pairs):
        label = getattr(item, "name", "") if isinstance(item, Message) else ""
        here = f"{path}[{label or index}]"
        if other is None:
            yield here
        elif isinstance(item, Message):
            yield from lost_fields(item, other, skip, here)
        elif item != other and not (item != item and other != other):
            yield here


def _lost_tensor(
    before: onnx.TensorProto, after: Message, skip: frozenset[str], place: str
) -> Iterator[str]:
    assert isinstance(after, onnx.TensorProto)
    same = before.data_type == after.data_type and list(before.dims) == list(after.dims)
    location = onnx.TensorProto.EXTERNAL
    if location in (before.data_location, after.data_location):
        same = same and _places(before) == _places(after)
    elif same:
        left, right = numpy_helper.to_array(before), numpy_helper.to_array(after)
        if left.dtype == object:
            same = bool(np.array_equal(left, right))
        else:
            # Bits, not values: a NaN equals itself, and 0.0 is not -0.0.
            same = left.tobytes() == right.tobytes()
    if not same:
        yield f"{place}.data"
    for name in ("name", "doc_string"):
        if name not in skip and getattr(before, name) != getattr(after, name):
            yield f"{place}.{name}"


def _places(tensor: onnx.TensorProto) -> dict[str, str]:
    found = {entry.key: entry.value for entry in tensor.external_data}
    # A checksum says nothing new about data that are there.
    return {key: found[key] for key in ("location", "offset", "length") if key in found}


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def inlined(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
    """Give a tensor as one that is written with its data, in the form that it was read in."""
    if isinstance(tensor, ListedTensor):
        return tensor.listed()
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.LazyTensor(
        lambda: ir.Tensor(tensor.numpy(), dtype=tensor.dtype, shape=ir.Shape(tensor.shape)),
        dtype=tensor.dtype,
        shape=ir.Shape(tensor.shape),
        cache=False,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def render(model: onnx.ModelProto, form: Form, where: str) -> bytes:
    """Serialise a model, always to the same bytes.

    ``where`` names the file in messages. Raises ``ModelError`` if the form cannot hold the
    model.
    """
    try:
        if form == "binary":
            return bytes(model.SerializeToString(deterministic=True))
        return _text_render(model, where)
    except (EncodeError, ValueError) as error:
        raise ModelError(
            f"the model cannot be written in this form: {error}",
            where=where,
            help="save it as .onnx with external data",
        ) from error


def _text_render(model: onnx.ModelProto, where: str) -> bytes:
    """Print a model, and read it again to know that nothing but remarks is gone."""
    try:
        printed, unnamed = _parseable(model)
        text = onnx.printer.to_text(printed)
        grave, remarks = split_losses(lost_fields(printed, onnx.parser.parse_model(text)))
        remarks += unnamed
    except (onnx.parser.ParseError, RuntimeError, IndexError, ValueError) as error:
        raise ModelError(
            f"ONNX text has no words for something in this model: {error}",
            where=where,
            help="save it as .onnx",
        ) from error
    if grave:
        raise ModelError(
            f"ONNX text has no words for something in this model: {', '.join(grave[:3])}",
            where=where,
            help="save it as .onnx",
        )
    if remarks:
        text = (
            f"# without {len(remarks)} doc strings or other remarks; .onnx keeps them\n{text}"
        )
    return text.encode()


def _parseable(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Leave out names that the parser of ONNX text cannot read, and return which those are.

    The name of a tensor that is an attribute says nothing: the value of a Constant has its
    name from the node. PyTorch writes such names, with slashes.
    """
    named = [tensor.name for _, tensor in attribute_tensors(model) if _unreadable(tensor)]
    if not named:
        return model, []
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    for _, tensor in attribute_tensors(copied):
        if _unreadable(tensor):
            tensor.ClearField("name")
    return copied, named


def _unreadable(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.name) and not _WORD.fullmatch(tensor.name)
