"""One node in double precision: by ONNX Runtime, the operator's description, or onnx."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto

from onnx_passes.errors import EngineError
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.ops.call import constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.evaluation import evaluate as evaluate_graph
from onnx_passes.ops.semantics import MALFORMED, Unsupported
from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.convolve import convolve
from onnx_passes.verify.upcast import upcast_node, widened

IR_VERSION = 10
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
    ) -> None:
        """Prepare a node.

        Args:
            node: As the model has it, of floats of any width.
            imports: The version of each domain.
            reference: Counts by operator what onnx's reference evaluator computed.
            single: The same for what was computed in single precision.
        """
        self.narrow = node
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
        if not all(isinstance(data, np.ndarray) for data in fed.values()):
            raise EngineError("its inputs are no tensors")
        session = open_session(self._model(node, fed))
        return list(session.run(None, dict(fed)))

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
        inputs = [
            onnx.helper.make_tensor_value_info(
                name,
                onnx.helper.np_dtype_to_tensor_dtype(np.asarray(data).dtype)
                if np.asarray(data).dtype != object
                else TensorProto.STRING,
                [None] * np.asarray(data).ndim,
            )
            for name, data in fed.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", inputs, outputs)
        imports = [onnx.helper.make_opsetid(d, v) for d, v in self.imports.items()]
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _shapes(results: Sequence[Data]) -> list[tuple[int, ...]]:
    return [np.shape(data) for data in results if isinstance(data, np.ndarray)]


def _narrowed(data: Data) -> Any:
    if isinstance(data, np.ndarray) and data.dtype == np.float64:
        return data.astype(np.float32)
    return data
