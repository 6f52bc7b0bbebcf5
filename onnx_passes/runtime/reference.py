"""ONNX's reference evaluator as an engine."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, UnsupportedModelError
from onnx_passes.ops.bodies.attach import registered_references
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs, SessionInterface
from onnx_passes.runtime.engine_models import assign_seeds, split_for_engine

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun


@dataclass(frozen=True)
class ReferenceEngine:
    """Run a model in Python: slow, but it knows every operator and element type.

    Each node runs as written, so that recording its value changes no other.
    """

    node_by_node: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name a report shows."""
        return "reference"

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the versions that decide the numbers."""
        return {"engine": "reference", "version": onnx.__version__, "numpy": np.__version__}

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[ReferenceSession]:
        """Make ``model`` ready; see ``Engine.prepare``."""
        model = assign_seeds(model, 0)
        proto, weights = split_for_engine(model, _array)
        session = ReferenceSession(model, _evaluator(proto, weights))
        with closing(session):
            yield session


class ReferenceSession:
    """A loaded reference evaluator."""

    def __init__(self, model: ir.Model, evaluator: ReferenceEvaluator) -> None:
        self._interface = SessionInterface(model)
        self._evaluator: ReferenceEvaluator | None = evaluator

    def close(self) -> None:
        """Release the model."""
        self._evaluator = None

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``."""
        names = self._interface.check(feeds, outputs)
        if self._evaluator is None:
            raise EngineError("the session is closed")
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                results = self._evaluator.run(names, dict(feeds))
        except Exception as error:
            raise _translate(error) from error
        return {
            name: _data(value, self._interface.outputs[name])
            for name, value in zip(names, results, strict=True)
        }


def _array(tensor: ir.TensorProtocol) -> Array:
    array: Array = tensor.numpy()
    return array


def _evaluator(proto: onnx.ModelProto, weights: Mapping[str, Array]) -> ReferenceEvaluator:
    from onnx.reference import ReferenceEvaluator

    from onnx_passes.runtime.reference_operators import OPERATORS, ReferenceLoop, with_shapes

    class Evaluator(ReferenceEvaluator):
        def retrieve_external_data(self, initializer: onnx.TensorProto) -> Array:
            return weights[initializer.name]

    operators: list[type[OpRun]] = [ReferenceLoop, *OPERATORS, *registered_references()]
    try:
        return Evaluator(_rename_overloads(with_shapes(proto)), new_ops=operators)
    except Exception as error:
        raise _translate(error) from error


def _rename_overloads(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Give each overload of a function its own name: the evaluator looks at names only."""
    overloaded = {(f.domain, f.name, f.overload) for f in proto.functions if f.overload}
    for function in proto.functions:
        _rename(function.node, overloaded)
        function.name += function.overload
    _rename(proto.graph.node, overloaded)
    return proto


def _rename(
    nodes: Iterable[onnx.NodeProto], overloaded: Collection[tuple[str, str, str]]
) -> None:
    for node in nodes if overloaded else ():
        if (node.domain, node.op_type, node.overload) in overloaded:
            node.op_type += node.overload
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _rename(graph.node, overloaded)


def _translate(error: Exception) -> EngineError:
    # Behind what is missing, the evaluator lists all operators that it has.
    said = re.split(r" in\n|, schema\.has_function", str(error))[0]
    message = " ".join(said.split()) or type(error).__name__
    if isinstance(error, NotImplementedError):
        return UnsupportedModelError(message)
    return EngineError(f"{type(error).__name__}: {message}")


def _data(value: object, declared: ir.TypeProtocol | None) -> Data:
    if value is None:
        return None
    if isinstance(declared, ir.OptionalType):
        return _data(value, declared.elem_type)
    if isinstance(value, dict):
        keys = sorted(value)
        return [np.asarray(keys), np.asarray([value[key] for key in keys])]
    if isinstance(value, list | tuple):
        element = declared.elem_type if isinstance(declared, ir.SequenceType) else None
        return [_data(item, element) for item in value]
    array = np.asarray(value)
    if isinstance(declared, ir.TensorType) and declared.dtype != ir.DataType.STRING:
        # Its operators compute in whatever type numpy promotes to.
        array = array.astype(declared.dtype.numpy(), copy=False)
    return array
