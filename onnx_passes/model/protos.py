"""Models as protobufs: walks over them, and the rules that every model must keep.

The rules are about names, types, and whether the data of each tensor are there. Checks
raise ``ModelError``, which says what is wrong, in which graph and at which node.
"""

import math
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError


def place_of(node: onnx.NodeProto) -> str:
    """Name a node for people: by its name, else by what it makes."""
    if node.name:
        return f"node '{node.name}' ({node.op_type})"
    # Names that are not UTF-8 are bytes here.
    made = ", ".join(str(name) for name in node.output if name)
    return f"node '{node.op_type} -> {made}'"


_WITHOUT_GRAPHS = frozenset(
    (
        onnx.AttributeProto.FLOAT,
        onnx.AttributeProto.FLOATS,
        onnx.AttributeProto.INT,
        onnx.AttributeProto.INTS,
        onnx.AttributeProto.STRING,
        onnx.AttributeProto.STRINGS,
        onnx.AttributeProto.TENSOR,
        onnx.AttributeProto.TENSORS,
    )
)


def graphs_of(attributes: Sequence[onnx.AttributeProto]) -> Iterator[onnx.GraphProto]:
    """Yield the graphs among attributes, not those nested in them."""
    for attribute in attributes:
        if attribute.type in _WITHOUT_GRAPHS:
            continue
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_bodies(
    model: onnx.ModelProto,
) -> Iterator[tuple[str, onnx.GraphProto | onnx.FunctionProto]]:
    """Yield the main graph, the functions, and all graphs nested in them, with places."""
    pending: list[tuple[str, onnx.GraphProto | onnx.FunctionProto]] = [
        (f"function '{function.domain}::{function.name}'", function)
        for function in reversed(model.functions)
    ]
    pending.append((f"graph '{model.graph.name}'", model.graph))
    while pending:
        place, body = pending.pop()
        yield place, body
        nested: list[tuple[str, onnx.GraphProto | onnx.FunctionProto]] = []
        for node in body.node:
            for attribute in node.attribute:
                if attribute.type not in _WITHOUT_GRAPHS:
                    graphs = graphs_of((attribute,))
                    nested += [(f"graph '{g.name}' of {place_of(node)}", g) for g in graphs]
        pending.extend(reversed(nested))


def all_attributes(
    model: onnx.ModelProto,
) -> Iterator[tuple[str, onnx.NodeProto | None, onnx.AttributeProto]]:
    """Yield every attribute with its place and node; defaults of functions have no node."""
    for place, body in all_bodies(model):
        if isinstance(body, onnx.FunctionProto):
            for attribute in body.attribute_proto:
                yield f"{place}, attribute '{attribute.name}'", None, attribute
        for node in body.node:
            for attribute in node.attribute:
                yield f"{place_of(node)}, attribute '{attribute.name}'", node, attribute


def all_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield every dense tensor: initializers, and tensors in attributes."""
    for place, body in all_bodies(model):
        if isinstance(body, onnx.GraphProto):
            for tensor in body.initializer:
                yield f"{place}, initializer '{tensor.name}'", tensor
    yield from attribute_tensors(model)


def attribute_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield every dense tensor in an attribute."""
    for place, _, attribute in all_attributes(model):
        if attribute.HasField("t"):
            yield place, attribute.t
        for tensor in attribute.tensors:
            yield place, tensor


_CHECK = "correct the model where it is made; onnx.checker.check_model says more"


def check_rules(model: onnx.ModelProto, path: Path) -> None:
    """Refuse what is not a model, and models whose names are ambiguous."""
    for identifier, count in Counter(
        (f.domain, f.name, f.overload) for f in model.functions
    ).items():
        if count > 1:
            raise _refuse(
                f"function {'::'.join(filter(None, identifier))!r} is defined twice", path
            )
    for function in model.functions:
        place = f"function '{function.domain}::{function.name}'"
        _check_body(function, place, [], path)
    _check_body(model.graph, f"graph '{model.graph.name}'", [], path)
    for place, _, attribute in all_attributes(model):
        _check_attribute(place, attribute, path)
        for type_ in (attribute.tp, *attribute.type_protos):
            _check_type(type_, place, path)
    for place, body in all_bodies(model):
        infos = list(body.value_info)
        if isinstance(body, onnx.GraphProto):
            infos += [*body.input, *body.output]
        for info in infos:
            _check_type(info.type, f"{place}, value '{info.name}'", path)


