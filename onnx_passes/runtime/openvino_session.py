"""A model compiled by OpenVINO."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir

from onnx_passes.errors import EngineError, UnsupportedModelError
from onnx_passes.plain import Foreign, PlainDict
from onnx_passes.runtime.engine_base import Array, Data, Feeds, Outputs
from onnx_passes.runtime.interface import SessionInterface
from onnx_passes.runtime.openvino_errors import translate
from onnx_passes.runtime.timing import mean_without_first
from onnx_passes.runtime.weightless import split_for_engine

_BY_ADDRESS = "*/_ORT_MEM_ADDR_/*"
"""Location of external data whose offset is an address in this process."""

_BITS = {
    "bf16": ir.DataType.BFLOAT16,
    "f8e4m3": ir.DataType.FLOAT8E4M3FN,
    "f8e5m2": ir.DataType.FLOAT8E5M2,
    "f8e8m0": ir.DataType.FLOAT8E8M0,
}
"""Element types that numpy lacks, by OpenVINO's names."""

_Call = tuple[frozenset[str], tuple[tuple[str, int], ...]]

_NUMBER = re.compile(r"_\d+(?=_|$)")
"""Numbers in the names that OpenVINO generates."""

_INT32 = np.iinfo(np.int32)


class OpenVinoSession:
    """A model compiled by OpenVINO, and the weights that it points into."""

    def __init__(
        self,
        ov: ModuleType,
        compile_model: Callable[[onnx.ModelProto], Foreign],
        model: ir.Model,
        *,
        profile: bool = False,
    ) -> None:
        """Compile a model, unless it must be called to be known.

        Args:
            ov: OpenVINO.
            compile_model: Makes OpenVINO's compiled model.
            model: The model.
            profile: Whether what is compiled counts the time of each layer.

        Raises:
            EngineError: OpenVINO refuses it.
        """
        self._ov, self._compile, self._profile = ov, compile_model, profile
        self._times: dict[str, tuple[PlainDict, list[float]]] = {}
        self._made_of: dict[str, list[str]] = {}
        self._seen: list[Foreign] = []
        self._interface = SessionInterface(model)
        proto, weights = split_for_engine(model, _array)
        self._defaults = {
            str(value.name): value.const_value
            for value in model.graph.inputs
            if value.const_value is not None
        }
        self._proto: onnx.ModelProto | None = _by_address(proto, weights)
        self._weights = weights
        self._unranked = [str(v.name) for v in model.graph.inputs if v.shape is None]
        self._requests: dict[_Call, Foreign] = {}
        if not self._unranked:
            self._request(frozenset(), ())

    def close(self) -> None:
        """Free what was compiled, then release the weights that it points into."""
        self._requests = {}
        self._weights = {}
        self._proto = None

    def layers(self) -> list[PlainDict]:
        """Return the layers that were run, with mean times where the engine profiles.

        A constant part, which OpenVINO computes once, is not a layer. Names that OpenVINO
        makes up lose their numbers, which differ between compilations.
        """
        nodes = self._proto.graph.node if self._proto is not None else ()
        known = {name for node in nodes for name in (node.name, *node.output)}
        found = []
        for name, (facts, seconds) in self._times.items():
            made_of = [part for part in self._made_of.get(name, ()) if part in known]
            shown = name if name in known else _NUMBER.sub("", name)
            mean = mean_without_first(seconds)
            known_of = {"name": shown, "nodes": ", ".join(made_of), "seconds": mean}
            found.append({**facts, **known_of})
        return found

    def _note_times(self, request: Foreign) -> None:
        if all(request is not other for other in self._seen):
            self._seen.append(request)
            for op in request.get_compiled_model().get_runtime_model().get_ops():
                facts = op.get_rt_info()
                if "originalLayersNames" in facts:
                    names = facts["originalLayersNames"].astype(str).split(",")
                    self._made_of[op.get_friendly_name()] = names
        for one in request.get_profiling_info():
            if one.status.name != "EXECUTED":
                continue
            facts = {"name": one.node_name, "kind": one.node_type, "how": one.exec_type}
            _, seconds = self._times.setdefault(one.node_name, (facts, []))
            seconds.append(one.real_time.total_seconds())

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``."""
        names = self._interface.check(feeds, outputs)
        if self._proto is None:
            raise EngineError("the session is closed")
        given = frozenset(name for name in self._defaults if name in feeds)
        ranks = tuple(
            (name, np.ndim(np.asarray(feeds[name])))
            for name in self._unranked
            if name in feeds
        )
        request = self._request(given, ranks)
        for port in request.model_inputs:
            name = next(n for n in port.get_names() if n in self._interface.inputs)
            request.set_tensor(port, _tensor(self._ov, name, feeds[name], port))
        try:
            request.infer()
        except Exception as error:
            raise translate(error) from error
        if self._profile:
            self._note_times(request)
        found: Outputs = {
            name: _data(request.get_output_tensor(index))
            for index, name in enumerate(self._interface.outputs)
            if name in names
        }
        return {name: found[name] for name in names}

    def _request(self, given: frozenset[str], ranks: tuple[tuple[str, int], ...]) -> Foreign:
        """Return a request of the model as it is called.

        Args:
            given: Inputs that have a default, and are fed: they are not constants.
            ranks: Ranks of the inputs that the model declares without one. OpenVINO's CPU
                needs them.
        """
        assert self._proto is not None
        call = given, ranks
        if call not in self._requests:
            compiled = self._compile(_as_called(self._proto, given, dict(ranks)))
            # In the model's order; names are lost where two outputs are one value.
            if len(compiled.outputs) != len(self._interface.outputs):
                raise UnsupportedModelError("OpenVINO drops outputs of the model")
            self._requests[call] = compiled.create_infer_request()
        return self._requests[call]


def _array(tensor: ir.TensorProtocol) -> Array:
    """Return the bytes of a tensor as ONNX stores them, in place where that is possible."""
    if tensor.dtype.itemsize < 1:
        return np.frombuffer(tensor.tobytes(), np.uint8)
    return np.require(tensor.numpy(), requirements=["C", "A"])


def _by_address(proto: onnx.ModelProto, weights: dict[str, Array]) -> onnx.ModelProto:
    """Return a model whose weights are found by their addresses, and without functions."""
    for initializer in proto.graph.initializer:
        if (array := weights.get(initializer.name)) is not None:
            del initializer.external_data[:]
            place = {
                "location": _BY_ADDRESS,
                "offset": str(array.ctypes.data),
                "length": str(array.nbytes),
            }
            for key, text in place.items():
                initializer.external_data.add(key=key, value=text)
    if not proto.functions:
        return proto
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except Exception as error:  # the inliner raises what C++ throws
        raise EngineError(f"the functions of the model cannot be inlined: {error}") from error
    return inlined


def _as_called(
    proto: onnx.ModelProto, given: Collection[str], ranks: Mapping[str, int]
) -> onnx.ModelProto:
    """Return a model without some defaults, and with these ranks of inputs."""
    if not given and not ranks:
        return proto
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    kept = [each for each in found.graph.initializer if each.name not in given]
    del found.graph.initializer[:]
    found.graph.initializer.extend(kept)
    for value in found.graph.input:
        if value.name in ranks:
            value.type.tensor_type.shape.SetInParent()
            for _ in range(ranks[value.name]):
                value.type.tensor_type.shape.dim.add()
    return found


def _tensor(ov: ModuleType, name: str, data: Data, port: Foreign) -> Foreign:
    assert isinstance(data, np.ndarray | np.generic), "the interface has tensors only"
    array = np.asarray(data)
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 4 and array.size:
        low, high = int(array.min()), int(array.max())
        if low < _INT32.min or high > _INT32.max:
            raise EngineError(
                f"the input {name!r} holds {low if low < _INT32.min else high}, and OpenVINO "
                f"computes {array.dtype} in int32",
                help="give values of 32 bits, or run this model on onnxruntime",
            )
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    if array.dtype.isbuiltin == 1:
        return ov.Tensor(array, shared_memory=True)
    bits = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    return ov.Tensor(bits, list(array.shape), port.get_element_type())


def _data(tensor: Foreign) -> Array:
    found: Array = np.array(tensor.data)  # OpenVINO writes the next results there
    # A type that numpy lacks comes as its bits, in one that numpy has.
    kind = _BITS.get(tensor.element_type.to_string())
    return found if kind is None else found.view(kind.numpy())
