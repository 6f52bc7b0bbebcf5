"""Every backend test model of the installed onnx package, in one form.

The package holds them in three: built in memory (``node``), folders with ``test_data_set_*``
(``simple``, ``pytorch-converted``, ``pytorch-operator``), and light copies of real
architectures whose inputs onnx's own runner makes up (``real``). Here each is a model with its
samples. An id such as ``node/test_abs`` is a plain string that means the same in every
process, so tests can be spread over workers by ``ids`` or ``shard``; ``load`` reads one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from onnx_passes.runtime.engine_base import Data

if TYPE_CHECKING:
    from onnx.backend.test.case.test_case import TestCase

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
Values: TypeAlias = dict[str, Data]
Sample: TypeAlias = tuple[Values, Values]
"""Feeds by input name, and expected outputs by output name."""


@dataclass(frozen=True)
class BackendModel:
    """A model, what to feed it and what should come out.

    Attributes:
        id: Kind and name, ``simple/test_expand_shape_model1``.
        model: A copy of one's own. Its inputs that have an initializer are not fed.
        path: The file it was read from; None for those built in memory.
        samples: Feeds and outputs, by name, in graph order.
        rtol: Relative tolerance that the outputs are expected to keep.
        atol: Absolute tolerance that the outputs are expected to keep.
    """

    id: str
    model: onnx.ModelProto
    path: Path | None
    samples: tuple[Sample, ...]
    rtol: float
    atol: float

    @property
    def kind(self) -> str:
        """One of ``KINDS``."""
        return self.id.partition("/")[0]


@cache
def _cases(kind: str) -> Mapping[str, TestCase]:
    from onnx.backend.test.loader import load_model_tests

    # The node cases draw their data when they are imported. onnx seeds numpy's global
    # generator before each, so the data never change; whoever uses it next must not notice.
    state = np.random.get_state()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = load_model_tests(kind=kind)
    finally:
        np.random.set_state(state)
    return {f"{kind}/{c.name}": c for c in sorted(found, key=lambda case: case.name)}


def ids(kind: str | None = None) -> tuple[str, ...]:
    """Return all ids, or those of a kind, in an order that no process changes.

    The first call that asks for ``node`` takes about 4 s, because onnx builds the models then.
    """
    return tuple(name for each in ([kind] if kind else KINDS) for name in _cases(each))


def shard(number: int, of: int) -> tuple[str, ...]:
    """Return every ``of``-th id from ``number``: parts of like cost for parallel tests."""
    return ids()[number::of]


def load(model_id: str) -> BackendModel:
    """Read one model with its samples."""
    case = _cases(model_id.partition("/")[0])[model_id]
    path: Path | None = None
    if case.model is not None:
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        samples = [_sample(model, i, o) for i, o in case.data_sets or ()]
    elif case.model_dir is not None:
        path = Path(case.model_dir, "model.onnx")
        model = onnx.load(path)
        samples = [
            _sample(model, _read(folder, "input"), _read(folder, "output"))
            for folder in sorted(path.parent.glob("test_data_set_*"))
        ]
    else:
        path = Path(onnx.__file__).parents[1] / str(case.url)
        model = onnx.load(path)
        ramps = [_ramp(value) for value in _fed(model)]
        samples = [_sample(model, ramps, _read(path.parent, f"{path.stem}_output"))]
    return BackendModel(model_id, model, path, tuple(samples), case.rtol, case.atol)


def load_all(kind: str | None = None) -> Iterator[BackendModel]:
    """Read all models, or those of a kind, one after the other."""
    return map(load, ids(kind))


def _fed(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    given = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in given]


def _sample(model, inputs, outputs):
    feeds = zip(_fed(model), inputs, strict=True)
    expected = zip(model.graph.output, outputs, strict=True)
    return {v.name: _data(x) for v, x in feeds}, {v.name: _data(x) for v, x in expected}


def _data(value: object) -> Data:
    match value:
        case None:
            return None
        case list():
            return [_data(item) for item in value]
        case onnx.TensorProto():
            return numpy_helper.to_array(value)
    return np.asarray(value)  # some cases hold numpy scalars for tensors of rank 0


def _read(folder: Path, prefix: str) -> list[onnx.TensorProto]:
    """Read ``<prefix>_0.pb``, ``<prefix>_1.pb`` ...: the files hold tensors only."""
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    return [onnx.load_tensor(folder / f"{prefix}_{number}.pb") for number in range(count)]


def _ramp(value: onnx.ValueInfoProto) -> Data:
    """What the outputs of the ``real`` models were made from: 0 to 1 in equal steps."""
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)