def _refuse(
    message: str, path: Path, place: str | None = None, help: str = _CHECK
) -> ModelError:
    return ModelError(message, where=f"{path}: {place}" if place else str(path), help=help)


def check_header(model: onnx.ModelProto, path: Path) -> None:
    """Refuse what only looks like a model, and versions that are unknown or unreadable."""
    help = "check that the file is complete, or export the model again"
    if not model.HasField("graph"):
        raise _refuse("the file is not an ONNX model: it has no graph", path, help=help)
    if model.ir_version < 1:
        raise _refuse("the file is not an ONNX model: it has no IR version", path, help=help)
    if model.ir_version > onnx.IR_VERSION:
        raise _refuse(
            f"the model has IR version {model.ir_version}, newer than the {onnx.IR_VERSION} "
            f"that onnx {onnx.__version__} can read",
            path,
            help="upgrade onnx, or export the model with an older IR version",
        )
    if not model.graph.output:
        raise _refuse("the model has no outputs", path, help="mark what it computes as output")
    _check_opsets(model.opset_import, "the model", path)
    for function in model.functions:
        place = f"function '{function.domain}::{function.name}'"
        _check_opsets(function.opset_import, place, path)


def _check_opsets(imports: Iterable[onnx.OperatorSetIdProto], place: str, path: Path) -> None:
    versions: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:
            raise _refuse(
                f"{place} imports domain {entry.domain!r} in versions "
                f"{versions[domain]} and {entry.version}",
                path,
                help="import each domain once",
            )
    if not versions:
        raise _refuse(f"{place} imports no opset", path, help="import one, such as ai.onnx 21")


def _check_body(
    body: onnx.GraphProto | onnx.FunctionProto, place: str, outer: list[set[str]], path: Path
) -> None:
    """Check names made and used in a body and in the graphs nested in it.

    A name may be used above the node that makes it: nodes out of order are sorted later.
    """
    known, outputs = _made(body, place, path)
    scopes = [*outer, known]
    for node in body.node:
        for name in node.input:
            if name and not any(name in scope for scope in scopes):
                raise _refuse(
                    f"{place_of(node)} uses '{name}', which nothing makes",
                    path,
                    place,
                    help="make it an input or initializer, or correct the name",
                )
        for graph in graphs_of(node.attribute):
            _check_body(graph, f"graph '{graph.name}' of {place_of(node)}", scopes, path)
        names = [attribute.name for attribute in node.attribute]
        if len(set(names)) < len(names):
            raise _refuse(f"{place_of(node)} has an attribute twice", path, place)
    for name in outputs:
        # A branch may hand out a value of the graph around it.
        if not any(name in scope for scope in scopes):
            raise _refuse(f"nothing makes the output '{name}'", path, place)


def _made(
    body: onnx.GraphProto | onnx.FunctionProto, place: str, path: Path
) -> tuple[set[str], list[str]]:
    """List what a body makes, each name once, and its outputs."""
    if isinstance(body, onnx.FunctionProto):
        inputs, outputs, constants = list(body.input), list(body.output), []
    else:
        inputs, outputs = [v.name for v in body.input], [v.name for v in body.output]
        constants = [t.name for t in body.initializer]
        constants += [s.values.name for s in body.sparse_initializer]
    known: set[str] = set()
    for kind, names in (("input", inputs), ("initializer", constants)):
        seen: set[str] = set()
        for name in names:
            if not name:
                raise _refuse(f"an {kind} has no name", path, place)
            if name in seen:
                raise _refuse(f"the {kind} '{name}' is there twice", path, place)
            seen.add(name)
        # An initializer may have the name of an input: it is its default then.
        known |= seen
    for node in body.node:
        for name in filter(None, node.output):
            if name in known:
                raise _refuse(
                    f"{place_of(node)} makes '{name}', which is there already",
                    path,
                    place,
                    help="give every value a name of its own",
                )
            known.add(name)
    return known, outputs


