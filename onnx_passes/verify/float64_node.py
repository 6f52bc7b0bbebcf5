"""One node in double precision: by ONNX Runtime, the operator's description, or onnx."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto

from onnx_passes.arrays import DType
from onnx_passes.errors import EngineError
from onnx_passes.model.ort_sessions import open_session, session_options
from onnx_passes.ops.call import constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.evaluation import evaluate as evaluate_graph
from onnx_passes.ops.semantics import MALFORMED, Unsupported
from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.convolve import convolve
from onnx_passes.verify.upcast import upcast_node, widened

if TYPE_CHECKING:
    import onnxruntime

IR_VERSION = 10
_SESSIONS = 256
"""How many sessions of one node each are kept."""
_LARGEST = 1 << 16
"""Bytes of a node whose session is kept at most."""
_NOT_DOUBLE = frozenset(
    ("Attention", "Gelu", "GroupNormalization", "LayerNormalization", "Shrink", "Sigmoid")
)
"""Operators that ONNX Runtime computes with fewer digits than doubles have.

It uses a body of floats, or, if a scale is broadcast, the mean of squares less the square of
the mean. Its Sigmoid of a negative number is one less that of its negative: 0 below -37.
"""


class DoubleNode:
    """One node, by the first way that works for it."""

    def __init__(
        self,
        node: onnx.NodeProto,
        imports: Mapping[str, int],
        reference: Counter[str],
        single: Counter[str],
        *,
        draws: bool = False,
    ) -> None:
        """Prepare a node.

        Args:
            node: As the model has it, of floats of any width.
            imports: The version of each domain.
            reference: Counts by operator what onnx's reference evaluator computed.
            single: The same for what was computed in single precision.
            draws: Whether it may draw random numbers: its session begins anew in each run.
        """
        self.narrow, self._draws = node, draws
        self.wide = upcast_node(node)
        self.imports, self._reference, self._singles = imports, reference, single

    def run(self, fed: Mapping[str, Data], *, count: bool) -> list[Data]:
        """Return the results of the node, floats as doubles.

        Args:
            fed: What it reads, by name; arrays of any shape.
            count: Whether the way that it was computed is counted.

        Raises:
            EngineError: It cannot be computed in any way.
        """
        operator = self.wide.op_type
        if self.wide.domain == "" and operator == "Conv":
            return [convolve(self.wide, fed)]
        if self.wide.domain == "" and operator == "GlobalMaxPool":
            (image,) = (np.asarray(data) for data in fed.values())
            axes = tuple(range(2, image.ndim))
            return [image.max(axis=axes, keepdims=True, initial=-np.inf)]
        if operator in _NOT_DOUBLE and (found := self._own(fed)) is not None:
            return found
        try:
            return self._engine(self.wide, fed)
        except Exception as error:
            reason = error
        if (found := self._own(fed)) is not None:
            return found
        single = self._single(fed)
        if self.wide.domain == "":
            try:
                results = self._evaluator(fed)
            except Exception as error:
                reason = error
            else:
                # It is wrong about some operators, such as global pools of three dimensions.
                if single is None or _shapes(results) == _shapes(single):
                    self._reference[operator] += count
                    return results
        if single is None:
            raise EngineError(f"{operator} cannot be computed in float64: {reason}")
        self._singles[operator] += count
        return single

    def _own(self, fed: Mapping[str, Data]) -> list[Data] | None:
        """Compute by the description of the operator; None if that is not enough."""
        if self.wide.domain or not all(isinstance(d, np.ndarray) for d in fed.values()):
            return None
        graph = ir.from_proto(self._model(self.wide, fed)).graph
        semantics = ConcreteSemantics()
        tensors = {
            name: constant(array, ir.DataType.from_numpy(array.dtype), semantics)
            for name, array in fed.items()
            if isinstance(array, np.ndarray)
        }
        try:
            found = evaluate_graph(graph, tensors, semantics)
        except (Unsupported, *MALFORMED):
            return None
        return [np.ascontiguousarray(found[n].data) for n in self.wide.output if n]

    def _single(self, fed: Mapping[str, Data]) -> list[Data] | None:
        """Compute in single precision; None where that cannot be done."""
        narrowed = {name: _narrowed(data) for name, data in fed.items()}
        try:
            return [widened(data) for data in self._engine(self.narrow, narrowed)]
        except Exception:
            return None

    def _engine(self, node: onnx.NodeProto, fed: Mapping[str, Data]) -> list[Data]:
        arrays = [data for data in fed.values() if isinstance(data, np.ndarray)]
        if len(arrays) < len(fed):
            raise EngineError("an input is not a tensor")
        shape = self._wide_shape if node is self.wide else self._narrow_shape
        if self._draws or shape is None or len(shape) > _LARGEST:
            return list(open_session(self._model(node, fed)).run(None, dict(fed)))
        types = tuple((data.dtype, data.ndim) for data in arrays)
        session = _kept_session(shape, types, tuple(self.imports.items()))
        if isinstance(session, str):
            raise EngineError(session)
        named = zip(_names("x", len(fed)), arrays, strict=True)
        return list(session.run(None, dict(named)))

    @cached_property
    def _wide_shape(self) -> bytes | None:
        return _without_names(self.wide)

    @cached_property
    def _narrow_shape(self) -> bytes | None:
        return _without_names(self.narrow)

    def _evaluator(self, fed: Mapping[str, Data]) -> list[Data]:
        from onnx.reference import ReferenceEvaluator

        from onnx_passes.runtime.reference_loop import ReferenceLoop

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(
                self._model(self.wide, fed), new_ops=[ReferenceLoop]
            )
            results = [np.asarray(r) for r in evaluator.run(None, dict(fed))]
        if any(r.dtype in (np.float32, np.float16) for r in results):
            raise EngineError("the reference evaluator computes it in single precision")
        return list(results)

    def _model(self, node: onnx.NodeProto, fed: Mapping[str, Data]) -> onnx.ModelProto:
        arrays = {name: np.asarray(data) for name, data in fed.items()}
        types = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        return _model_of(node, types, self.imports.items())


def _model_of(
    node: onnx.NodeProto,
    types: Mapping[str, tuple[DType, int]],
    imports: Iterable[tuple[str, int]],
) -> onnx.ModelProto:
    """Return a model of one node; ``types`` has the dtype and rank of what it reads."""
    inputs = [
        onnx.helper.make_tensor_value_info(
            name,
            onnx.helper.np_dtype_to_tensor_dtype(dtype)
            if dtype.kind != "O"
            else TensorProto.STRING,
            [None] * rank,
        )
        for name, (dtype, rank) in types.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in imports]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


@lru_cache(maxsize=_SESSIONS)
def _kept_session(
    shape: bytes,
    types: tuple[tuple[DType, int], ...],
    imports: tuple[tuple[str, int], ...],
) -> onnxruntime.InferenceSession | str:
    """Return a session of a node without names, or why there is none.

    Random roundings evaluate a model several times, and many nodes differ in names only.
    """
    node = onnx.NodeProto.FromString(shape)
    options = session_options()
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest run
    read = dict(zip(_names("x", len(types)), types, strict=True))
    try:
        return open_session(_model_of(node, read, imports), options)
    except Exception as error:
        return str(error)


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{index}" for index in range(count)]


def _without_names(node: onnx.NodeProto) -> bytes | None:
    """Return a node whose values are numbered; None if it holds graphs, which name values.

    An input is numbered where it is read first, as what a node is fed is in that order.
    """
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return None
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.ClearField("name")
    read = list(dict.fromkeys(name for name in node.input if name))
    numbers = dict(zip(read, _names("x", len(read)), strict=True))
    for index, name in enumerate(node.input):
        copy.input[index] = numbers.get(name, "")
    for index, name in enumerate(node.output):
        copy.output[index] = name and f"y{index}"
    serialized: bytes = copy.SerializeToString(deterministic=True)
    return serialized


def _shapes(results: Sequence[Data]) -> list[tuple[int, ...]]:
    return [np.shape(data) for data in results if isinstance(data, np.ndarray)]


def _narrowed(data: Data) -> Any:
    if isinstance(data, np.ndarray) and data.dtype == np.float64:
        return data.astype(np.float32)
    return data
