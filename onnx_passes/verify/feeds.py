"""Do these values fit the inputs of this model? Nothing is cast, broadcast or padded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import blocks, dtype_name, kind_of, shape_text
from onnx_passes.errors import ReferenceDataError
from onnx_passes.runtime.engine_base import Data, Feeds, did_you_mean


def check_feeds(
    feeds: Feeds, model: ir.Model, files: Mapping[str, str], *, allow_nan: bool = False
) -> None:
    """Check one sample against the inputs of a model.

    Args:
        feeds: The values by input name.
        model: The model.
        files: The file that each value came from, by input name.
        allow_nan: Whether floats may be NaN.

    Raises:
        ReferenceDataError: A name, dtype, rank or size does not fit, two inputs disagree on
            the size of a named dimension, or there is a NaN.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    for name in feeds:
        if name not in inputs:
            raise ReferenceDataError(
                f"the model has no input {name!r}",
                where=files.get(name),
                help=did_you_mean(name, inputs),
            )
    for name, value in inputs.items():
        if name not in feeds and not value.is_initializer():
            raise ReferenceDataError(
                f"there is no reference data for input {name!r}",
                where=next(iter(files.values()), None),
                help=f"given: {', '.join(feeds) or 'none'}; needed: {', '.join(inputs)}",
            )
    sizes: dict[str, tuple[int, str]] = {}
    for name, data in feeds.items():
        fit = _Fit(name, files.get(name, ""), inputs[name].shape, sizes)
        fit.check(data, inputs[name].type)
        if not allow_nan:
            fit.refuse_nan(data)


@dataclass(frozen=True)
class _Fit:
    """One input of one sample.

    Attributes:
        name: Its name.
        file: The file its value came from.
        shape: Its declared shape.
        sizes: The sizes of named dimensions so far, and the inputs that set them.
    """

    name: str
    file: str
    shape: ir.Shape | None
    sizes: dict[str, tuple[int, str]] = field(default_factory=dict)

    def check(
        self, data: Data, declared: ir.TypeProtocol | None, *, single: bool = True
    ) -> None:
        if isinstance(declared, ir.OptionalType):
            if data is None:
                return
            declared = declared.elem_type
        if isinstance(declared, ir.SequenceType):
            if not isinstance(data, list):
                raise self._misfit("is a sequence, and the file holds a tensor", _AS_PB)
            for item in data:
                self.check(item, declared.elem_type, single=False)
        elif not isinstance(data, np.ndarray):
            raise self._misfit("is a tensor, and the file holds something else", _AS_PB)
        else:
            self._check_dtype(data, declared)
            self._check_shape(data, single=single)

    def refuse_nan(self, data: Data) -> None:
        for array in _tensors(data):
            if kind_of(array.dtype) not in ("float", "complex"):
                continue
            for start, (block,) in blocks(array):
                if (nan := np.isnan(block)).any():
                    flat = start + int(nan.argmax())
                    index = tuple(int(i) for i in np.unravel_index(flat, array.shape))
                    raise self._misfit(
                        f"has a NaN in its reference data, at {shape_text(index)}",
                        "a NaN hides what a pass does to the rest; replace it, or set "
                        "reference.allow_nan: true if the model is meant to take it",
                    )

    def _check_dtype(self, array: Array, declared: ir.TypeProtocol | None) -> None:
        if declared is None or declared.dtype == ir.DataType.UNDEFINED:
            return
        given, needed = dtype_name(array.dtype), declared.dtype.numpy().name
        if declared.dtype == ir.DataType.STRING:
            needed = "string"
        if given == needed:
            return
        numpy_type = needed if hasattr(np, needed) else f"ml_dtypes.{needed}"
        how = (
            "save text: np.save(path, np.array(['...']))"
            if needed == "string"
            else f"convert it: np.save(path, np.load(path).astype({_qualified(numpy_type)}))"
        )
        raise self._misfit(f"is given {given}, and the model needs {needed}", how)

    def _check_shape(self, array: Array, *, single: bool) -> None:
        if self.shape is None:
            return
        given = f"is given shape {shape_text(array.shape)}, and the model needs {self.shape}"
        if array.ndim != len(self.shape):
            raise self._misfit(
                given,
                f"it has {array.ndim} axes, and needs {len(self.shape)}; no axis is added or "
                "broadcast: np.expand_dims(array, 0) adds one",
            )
        for axis, (size, dim) in enumerate(zip(array.shape, self.shape, strict=True)):
            if isinstance(dim, int):
                if dim != size:
                    raise self._misfit(given, f"axis {axis} is {size}, and must be {dim}")
            elif dim.value and single:
                known, by = self.sizes.setdefault(str(dim.value), (size, self.name))
                if known != size:
                    raise self._misfit(
                        given,
                        f"axis {axis} is {size}, and {dim.value!r} is {known} in input "
                        f"{by!r}; a dimension has one size in a sample. Where the model says "
                        "so by mistake: onnx-passes sanitize --override-input-shapes",
                    )

    def _misfit(self, what: str, help_: str) -> ReferenceDataError:
        return ReferenceDataError(
            f"input {self.name!r} {what}", where=self.file or None, help=help_
        )


_AS_PB = "store it with onnx.numpy_helper as .pb, in the type that the model declares"


def _qualified(name: str) -> str:
    return name if "." in name else f"np.{name}"


def _tensors(data: Data) -> Iterator[Array]:
    if isinstance(data, list):
        for item in data:
            yield from _tensors(item)
    elif data is not None:
        yield data
