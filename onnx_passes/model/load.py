"""Read a model from a file; convert what cannot be kept, with a note, or refuse it."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.errors import ModelError
from onnx_passes.model import protos, walk
from onnx_passes.model.formats import LIMIT, Form, form_of, lost_fields, parse, split_losses
from onnx_passes.model.inference import infer_output_types, leave_maps_out, makes_map, map_type
from onnx_passes.model.protos import all_tensors as all_tensor_protos
from onnx_passes.model.tensor_bytes import tensor_from_bytes
from onnx_passes.model.wire import SMALL, Pieces, parse_apart, parse_in_place, parse_pieces


def root_cause(error: BaseException) -> BaseException:
    """Follow an error to its first cause: onnx-ir wraps each in the text of whole models."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


LONGEST = 4096
"""Characters of the name of a dimension that means anything: it may be a formula."""
_NOTED = "onnx_passes.negative_sizes"
_SHOWN = 3


def read_dynamic_dims(model: ir.Model) -> list[str]:
    """Make negative dimensions dynamic in place; note these, and names without a meaning."""
    sizes: dict[str, dict[int, int]] = {}
    endless = list[str]()
    # Initializers declare no shape.
    for value in chain.from_iterable(map(walk.values_of, walk.all_graphs(model))):
        shape = value.shape
        if shape is None:
            continue
        negative = {a: d for a, d in enumerate(shape) if isinstance(d, int) and d < 0}
        if negative:
            sizes[str(value.name)] = negative
            dims = [None if axis in negative else dim for axis, dim in enumerate(shape)]
            value.shape = ir.Shape(dims, map(shape.get_denotation, range(len(dims))))
        for axis, dim in enumerate(shape):
            if not isinstance(dim, int) and len(dim.value or "") > LONGEST:
                endless.append(f"{value.name}[{axis}]")
    ports = {str(value.name) for value in (*model.graph.inputs, *model.graph.outputs)}
    if noted := {name: found for name, found in sizes.items() if name in ports}:
        model.meta[_NOTED] = noted
    places = [f"{name}[{axis}]" for name, found in sizes.items() for axis in found]
    notes = []
    if places:
        notes.append(f"negative sizes are read as dynamic dimensions: {_listed(places)}")
    if endless:
        what = f"names of more than {LONGEST} characters are read as unknown dimensions"
        notes.append(f"{what}: {_listed(endless)}")
    return notes


def write_noted_types(model: ir.Model, proto: onnx.ModelProto) -> None:
    """Write what onnx-ir cannot hold to a protobuf.

    That is types of maps, and negative sizes of inputs and outputs where nothing was inferred.
    """
    for value, info in zip(model.graph.outputs, proto.graph.output, strict=True):
        maker = value.producer()
        if makes_map(maker):
            info.type.CopyFrom(map_type(maker))
    noted = model.meta.get(_NOTED, {})
    for info in (*proto.graph.input, *proto.graph.output) if noted else ():
        dims = _dims(info.type)
        for axis, size in noted.get(info.name, {}).items():
            if axis < len(dims) and dims[axis].WhichOneof("value") is None:
                dims[axis].dim_value = size


def complete_written(proto: onnx.ModelProto) -> None:
    """Correct what onnx-ir 1.1 writes otherwise than it reads.

    Of the domain "" of a function nothing is written, and onnx's checker wants it. Notes on an
    initializer or input that is an output as well are written twice.
    """
    for function in proto.functions:
        function.domain = function.domain or ""
    for _, body in protos.all_bodies(proto):
        if isinstance(body, onnx.GraphProto):
            notes = body.quantization_annotation
            first = {note.tensor_name: at for at, note in reversed([*enumerate(notes)])}
            for at in reversed(range(len(notes))):
                if first[notes[at].tensor_name] != at:
                    del notes[at]


