"""Compare what two models put out: names, types and shapes first, then every element."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.contract import Equality, Tolerance
from onnx_passes.contracts.scores import dtype_name, kind_of, shape_text
from onnx_passes.plain import Plain
from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.tensor_difference import Limit, compare_elements, default_tolerance

__all__ = ["compare", "default_tolerance", "identical"]


def compare(
    expected: Outputs,
    actual: Outputs,
    contract: Equality | Tolerance,
    *,
    overrides: Mapping[str, Tolerance] | None = None,
    scale_by_max: bool | Collection[str] = False,
    negative_zero: bool = False,
) -> tuple[OutputCheck, ...]:
    """Compare the outputs of a candidate with those of the reference.

    Names, count, order, dtypes and shapes must agree; nothing is broadcast. NaN agrees with
    NaN, an infinity with itself only. Integers, booleans and strings are exact. Floats are
    exact under equality; under tolerance, ``|actual - expected| <= atol + rtol * |expected|``,
    with what the contract leaves open filled in by :func:`default_tolerance`.

    Args:
        expected: Outputs of the reference, in order.
        actual: Outputs of the candidate, in order.
        contract: What was promised.
        overrides: Tolerances by output name, or path (``y[2]``), which stand in for the
            contract's under a tolerance; an equality is not loosened by them. One that names
            an integer output allows that output's integers to differ.
        scale_by_max: Measure against ``max |expected|`` of the tensor instead of the element,
            or the names of the outputs that are measured so. It is for tensors inside a model,
            whose small elements carry the large ones' error.
        negative_zero: Distinguish -0 from 0 where floats must be equal.

    Returns:
        One check for each tensor: for each output, for each element of a sequence or map, and
        for each output that one side lacks. Never empty: two sides without outputs fail.
    """
    if not expected and not actual:
        return (_failure("", "there are no outputs to compare"),)
    checks: list[OutputCheck] = []
    ours = [name for name in actual if name in expected]
    for position, name in enumerate(n for n in expected if n in actual):
        if ours[position] != name:
            reason = f"is output {ours.index(name)} of those in common, expected {position}"
            checks.append(_failure(name, reason))
        else:
            walk = _Descent(name, contract, overrides or {}, scale_by_max, negative_zero)
            checks.extend(walk.values(name, expected[name], actual[name]))
    has = f"the candidate has {', '.join(actual) or 'no outputs'}"
    checks.extend(_failure(n, f"is missing; {has}") for n in expected if n not in actual)
    checks.extend(
        _failure(n, "is no output of the original") for n in actual if n not in expected
    )
    return tuple(checks)


class _Descent:
    """Descends into the sequences and maps of one output, down to tensors."""

    def __init__(
        self,
        output: str,
        contract: Equality | Tolerance,
        overrides: Mapping[str, Tolerance],
        scale_by_max: bool | Collection[str],
        negative_zero: bool,
    ) -> None:
        self.output, self.contract, self.overrides = output, contract, overrides
        scaled = scale_by_max if isinstance(scale_by_max, bool) else output in scale_by_max
        self.scale_by_max, self.negative_zero = scaled, negative_zero

    def values(self, path: str, expected: object, actual: object) -> Iterator[OutputCheck]:
        expected, actual = _boxed(expected), _boxed(actual)
        want, got = _describe(expected), _describe(actual)
        if want != got:
            yield _failure(path, f"is {got}, expected {want}")
        elif isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
            yield self.tensors(path, expected, actual)
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self.sequences(path, expected, actual)
        elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
            yield from self.maps(path, expected, actual)
        else:
            yield OutputCheck(path, passed=True)

    def sequences(
        self, path: str, expected: list[Plain], actual: list[Plain]
    ) -> Iterator[OutputCheck]:
        if len(expected) != len(actual):
            yield _failure(path, f"has {len(actual)} elements, expected {len(expected)}")
        elif not expected:
            yield OutputCheck(path, passed=True)
        for index, pair in enumerate(zip(expected, actual, strict=False)):
            yield from self.values(f"{path}[{index}]", *pair)

    def maps(
        self, path: str, expected: Mapping[Plain, Plain], actual: Mapping[Plain, Plain]
    ) -> Iterator[OutputCheck]:
        if missing := [key for key in expected if key not in actual]:
            yield _failure(path, f"lacks the key {missing[0]!r}")
        if extra := [key for key in actual if key not in expected]:
            yield _failure(path, f"has the key {extra[0]!r}, which is not expected")
        if not expected and not actual:
            yield OutputCheck(path, passed=True)
        for key in expected:
            if key in actual:
                yield from self.values(f"{path}[{key!r}]", expected[key], actual[key])

    def tensors(self, path: str, expected: Array, actual: Array) -> OutputCheck:
        want, got = dtype_name(expected.dtype), dtype_name(actual.dtype)
        if want != got:
            return _failure(path, f"dtype is {got}, expected {want}", expected.size)
        if expected.shape != actual.shape:
            shapes = shape_text(actual.shape), shape_text(expected.shape)
            return _failure(path, "shape is {}, expected {}".format(*shapes), expected.size)
        if kind_of(expected.dtype) == "other":
            return _failure(path, f"dtype {want} cannot be compared", expected.size)
        return compare_elements(path, expected, actual, self.limit(path))

    def limit(self, path: str) -> Limit:
        if isinstance(self.contract, Equality):
            return Limit(negative_zero=self.negative_zero)
        for name in (path, self.output):
            if name in self.overrides:
                return Limit(self.overrides[name], self.scale_by_max, explicit=True)
        return Limit(self.contract, self.scale_by_max)


def identical(expected: object, actual: object) -> bool:
    """Whether two values are the same: type, shape and every bit, NaN being NaN.

    Args:
        expected: A tensor, a sequence or an optional of any type.
        actual: The value that it is compared with.
    """
    walk = _Descent("", Equality(), {}, scale_by_max=False, negative_zero=True)
    return all(check.passed for check in walk.values("", expected, actual))


def _boxed(value: object) -> object:
    """Give a scalar, as maps hold them, the form of a tensor."""
    return (
        np.asarray(value)
        if isinstance(value, np.generic | str | bytes | float | int)
        else value
    )


def _describe(value: object) -> str:
    if value is None:
        return "an empty optional"
    for kind, name in ((np.ndarray, "a tensor"), (list, "a sequence"), (Mapping, "a map")):
        if isinstance(value, kind):
            return name
    return f"of Python type {type(value).__name__}"


def _failure(path: str, reason: str, size: int = 0) -> OutputCheck:
    return OutputCheck(path, passed=False, reason=reason, mismatched=size, size=size)
