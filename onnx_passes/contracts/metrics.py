"""The registry of metrics: by which numbers a pipeline may be gated.

A metric is a function of one sample's outputs and of what they are held against, both in
output order, that returns a number::

    @metrics.register("share-of-zeros", samples="max")
    def share_of_zeros(produced, expected):
        return float(np.mean(produced[0] == 0))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, TypeVar, overload

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import scores
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import (
    ConfigError,
    ReferenceDataError,
    UnknownMetricError,
    VerificationError,
    did_you_mean,
)
from onnx_passes.optional import users_call
from onnx_passes.plain import PlainMapping

Function: TypeAlias = Callable[[list[Array], list[Array]], float]
Expects: TypeAlias = Literal["reference", "labels", "either"]
Samples: TypeAlias = Literal["mean", "max", "min", "sum", "concatenate"]
FunctionT = TypeVar("FunctionT", bound=Callable[..., float])


@dataclass(frozen=True, slots=True)
class RegisteredMetric:
    """A metric, and how it is applied.

    Attributes:
        name: Its name, with underscores.
        function: ``f(produced, expected) -> float`` for one sample.
        expects: What ``expected`` holds. "reference": what the user gives under
            ``reference.outputs`` if it has the types and shapes of the model's outputs, else
            the outputs of the original model. "labels": what the user gives there. "either":
            the same, and the outputs of the original model if nothing is given.
        samples: How many samples become one number. "mean", "max", "min" and "sum" are of the
            samples' values. The mean weighs a sample by the length of the first axis of
            ``expected[0]``, so that a batch of 8 counts as 8 samples. "concatenate" joins the
            samples along their first axis, and measures once.
        builtin: Whether it comes with the package.
    """

    name: str
    function: Function
    expects: Expects = "either"
    samples: Samples = "mean"
    builtin: bool = False

    def choose_expected(
        self, original: Sequence[Sequence[Array]], given: Sequence[Sequence[Array]]
    ) -> Sequence[Sequence[Array]]:
        """Return what a result is held against, by sample; ``given`` is empty for nothing."""
        if self.expects == "labels":
            return given
        is_used = bool(given) if self.expects == "either" else _fits(given, original)
        return given if is_used else original

    def measure(
        self, produced: Sequence[Sequence[Array]], expected: Sequence[Sequence[Array]]
    ) -> float:
        """Measure all samples: by sample, the outputs in order.

        Raises ReferenceDataError if there are no labels or they do not fit, and
        VerificationError if an output has another shape or the function raised.
        """
        if len(produced) != len(expected) or not produced:
            raise ReferenceDataError(
                f"metric {self.name!r} has {len(produced)} samples of outputs, and "
                f"{len(expected)} to compare them with",
                help="give one set of expected outputs for each set of inputs",
            )
        pairs = [(list(p), list(e)) for p, e in zip(produced, expected, strict=True)]
        if self.samples == "concatenate":
            return self._call(*_join(self.name, pairs))
        values = [self._call(p, e) for p, e in pairs]
        # NaN must not get lost: max(1, nan) is 1.
        if np.isnan(values).any():
            return float("nan")
        if self.samples == "mean":
            weights = [e[0].shape[0] if e and e[0].ndim else 1 for _, e in pairs]
            return float(np.average(values, weights=weights if any(weights) else None))
        return float(_COMBINE[self.samples](values))

    def _call(self, produced: list[Array], expected: list[Array]) -> float:
        how = "a metric is called as f(produced, expected), two lists of arrays in the order "
        how += "of the model's outputs, and returns a number"
        with users_call(f"metric {self.name!r}", VerificationError, how):
            return float(self.function(produced, expected))


def _fits(given: Sequence[Sequence[Array]], original: Sequence[Sequence[Array]]) -> bool:
    """Whether given data are outputs, and not labels."""

    def form(samples: Sequence[Sequence[Array]]) -> list[list[tuple[str, tuple[int, ...]]]]:
        return [[(kind_of(a.dtype), a.shape) for a in sample] for sample in samples]

    floats = all(kind_of(a.dtype) == "float" for sample in given for a in sample)
    return bool(given) and floats and form(given) == form(original)


_COMBINE: dict[str, Callable[[list[float]], float]] = {"max": max, "min": min, "sum": sum}
_METRICS: dict[str, RegisteredMetric] = {}
_NAMESPACES: list[tuple[PlainMapping, PlainMapping]] = []


@overload
def register(function: FunctionT, /) -> FunctionT: ...
@overload
def register(
    name: str | None = None, /, *, expects: Expects = ..., samples: Samples = ...
) -> Callable[[FunctionT], FunctionT]: ...
def register(
    name: FunctionT | str | None = None,
    /,
    *,
    expects: Expects = "either",
    samples: Samples = "mean",
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Register a function as a metric, under its own name or another.

    Works bare and called. A name may be given with - or _. A metric of the user's takes the
    place of a built-in one of the same name; two of the user's clash.

    Args:
        name: The name; that of the function by default.
        expects: Whether it gets outputs of the reference or labels.
        samples: How the results of samples become one number.

    Raises:
        ConfigError: The name is taken.
    """

    def decorate(function: FunctionT) -> FunctionT:
        own = name if isinstance(name, str) else function.__name__
        _add(RegisteredMetric(_canonical(own), function, expects, samples))
        return function

    return decorate(name) if callable(name) else decorate


