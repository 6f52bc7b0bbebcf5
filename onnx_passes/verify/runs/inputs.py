"""Where the inputs of a comparison come from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.runtime.engine_base import Data, Feeds, did_you_mean
from onnx_passes.runtime.inputs import Substitute, Substitutes, generate
from onnx_passes.verify.reference_data import load_reference
from onnx_passes.verify.runs.runner import Runner
from onnx_passes.verify.runs.user_functions import existing, named_function
from onnx_passes.verify.saved import read_samples, write_samples

SAMPLES = 3
_KEYS = ("seed", "samples", "range", "shape")


@dataclass(frozen=True)
class Generated:
    """How inputs are made up.

    Attributes:
        seed: The same seed gives the same inputs.
        samples: How many.
        ranges: Least and greatest value, by name of an input.
        shapes: Shapes, by name of an input.
    """

    seed: int = 0
    samples: int = SAMPLES
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def make(self, model: ir.Model) -> list[Feeds]:
        """Make up inputs of a model.

        Raises:
            UsageError: There is no such input.
            ReferenceDataError: A range or shape does not fit the model.
        """
        names = [str(value.name) for value in model.graph.inputs]
        for name in self.shapes:
            if name not in names:
                raise UsageError(
                    f"--generate: the model has no input {name!r}",
                    help=did_you_mean(name, names),
                )
        return generate(
            model, seed=self.seed, samples=self.samples, ranges=self.ranges, dims=self.shapes
        )

    def find_others(self, runner: Runner) -> Substitute | None:
        """Search for inputs on which a model runs that does not run on those of :meth:`make`.

        Raises:
            EngineError: The engine refuses the model, whatever its inputs are.
        """
        others = Substitutes(runner.model, self.seed, self.samples, self.ranges, self.shapes)
        with runner.engine.prepare(runner.model) as session:
            return others.search(session)


def read_generate(texts: tuple[str, ...]) -> Generated:
    """Read ``seed=7,samples=2,range=x:-1:1,shape=x:1x3x8x8``; a name may hold ``:``.

    Raises:
        UsageError: A part cannot be read.
    """
    plain: dict[str, int] = {}
    ranges: dict[str, tuple[float, float]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for part in (part for text in texts for part in text.split(",")):
        key, equals, value = part.strip().partition("=")
        if key not in _KEYS or not equals:
            raise UsageError(
                f"--generate {part!r} cannot be read", help=did_you_mean(key, _KEYS)
            )
        try:
            if key == "range":
                name, low, high = value.rsplit(":", 2)
                ranges[name] = (float(low), float(high))
            elif key == "shape":
                name, sizes = value.rsplit(":", 1)
                shapes[name] = tuple(int(size) for size in sizes.split("x")) if sizes else ()
            else:
                plain[key] = int(value)
        except ValueError:
            raise UsageError(f"--generate {part!r} cannot be read", help=_HOW[key]) from None
    if plain.get("samples", 1) < 1 or plain.get("seed", 0) < 0:
        raise UsageError("--generate: samples are at least 1, and the seed is at least 0")
    return Generated(**plain, ranges=ranges, shapes=shapes)


_HOW = {
    "range": "write range=NAME:LOW:HIGH, such as range=x:-1:1",
    "shape": "write shape=NAME:SIZES, such as shape=x:1x3x224x224",
    "seed": "write a whole number, such as seed=7",
    "samples": "write a whole number, such as samples=4",
}


def from_loader(text: str) -> Iterator[Feeds]:
    """Yield what a function of the user's gives: feeds, one after the other.

    Args:
        text: ``module:function``. It is called without arguments, and returns or yields
            mappings of input names to arrays.

    Raises:
        UsageError: There is no such function.
        ReferenceDataError: It raises, or gives something else.
    """
    function = named_function(text, "--data-loader")
    try:
        given: Any = function()
        for index, feeds in enumerate(given):
            yield _feeds(feeds, f"--data-loader {text}: sample {index}")
    except ReferenceDataError:
        raise
    except Exception as error:  # whatever the function raises
        raise ReferenceDataError(
            f"--data-loader {text} raised {type(error).__name__}: {error}",
            help="it is called without arguments, and returns or yields mappings",
        ) from error


def _feeds(given: Any, what: str) -> Feeds:
    if not isinstance(given, Mapping):
        raise ReferenceDataError(
            f"{what} is of type {type(given).__name__}",
            help="return or yield mappings of input names to arrays",
        )
    return {str(name): _data(value) for name, value in given.items()}


def _data(value: Any) -> Data:
    if value is None:
        return None
    return [_data(item) for item in value] if isinstance(value, list) else np.asarray(value)


def digest_of(feeds: Feeds) -> str:
    """Hash the inputs of a sample: names, types, shapes and elements."""
    content = hashlib.sha256()
    for name, value in sorted(feeds.items()):
        content.update(name.encode() + b"\0")
        _add(content, value)
    return content.hexdigest()[:32]


def _add(content: hashlib._Hash, value: Data) -> None:
    if isinstance(value, list):
        content.update(f"list {len(value)}".encode())
        for item in value:
            _add(content, item)
    elif isinstance(value, np.ndarray):
        content.update(f"{value.dtype.name} {value.shape}".encode())
        if value.dtype.kind in "OSUT":
            content.update(repr(value.reshape(-1).tolist()).encode())
        else:
            content.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)


def from_file(path: str, model: ir.Model) -> list[Feeds]:
    """Read inputs: .json of several samples, or what ``reference.inputs`` of a pipeline takes.

    Args:
        path: The file or folder.
        model: The model, for its inputs.

    Raises:
        ReferenceDataError: They cannot be read, or do not fit the model.
    """
    existing(path, "inputs")
    if Path(path).suffix == ".json":
        return [dict(sample) for sample in read_samples(path)]
    spec = {"inputs": path, "allow_nan": True}
    return list(load_reference(spec, model, Path()).samples)


def save_inputs(path: Path, samples: Sequence[Feeds]) -> None:
    """Write inputs in the form that the extension says; see ``write_samples``.

    Args:
        path: The file or folder.
        samples: Inputs by name, one mapping a sample.

    Raises:
        ReferenceDataError: The form cannot hold them, or the file cannot be written.
    """
    plain = [
        {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
        for feeds in samples
    ]
    for feeds, kept in zip(samples, plain, strict=True):
        if lost := [name for name in feeds if name not in kept]:
            raise ReferenceDataError(
                f"the input {lost[0]!r} is no tensor, and saved inputs hold tensors only",
                where=str(path),
            )
    write_samples(path, plain)
