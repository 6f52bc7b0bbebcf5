"""What every model must keep to be read: names that say what is what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import onnx

from onnx_passes.errors import ModelError
from onnx_passes.model.protos import all_attributes, all_bodies, graphs_of, place_of

_CHECK = "correct the model where it is made; onnx.checker.check_model says more"


def check_rules(model: onnx.ModelProto, path: Path) -> None:
    """Refuse what is not a model, or one in which names do not say what is what.

    Args:
        model: The model.
        path: Its file, for messages.

    Raises:
        ModelError: Says what is wrong, in which graph and at which node.
    """
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
    _check_types(model, path)


def _refuse(
    message: str, path: Path, place: str | None = None, help: str = _CHECK
) -> ModelError:
    return ModelError(message, where=f"{path}: {place}" if place else str(path), help=help)


def check_header(model: onnx.ModelProto, path: Path) -> None:
    """Refuse what only looks like a model, and versions that are not known or cannot be read.

    Args:
        model: The model.
        path: Its file, for messages.

    Raises:
        ModelError: Says what is missing or wrong.
    """
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


def _check_types(model: onnx.ModelProto, path: Path) -> None:
    for place, body in all_bodies(model):
        infos = list(body.value_info)
        if isinstance(body, onnx.GraphProto):
            infos += [*body.input, *body.output]
        for info in infos:
            _check_type(info.type, f"{place}, value '{info.name}'", path)
    for place, _, attribute in all_attributes(model):
        for type_ in (attribute.tp, *attribute.type_protos):
            _check_type(type_, place, path)


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
                    help="cut the model before it; for classifiers, export with zipmap=False",
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