def _check_attribute(place: str, attribute: onnx.AttributeProto, path: Path) -> None:
    if attribute.ref_attr_name:
        return
    known = onnx.AttributeProto.AttributeType.values()
    if attribute.type not in known or attribute.type == onnx.AttributeProto.UNDEFINED:
        raise _refuse("the attribute has no type", path, place)
    # Scalars may be left out: the third version of protobuf does not write zeros.
    empty = {
        onnx.AttributeProto.TENSOR: not attribute.HasField("t"),
        onnx.AttributeProto.GRAPH: not (attribute.g.node or attribute.g.output),
        onnx.AttributeProto.TYPE_PROTO: attribute.tp.WhichOneof("value") is None,
    }
    if empty.get(attribute.type):
        raise _refuse("the attribute has no value", path, place)
    for text in attribute.strings:
        try:
            text.decode()
        except UnicodeDecodeError:
            raise _refuse(
                "the attribute has strings that are not UTF-8, which onnx-ir cannot hold",
                path,
                place,
                help="encode them in UTF-8, as ONNX demands",
            ) from None


def _check_type(type_: onnx.TypeProto, place: str, path: Path) -> None:
    while True:
        match type_.WhichOneof("value"):
            case "sequence_type":
                type_ = type_.sequence_type.elem_type
            case "optional_type":
                type_ = type_.optional_type.elem_type
            case "map_type" | "opaque_type" as kind:
                raise _refuse(
                    f"the value is of {kind.replace('_', ' ')}, which onnx-ir cannot hold",
                    path,
                    place,
                    help="cut the model there: extract begins at values that are named",
                )
            case "tensor_type" | "sparse_tensor_type" as kind:
                element = getattr(type_, kind).elem_type
                if element not in onnx.TensorProto.DataType.values():
                    raise _refuse(
                        f"the value has the unknown element type {element}", path, place
                    )
                return
            case _:
                return


_COPY = "copy the data file beside the model, complete and under the name given here"


def check_data(
    model: onnx.ModelProto, path: Path, *, apart: str | None = None
) -> tuple[Path, ...]:
    """Check the data of all tensors, in the file and outside, without reading those outside.

    Data files are sought from the folder of ``path``, and returned in order of first use.
    ``apart`` is the location of what was copied out of the file, and checked then. Raises
    ``ModelError`` if data are missing, too few or too many, or outside of the folder.
    """
    files: dict[Path, int] = {}
    types = {int(dtype) for dtype in ir.DataType} - {0}
    for place, tensor in all_tensors(model):
        where = f"{path}: {place}"
        if tensor.HasField("segment"):
            raise ModelError(
                "a tensor in segments cannot be read",
                where=where,
                help="store the tensor whole",
            )
        if tensor.data_type not in types:
            raise ModelError(
                f"the tensor has the unknown element type {tensor.data_type}",
                where=where,
                help="check the model where it is made, or upgrade onnx-ir",
            )
        if min(tensor.dims, default=0) < 0:
            raise ModelError(
                f"the tensor has the shape {list(tensor.dims)}",
                where=where,
                help="correct the model where it is made",
            )
        if apart is not None and _location(tensor) == apart:
            continue
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, path.absolute().parent, where, files)
        else:
            _check_internal(tensor, where)
    return tuple(files)