def watch_namespace(names: PlainMapping) -> None:
    """Find what is put into a namespace from now on, as metrics of their names.

    Such a metric is held against what the user gives under ``reference.outputs``, and has the
    name of a built-in one if its name is that.
    """
    _NAMESPACES.append((names, dict(names)))


def _find_assigned(name: str) -> RegisteredMetric | None:
    """Return what was put into a namespace under a name, which may have dots."""
    first, *rest = name.strip().split(".")
    for names, own in _NAMESPACES:
        value = names.get(first)
        if value is None or value is own.get(first):
            continue
        for part in rest:
            value = getattr(value, part, None)
        if callable(value):
            return RegisteredMetric(_canonical(name), value, "labels")
    return None


def lookup(name: str) -> RegisteredMetric:
    """Return a metric by name; ``top_K_accuracy`` exists for every K from 1.

    A metric that is registered comes first, then one that was put into a namespace, then one
    that comes with the package. Raises UnknownMetricError, which suggests the nearest name.
    """
    wanted = _canonical(name)
    known = _METRICS.get(wanted)
    if known is not None and not known.builtin:
        return known
    if (assigned := _find_assigned(name)) is not None:
        return assigned
    if known is not None:
        return known
    if top := re.fullmatch(r"top_([1-9]\d*)_accuracy", wanted):
        function = partial(scores.top_k_accuracy, int(top[1]))
        return RegisteredMetric(wanted, function, "labels", "mean", builtin=True)
    raise UnknownMetricError(
        f"there is no metric {name!r}",
        help=f"{did_you_mean(wanted, _METRICS)}; one of your own is registered with "
        "@metrics.register in a module named under imports:",
    )


def registered() -> dict[str, RegisteredMetric]:
    """Return every registered metric by name, in alphabetical order."""
    return dict(sorted(_METRICS.items()))


def _canonical(name: str) -> str:
    return name.strip().replace("-", "_")


def _add(metric: RegisteredMetric) -> None:
    old = _METRICS.get(metric.name)
    if old is not None and not old.builtin and old.function is not metric.function:
        raise ConfigError(
            f"two metrics are named {metric.name!r}: {_origin(old)} and {_origin(metric)}",
            help="give one of them another name: @metrics.register('name')",
        )
    _METRICS[metric.name] = metric


def _origin(metric: RegisteredMetric) -> str:
    function = metric.function
    return f"{function.__module__}.{function.__qualname__}"


def _join(
    name: str, pairs: list[tuple[list[Array], list[Array]]]
) -> tuple[list[Array], list[Array]]:
    try:
        produced, expected = (
            [np.concatenate(parts) for parts in zip(*side, strict=True)]
            for side in zip(*pairs, strict=True)
        )
    except ValueError as error:
        raise VerificationError(
            f"metric {name!r} needs all samples in one batch, and they do not join: {error}",
            help="give samples that differ in the first axis only, or register the metric "
            'with samples="mean"',
        ) from error
    return produced, expected


_BUILTIN: tuple[tuple[str, Function, Expects, Samples], ...] = (
    ("max_abs_error", scores.max_abs_error, "reference", "max"),
    ("max_rel_error", scores.max_rel_error, "reference", "max"),
    ("rmse", scores.rmse, "reference", "max"),
    ("cosine", scores.cosine, "reference", "min"),
    ("snr", scores.snr, "reference", "min"),
    ("psnr", scores.psnr, "reference", "min"),
    ("accuracy", scores.accuracy, "labels", "mean"),
    ("top_1_accuracy", partial(scores.top_k_accuracy, 1), "labels", "mean"),
    ("top_5_accuracy", partial(scores.top_k_accuracy, 5), "labels", "mean"),
    ("count_mispredictions", scores.count_mispredictions, "reference", "sum"),
    ("top_1_agreement", scores.top_1_agreement, "reference", "mean"),
    ("kl_divergence", scores.kl_divergence, "reference", "mean"),
)
for _name, _function, _expects, _samples in _BUILTIN:
    _add(RegisteredMetric(_name, _function, _expects, _samples, builtin=True))
