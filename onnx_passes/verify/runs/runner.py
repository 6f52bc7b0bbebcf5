"""A model on an engine, as a context manager; models are loaded when they are first needed."""

from __future__ import annotations

import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import onnx_ir as ir

from onnx_passes.errors import EngineError, ReferenceDataError, UsageError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.load import load_model
from onnx_passes.model.save import TensorFile
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs, Session
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.feeds import check_feeds

Step: TypeAlias = Callable[[ir.Model], Any]
Source: TypeAlias = "str | Path | ir.Model | Loader"


class Loader:
    """Gives a model when it is first asked for one, and then the same one.

        fast = Loader("model.onnx").then(FoldConstants(), RemoveUnused())

    Args:
        source: A path, a model, another loader, or a function that returns a model.
    """

    def __init__(self, source: Source | Callable[[], ir.Model]) -> None:
        self._source = source
        self._model: ir.Model | None = None
        path = isinstance(source, str | Path)
        self.name = Path(str(source)).name if path else getattr(source, "name", "") or "model"

    def __call__(self) -> ir.Model:
        """Return the model.

        Raises:
            ModelError: It cannot be read.
        """
        if self._model is None:
            source = self._source
            if isinstance(source, str | Path):
                self._model = load_model(source).model
            elif isinstance(source, ir.Model):
                self._model = source
            else:
                self._model = source()
        return self._model

    def offload(self) -> None:
        """Have the weights of a model that comes from a file in a file of their own.

        Raises:
            ModelError: The model cannot be read.
            UsageError: The temporary folder has no room.
        """
        if not isinstance(self._source, str | Path):
            return
        if self._model is None:
            self._model = load_offloaded(self._source)
        offload(self._model)

    def then(self, *steps: Step) -> Loader:
        """Return a loader of the model that steps make of a copy of this one's.

        Args:
            steps: Called in order with a model. Each returns a model or onnx-ir's
                ``PassResult``, or None where it changed the model that it was given.
        """

        def make() -> ir.Model:
            model: ir.Model = copy_model(self())
            for step in steps:
                result = step(model)
                if result is not None:
                    model = result if isinstance(result, ir.Model) else result.model
            return model

        changed = Loader(make)
        changed.name = self.name
        return changed


class Runner:
    """A model on an engine.

        with Runner("model.onnx") as runner:
            outputs = runner.infer({"x": x})

    Attributes:
        engine: The engine.
        name: What a report calls it.
    """

    def __init__(
        self,
        model: Source,
        engine: Engine | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """Load and prepare nothing yet.

        Args:
            model: A path, a model, or a loader.
            engine: ONNX Runtime on the CPU by default.
            name: By default the model's on the engine's.
        """
        self.loader = model if isinstance(model, Loader) else Loader(model)
        self.engine: Engine = engine if engine is not None else OnnxRuntimeEngine()
        self.name = name or f"{self.loader.name} on {self.engine.name}"
        self._stack: ExitStack | None = None
        self._session: Session | None = None

    @property
    def model(self) -> ir.Model:
        """The model, loaded at the first look."""
        return self.loader()

    def __enter__(self) -> Self:
        """Make the model ready.

        Raises:
            ModelError: The model cannot be read.
            EngineError: The engine refuses it, or is not on this machine.
        """
        with ExitStack() as stack:
            self._session = stack.enter_context(self.engine.prepare(self.model))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free what the engine holds."""
        stack, self._stack, self._session = self._stack, None, None
        if stack is not None:
            stack.__exit__(kind, error, trace)

    def infer(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``.

        Args:
            feeds: Inputs by name.
            outputs: Names of the outputs that are wanted; None for all.

        Raises:
            EngineError: The engine failed, or the runner is not entered.
        """
        if self._session is None:
            raise EngineError(
                f"{self.name} is not ready", help="use it as a context: with runner: ..."
            )
        return self._session.run(feeds, outputs)


def unique_names(names: Iterable[str]) -> list[str]:
    """Number names that stand twice: ``a``, ``a #2``."""
    found: list[str] = []
    for each in names:
        name, number = each, 2
        while name in found:
            name, number = f"{each} #{number}", number + 1
        found.append(name)
    return found


def check_sample(index: int, feeds: Feeds, name: str, model: ir.Model) -> None:
    """Refuse a sample that does not fit a model.

    Args:
        index: Number of the sample.
        feeds: The sample.
        name: Name of the model.
        model: The model.

    Raises:
        ReferenceDataError: It does not fit.
    """
    try:
        check_feeds(feeds, model, {}, allow_nan=True)
    except ReferenceDataError as error:
        error.where = error.where or f"sample {index} for {name}"
        raise


def type_text(value: ir.Value) -> str:
    """Return the type and shape of a value as text, such as ``float[N,3]``."""
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    shape = "" if value.shape is None else ",".join(str(dim) for dim in value.shape)
    return f"{dtype}[{shape}]"


SMALL = 1 << 16
"""Bytes below which a weight stays in memory."""


def load_offloaded(path: str | Path) -> ir.Model:
    """Read a model whose large weights go from its file to a temporary one, not to memory.

    Raises:
        ModelError: It cannot be read.
        UsageError: The temporary folder has no room.
    """
    folder = tempfile.TemporaryDirectory(prefix="onnx-passes-")
    # Its name is not one that a model may have guessed.
    weights = Path(folder.name) / f"weights-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        stack.callback(folder.cleanup)
        try:
            model = load_model(path, weights=weights).model
        except OSError as error:
            raise _no_room(error) from error
        if weights.exists():
            stack.pop_all()
            weakref.finalize(model, folder.cleanup)
    return model


def offload(model: ir.Model) -> None:
    """Move the large weights of a model to a temporary file, which is gone with the model.

    A model with weights in files is left as it is. Only who owns a model may call this.

    Raises:
        UsageError: The temporary folder has no room.
    """
    values = [
        value
        for value in model.graph.initializers.values()
        if value.const_value is not None
        and value.const_value.dtype != ir.DataType.STRING
        and value.const_value.nbytes >= SMALL
    ]
    if not values or any(isinstance(v.const_value, ir.ExternalTensor) for v in values):
        return
    try:
        file = TensorFile()
        for value in values:
            assert value.const_value is not None
            value.const_value = file.append(value.const_value)
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> UsageError:
    return UsageError(
        f"there is no room for the weights in the temporary folder: {error.strerror}",
        where=tempfile.gettempdir(),
        help="let TMPDIR name a folder with more room, or keep the weights in a file beside "
        "the model",
    )