def bytes_of(tensor: onnx.TensorProto) -> int:
    """Return the bytes that a tensor's type and shape take; types below 8 bits are packed."""
    bits = math.prod(tensor.dims) * ir.DataType(tensor.data_type).bitwidth
    return -(-int(bits) // 8)


def _location(tensor: onnx.TensorProto) -> str | None:
    found = [entry.value for entry in tensor.external_data if entry.key == "location"]
    return found[0] if found else None


def _check_internal(tensor: onnx.TensorProto, where: str) -> None:
    dtype, size = ir.DataType(tensor.data_type), math.prod(tensor.dims)
    if tensor.HasField("raw_data") and dtype != ir.DataType.STRING:
        found, needed, unit = len(tensor.raw_data), bytes_of(tensor), "bytes"
    else:
        field, needed = _field_of(dtype, size)
        found, unit = len(getattr(tensor, field)), f"elements of {field}"
    if found != needed:
        raise ModelError(
            f"the tensor of type {dtype.name} and shape {list(tensor.dims)} needs {needed} "
            f"{unit}, but has {found}",
            where=where,
            help="export the model again, with its weights",
        )


def _field_of(dtype: ir.DataType, size: int) -> tuple[str, int]:
    """Return where a tensor's elements are and how many entries they take.

    Source: ONNX IR, TensorProto.
    """
    match dtype:
        case ir.DataType.STRING:
            return "string_data", size
        case ir.DataType.FLOAT:
            return "float_data", size
        case ir.DataType.COMPLEX64:
            return "float_data", 2 * size
        case ir.DataType.DOUBLE:
            return "double_data", size
        case ir.DataType.COMPLEX128:
            return "double_data", 2 * size
        case ir.DataType.INT64:
            return "int64_data", size
        case ir.DataType.UINT32 | ir.DataType.UINT64:
            return "uint64_data", size
    # Types of 4 and 2 bits are packed into bytes, one byte an entry; those of 6 are not.
    packed = {4: 2, 2: 4}.get(dtype.bitwidth, 1)
    return "int32_data", -(-size // packed)


def _check_external(
    tensor: onnx.TensorProto, folder: Path, where: str, files: dict[Path, int]
) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = str(entries.get("location", ""))  # bytes, if it is not UTF-8
    where = f"{where}, external data '{location}'"
    if not location or "\0" in location:
        raise ModelError("external data have no file name", where=where, help=_COPY)
    if ir.DataType(tensor.data_type) == ir.DataType.STRING:
        raise ModelError(
            "strings cannot be external data", where=where, help="keep them in the model"
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError as error:
        raise ModelError(
            f"offset or length is not a number: {error}", where=where, help=_COPY
        ) from error
    needed = bytes_of(tensor)
    if offset < 0 or ("length" in entries and length != needed):
        raise ModelError(
            f"the tensor of shape {list(tensor.dims)} needs {needed} bytes, but the model "
            f"says {length} from byte {offset}",
            where=where,
            help="export the model again, with its weights",
        )
    file = folder / location
    if file not in files:
        files[file] = _size_of_file(file, folder, where)
    if offset + needed > files[file]:
        raise ModelError(
            f"the data file has {files[file]} bytes, but the tensor's data end at "
            f"{offset + needed}",
            where=where,
            help=_COPY,
        )


def _size_of_file(file: Path, folder: Path, where: str) -> int:
    """Measure a data file that is really inside the model's folder.

    A model must not be able to read other files of the machine into itself.
    """
    if not Path(os.path.normpath(file)).is_relative_to(os.path.normpath(folder)):
        raise ModelError(
            "the data file is outside of the model's folder", where=where, help=_COPY
        )
    try:
        status = file.stat()
        inside = Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
    except OSError as error:
        raise ModelError(
            f"the data file cannot be read: {error.strerror}", where=where, help=_COPY
        ) from error
    if not inside:
        raise ModelError(
            "the data file is a link to outside of the model's folder", where=where, help=_COPY
        )
    if not stat.S_ISREG(status.st_mode):
        raise ModelError("the data file is not a regular file", where=where, help=_COPY)
    if status.st_nlink > 1:
        # onnx-ir would refuse it later, when the data are first used.
        raise ModelError(
            "the data file has another name elsewhere (a hard link)",
            where=where,
            help="replace it by a copy of its own",
        )
    return status.st_size