def _dims(type_: onnx.TypeProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    match type_.WhichOneof("value"):
        case "tensor_type" | "sparse_tensor_type" as kind:
            return list(getattr(type_, kind).shape.dim)
        case "sequence_type":
            return _dims(type_.sequence_type.elem_type)
        case "optional_type":
            return _dims(type_.optional_type.elem_type)
    return ()


def _listed(places: Sequence[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more


def insert_branch_identities(model: onnx.ModelProto) -> list[str]:
    """Give an Identity to each branch that outputs a value from around it, in place.

    onnx-ir makes a new value for one that nothing in the branch produces, so that its producer
    looks unused and a cleanup removes it. ONNX Runtime refuses such branches, and advises the
    Identity. It accepts outputs that are listed twice, which are not valid. Returns one
    sentence for each change.
    """
    taken = {name for _, body in protos.all_bodies(model) for name in _defined_names(body)}
    fresh = (name for n in count() if (name := f"handed_out_{n}") not in taken)
    notes: list[str] = []
    for body in (model.graph, *model.functions):
        _visit(body, _defined_names(body), fresh, notes)
    return notes


def _defined_names(body: onnx.GraphProto | onnx.FunctionProto) -> set[str]:
    """List the names that a body gives."""
    made = {name for node in body.node for name in node.output}
    if isinstance(body, onnx.FunctionProto):
        return made | set(body.input)
    made.update(value.name for value in body.input)
    return made | {tensor.name for tensor in body.initializer}


def _visit(
    body: onnx.GraphProto | onnx.FunctionProto,
    known: set[str],
    fresh: Iterator[str],
    notes: list[str],
) -> None:
    for node in body.node:
        for graph in protos.graphs_of(node.attribute):
            own = _defined_names(graph)
            listed: set[str] = set()
            for output in graph.output:
                name, twice = output.name, output.name in listed
                listed.add(name)
                # A name that is nowhere is refused later.
                if twice or (name not in own and name in known):
                    output.name = next(fresh)
                    graph.node.add(op_type="Identity", input=[name], output=[output.name])
                    where = "twice" if twice else "of the graph around it"
                    notes.append(
                        f"graph '{graph.name}' of {protos.place_of(node)} hands out '{name}' "
                        f"{where}; an Identity was put between"
                    )
            _visit(graph, known | own, fresh, notes)


_FIELDS = {
    "f": onnx.AttributeProto.FLOAT,
    "i": onnx.AttributeProto.INT,
    "s": onnx.AttributeProto.STRING,
    "t": onnx.AttributeProto.TENSOR,
    "g": onnx.AttributeProto.GRAPH,
    "tp": onnx.AttributeProto.TYPE_PROTO,
    "floats": onnx.AttributeProto.FLOATS,
    "ints": onnx.AttributeProto.INTS,
    "strings": onnx.AttributeProto.STRINGS,
    "tensors": onnx.AttributeProto.TENSORS,
    "graphs": onnx.AttributeProto.GRAPHS,
    "type_protos": onnx.AttributeProto.TYPE_PROTOS,
}


def convert(model: onnx.ModelProto, path: Path) -> list[str]:
    """Change a model in place so that onnx-ir can hold all of it.

    Returns one sentence for each change. Raises ``ModelError`` if something has no equal that
    onnx-ir can hold.
    """
    _trim_outputs(model)
    return [
        *_drop_training(model),
        *_name_default_domain(model),
        *_import_microsoft(model),
        *_type_attributes(model),
        *_make_initializers_dense(model, path),
        *_make_constants_dense(model, path),
        *_drop_shapes_of_no_type(model),
        *_drop_idle_annotations(model),
        *insert_branch_identities(model),
        *_declare_alike(model),
    ]


def _trim_outputs(model: onnx.ModelProto) -> None:
    """Cut outputs left out at the end of a node's list: they mean the same as none."""
    for _, body in protos.all_bodies(model):
        for node in body.node:
            while node.output and not node.output[-1]:
                del node.output[-1]


def _drop_training(model: onnx.ModelProto) -> list[str]:
    """Drop what says how to train a model, which no pass keeps right and no engine reads."""
    if not model.training_info:
        return []
    model.ClearField("training_info")
    return ["training_info is dropped: only what computes the outputs is kept"]


def _name_default_domain(model: onnx.ModelProto) -> list[str]:
    """Give ONNX's own domain one name: onnx-ir treats ``ai.onnx`` of imports as another."""
    holders = [entry for entry in model.opset_import if entry.domain == "ai.onnx"]
    for function in model.functions:
        holders += [entry for entry in function.opset_import if entry.domain == "ai.onnx"]
    nodes = [node for _, body in protos.all_bodies(model) for node in body.node]
    for holder in [*holders, *(node for node in nodes if node.domain == "ai.onnx")]:
        holder.domain = ""
    for imports in (model.opset_import, *(f.opset_import for f in model.functions)):
        seen: set[str] = set()
        for index in range(len(imports) - 1, -1, -1):
            if imports[index].domain in seen:
                del imports[index]
            else:
                seen.add(imports[index].domain)
    return ["domain 'ai.onnx' is written as '', its other name"] if holders else []


def _import_microsoft(model: onnx.ModelProto) -> list[str]:
    """Import what ONNX Runtime adds to ONNX, which it runs in models without the import."""
    domain = "com.microsoft"
    nodes = (node for _, body in protos.all_bodies(model) for node in body.node)
    imported = any(entry.domain == domain for entry in model.opset_import)
    if imported or all(node.domain != domain for node in nodes):
        return []
    model.opset_import.add(domain=domain, version=1)
    return [f"nodes are of the domain {domain!r}, which has no opset import; 1 is imported"]


def _declare_alike(model: onnx.ModelProto) -> list[str]:
    """Give an output that is an input the input's shape: onnx-ir holds one of them."""
    inputs = {value.name: value.type for value in model.graph.input}
    found = []
    for value in model.graph.output:
        declared = inputs.get(value.name)
        untyped = not value.type.tensor_type.HasField("shape")
        if declared is not None and untyped and value.type != declared:
            value.type.CopyFrom(declared)
            found.append(f"the output {value.name!r} is an input, whose type it is given")
    return found


def _type_attributes(model: onnx.ModelProto) -> list[str]:
    """Set the type that models of the first IR version leave to the value."""
    count = 0
    for _, _, attribute in protos.all_attributes(model):
        if attribute.type == onnx.AttributeProto.UNDEFINED and not attribute.ref_attr_name:
            filled = [
                field.name for field, _ in attribute.ListFields() if field.name in _FIELDS
            ]
            if len(filled) == 1:
                attribute.type = _FIELDS[filled[0]]
                count += 1
    several = "s" if count > 1 else ""
    note = f"{count} attribute{several} had no type; it was inferred from the values"
    return [note] if count else []


def _make_initializers_dense(model: onnx.ModelProto, path: Path) -> list[str]:
    notes = []
    for place, body in protos.all_bodies(model):
        if isinstance(body, onnx.GraphProto):
            for sparse in body.sparse_initializer:
                name = sparse.values.name
                body.initializer.append(_dense(sparse, f"{path}: {place}"))
                notes.append(f"the sparse initializer '{name}' was made dense")
            body.ClearField("sparse_initializer")
    return notes


def _make_constants_dense(model: onnx.ModelProto, path: Path) -> list[str]:
    notes = []
    for place, node, attribute in protos.all_attributes(model):
        if not (attribute.HasField("sparse_tensor") or attribute.sparse_tensors):
            continue
        constant = node is not None and (node.domain, node.op_type) == ("", "Constant")
        if not constant or attribute.name != "sparse_value":
            raise ModelError(
                "the attribute is a sparse tensor, which onnx-ir cannot hold",
                where=f"{path}: {place}",
                help="make it dense where the model is made",
            )
        dense = _dense(attribute.sparse_tensor, f"{path}: {place}")
        attribute.ClearField("sparse_tensor")
        attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
        attribute.t.CopyFrom(dense)
        notes.append(f"the sparse value of {place} was made dense")
    return notes


def _dense(sparse: onnx.SparseTensorProto, where: str) -> onnx.TensorProto:
    """Spell a sparse tensor out; its indices count elements or name rows of coordinates.

    Source: ONNX IR, SparseTensorProto.
    """
    where = f"{where}, sparse tensor '{sparse.values.name}'"
    external = onnx.TensorProto.EXTERNAL
    if external in (sparse.values.data_location, sparse.indices.data_location):
        raise ModelError(
            "a sparse tensor in external data cannot be read",
            where=where,
            help="make it dense where the model is made",
        )
    try:
        dense = _to_dense(sparse)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise ModelError(
            f"a sparse tensor cannot be made dense: {error}",
            where=where,
            help="make it dense where the model is made",
        ) from error
    result = numpy_helper.from_array(dense, sparse.values.name)
    if sparse.values.doc_string:
        result.doc_string = sparse.values.doc_string
    return result


def _to_dense(sparse: onnx.SparseTensorProto) -> Array:
    shape = tuple(sparse.dims)
    values = numpy_helper.to_array(sparse.values).reshape(-1)
    indices = numpy_helper.to_array(sparse.indices).astype(np.int64)
    size = math.prod(shape)
    if values.dtype == object:
        raise ValueError("strings have no zero")
    if min(shape, default=1) < 0 or size * values.itemsize > LIMIT:
        raise ValueError(f"shape {list(shape)} cannot be spelled out")
    if indices.ndim == 2:
        indices = np.ravel_multi_index(tuple(indices.T), shape)
    if len(indices) != len(values):
        raise ValueError(f"{len(values)} values have {len(indices)} indices")
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise ValueError(f"indices go beyond shape {list(shape)}")
    dense = np.zeros(size, values.dtype)
    dense[indices] = values
    return dense.reshape(shape)


def _drop_shapes_of_no_type(model: onnx.ModelProto) -> list[str]:
    """Drop types that have a shape but no element type: onnx-ir cannot write them."""
    count = 0
    for _, body in protos.all_bodies(model):
        infos = list(body.value_info)
        if isinstance(body, onnx.GraphProto):
            infos += [*body.input, *body.output]
        for info in infos:
            kind = info.type.WhichOneof("value")
            if kind in ("tensor_type", "sparse_tensor_type") and not getattr(
                info.type, kind
            ).HasField("elem_type"):
                info.ClearField("type")
                count += 1
    return [f"shapes without an element type were dropped: {count}"] if count else []


def _drop_idle_annotations(model: onnx.ModelProto) -> list[str]:
    """Drop types and quantization notes of values that are not there: they say nothing."""
    dropped: Counter[str] = Counter()
    functions = {f"{function.domain}::{function.name}" for function in model.functions}
    for _, body in protos.all_bodies(model):
        made = {name for node in body.node for name in node.output}
        if isinstance(body, onnx.FunctionProto):
            made.update(body.input)
        else:
            made.update(value.name for value in (*body.input, *body.output))
            made.update(tensor.name for tensor in body.initializer)
        seen: set[str] = set()
        for index in range(len(body.value_info) - 1, -1, -1):
            name = body.value_info[index].name
            if len(body.value_info[index].ListFields()) < 2:
                del body.value_info[index]  # nothing but a name
                continue
            # Before IR version 10, this is where types inside functions are noted. Names that
            # are not UTF-8 are bytes here.
            inside = body is model.graph and str(name).rpartition("/")[0] in functions
            if name in seen or (name not in made and not inside):
                del body.value_info[index]
                dropped["types"] += 1
            seen.add(name)
        if isinstance(body, onnx.GraphProto):
            seen = set()
            for index in range(len(body.quantization_annotation) - 1, -1, -1):
                name = body.quantization_annotation[index].tensor_name
                if name not in made or name in seen:
                    del body.quantization_annotation[index]
                    dropped["quantization parameters"] += 1
                seen.add(name)
    return [
        f"{what} of values that do not exist were dropped: {count}"
        for what, count in dropped.items()
    ]


@dataclass(frozen=True)
class LoadedModel:
    """A model and where it came from.

    External weights are memory-mapped when first used. ``notes`` say what was changed while
    reading, one sentence each. ``external`` are the data files.
    """

    model: ir.Model
    path: Path
    notes: list[str]
    external: tuple[Path, ...]


def load_model(path: str | Path, *, weights: Path | None = None) -> LoadedModel:
    """Read a model: ONNX binary, ONNX text, or protobuf's text or JSON form.

    Args:
        path: The file. Its extension says the form; where it does not, the content does.
        weights: A file to which large initializers of a binary model are copied, not through
            memory, and from which they are mapped. It has to stay while the model is used;
            nothing is there where they are not in the model's file.

    Returns:
        The model, with notes on what was changed to represent it.

    Raises:
        OSError: The weights cannot be copied to their file.
        ModelError: The file is missing, damaged or not an ONNX model. The model breaks the
            rules of a graph or holds what cannot be represented. External data are missing,
            too short, or outside of the model's folder.
    """
    path = Path(path)
    pieces = None
    lean = _read_without_weights(path, weights)
    apart = weights.name if weights is not None and lean is not None else None
    if lean is None and (pieces := _pieces(path)) is not None:
        lean, apart = pieces.proto, pieces.location
    proto = parse(path) if lean is None else lean
    model, notes, external = _represent(proto, path, apart)
    if pieces is not None:
        _put_back(pieces, model)
    if weights is not None:
        for tensor in walk.all_tensors(model):
            if isinstance(tensor, ir.ExternalTensor) and tensor.location == apart:
                tensor.base_dir = weights.absolute().parent
    notes += _tidy(proto, model, path)
    # Weights in protobufs are copied at each look, and hold the whole file in memory.
    with _locate_errors(path):
        walk.make_immutable(model, layout="any")
    return LoadedModel(model, path, notes, external)


def load_proto(proto: onnx.ModelProto, path: Path) -> tuple[ir.Model, list[str]]:
    """Read a model that is in memory as a file with its name would be read.

    The protobuf is changed. External data are sought from the folder of ``path``. Raises
    ``ModelError`` as :func:`load_model` does.
    """
    model, notes, _ = _represent(proto, path, None)
    return model, notes + _tidy(proto, model, path)


def _tidy(proto: onnx.ModelProto, model: ir.Model, path: Path) -> list[str]:
    """Check that a model holds its protobuf, and bring it in order."""
    kept = _check_kept(proto, model, path)
    return [*kept, *read_dynamic_dims(model), *_sort(model, path)]


def load_written(path: Path, form: Form, moved: Mapping[str, str]) -> ir.Model:
    """Read a file that was written just now; its large weights stay in files.

    ``form`` wins over the extension. ``moved`` maps the names of data files that are still
    under other names to these. Raises ``ModelError`` as :func:`load_model` does, and
    ``OSError``.
    """
    lean = parse_in_place(path) if form == "binary" else None
    proto = parse(path, form) if lean is None else lean
    for _, tensor in all_tensor_protos(proto):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = moved.get(entry.value, entry.value)
    model, _, _ = _represent(proto, path, path.name, infer=False)
    _tidy(proto, model, path)
    return model


def _represent(
    proto: onnx.ModelProto, path: Path, apart: str | None, *, infer: bool = True
) -> tuple[ir.Model, list[str], tuple[Path, ...]]:
    """Return the model that a protobuf holds, what was converted, and its data files."""
    protos.check_header(proto, path)
    notes = convert(proto, path) + (infer_output_types(proto) if infer else [])
    leave_maps_out(proto)
    protos.check_rules(proto, path)
    external = protos.check_data(proto, path, apart=apart)
    with _locate_errors(path):
        model = deserialize(proto)
    folder = path.absolute().parent
    for tensor in walk.all_tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            tensor.base_dir = folder
    return model, notes, external


def _read_without_weights(path: Path, weights: Path | None) -> onnx.ModelProto | None:
    """Read a model without its weights, if that can be done and is asked for."""
    if weights is None or not _may_be_binary(path):
        return None
    proto = parse_apart(path, weights)
    if proto is None:
        weights.unlink(missing_ok=True)
    return proto


def _pieces(path: Path) -> Pieces | None:
    """Read a model with large weights in pieces, if that can be done."""
    try:
        # Beyond the limit nobody else could read it.
        if not _may_be_binary(path) or not SMALL < path.stat().st_size <= LIMIT:
            return None
        return parse_pieces(path)
    except OSError:
        return None  # the usual reader says why


def _may_be_binary(path: Path) -> bool:
    return path.is_file() and form_of(path) in ("binary", None)


def _put_back(pieces: Pieces, model: ir.Model) -> None:
    """Give initializers what was read apart from them."""
    for value in model.graph.initializers.values():
        noted = value.const_value
        if isinstance(noted, ir.ExternalTensor) and noted.location == pieces.location:
            data = memoryview(pieces.contents[noted.offset or 0])
            value.const_value = tensor_from_bytes(data, noted)


@contextmanager
def _locate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        error.where = error.where or str(path)
        raise
    except (ir.serde.SerdeError, ValueError, TypeError, KeyError) as error:
        raise ModelError(
            f"the model cannot be represented: {root_cause(error)}",
            where=str(path),
            help="correct the model where it is made; onnx.checker.check_model says more",
        ) from error


def deserialize(proto: onnx.ModelProto) -> ir.Model:
    """Return the model that a protobuf holds; what it may not hold is not looked for."""
    model = ir.from_proto(proto)
    for function in proto.functions:
        # onnx-ir 1.1 reads the types of values inside a function, not of its inputs.
        noted = {info.name: info for info in function.value_info}
        own = model.functions[function.domain, function.name, function.overload]
        for value in own.inputs:
            if value.name in noted:
                ir.serde.deserialize_value_info_proto(noted[value.name], value)
    return model


def _check_kept(proto: onnx.ModelProto, model: ir.Model, path: Path) -> list[str]:
    """Compare with the model as it would be written again.

    Initializers are left out: their protobufs are kept as they are.
    """
    stand_in = ir.tensor([0])
    with (
        _locate_errors(path),
        walk.tensors_replaced(
            model, lambda tensor, initializer: stand_in if initializer else tensor
        ),
    ):
        back = ir.to_proto(model)
        complete_written(back)
    grave, remarks = split_losses(lost_fields(proto, back, skip=frozenset({"initializer"})))
    if grave:
        more = f" and {len(grave) - 3} more" if len(grave) > 3 else ""
        raise ModelError(
            f"the model cannot be represented without loss: {', '.join(grave[:3])}{more}",
            where=str(path),
            help="remove this from the model, if it is not needed",
        )
    return [f"not kept: {loss}" for loss in remarks]


def _sort(model: ir.Model, path: Path) -> list[str]:
    """Put producers first in every graph, and say which nodes were late."""
    notes = []
    for graph in walk.all_graphs(model):
        try:
            nodes, order = list(graph), walk.topological_order(graph)
        except ModelError as error:
            error.where = f"{path}: graph '{graph.name}'" if graph.name else str(path)
            raise
        if order != nodes:
            late = next(a for a, b in zip(nodes, order, strict=True) if a is not b)
            notes.append(
                f"nodes were out of order, from '{walk.label(late)}' on; they were sorted"
            )
            graph.remove(nodes)
            graph.extend(order)
    return notes
