"""Candidates as files; weights are written once, or read from where they are."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.formats import inlined
from onnx_passes.model.save import write_data
from onnx_passes.model.walk import Choice, all_tensors, replaced
from onnx_passes.verify.reduce.outcome import SmallerModel

_INLINE = 16 << 20  # bytes of weights; a file of these is written faster than a check starts


@dataclass
class CandidateStore:
    """Writes candidates of one model.

    Attributes:
        model: The model whose weights candidates share.
        folder: Where candidates go; None for the system's folder of temporary files, or that
            of the model's external data, so that those can be referred to.
        inline: Bytes of weights up to which they are written into each candidate.
        keep: Whether a data file stays when all is done.
    """

    model: ir.Model
    folder: Path | None = None
    inline: int = _INLINE
    keep: bool = False
    _scratch: Path | None = field(default=None, init=False)
    _data: Path | None = field(default=None, init=False)
    _at: Path | None = field(default=None, init=False)
    _choose: Choice = field(default_factory=lambda: inlined, init=False)

    def __enter__(self) -> Self:
        """Make the place ready, and write the weights there if they have to be."""
        tensors = {id(t): t for t in all_tensors(self.model) if t.dtype != ir.DataType.STRING}
        beside = _folder(tensors.values())
        if sum(t.nbytes for t in tensors.values()) <= self.inline:
            self._at = self.folder or self._temporary()
        elif beside and (self.folder or beside).resolve() == beside and _writable(beside):
            self._at, self._choose = beside, _by_reference
        else:
            self._at = self.folder or self._temporary()
            stem = self._at / ("weights" if self.keep else f".{secrets.token_hex(6)}")
            with writing(self._at), write_data(self.model, stem, 1024) as (data, choose):
                if data is not None:
                    data.publish()
                    self._data = data.path
                self._choose = choose
        return self

    def __exit__(self, *error: object) -> None:
        """Take everything away again."""
        if self._data is not None and not self.keep:
            self._data.unlink(missing_ok=True)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def write(self, model: ir.Model | SmallerModel, path: Path) -> None:
        """Write a candidate.

        Args:
            model: The model, or the candidate.
            path: The file.

        Raises:
            ModelError: It cannot be written.
        """
        with writing(path):
            try:
                if isinstance(model, SmallerModel) and model.render is not None:
                    proto = model.render(self._choose)
                else:
                    whole = model.model if isinstance(model, SmallerModel) else model
                    with replaced(whole, self._choose):
                        proto = ir.to_proto(whole)
                content = proto.SerializeToString(deterministic=True)
            except (ir.serde.SerdeError, ValueError, TypeError) as error:
                raise ModelError(f"a candidate cannot be written: {error}") from error
            path.write_bytes(content)

    @contextmanager
    def file(self, model: ir.Model | SmallerModel) -> Iterator[Path]:
        """Write a candidate to a file that is there for a while."""
        assert self._at is not None
        path = self._at / f".onnx-passes-{secrets.token_hex(6)}.onnx"
        try:
            self.write(model, path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _temporary(self) -> Path:
        self._scratch = Path(tempfile.mkdtemp(prefix="onnx-passes-"))
        return self._scratch


def _folder(tensors: Iterable[ir.TensorProtocol]) -> Path | None:
    """Return the one folder in which all large tensors lie already."""
    large = [t for t in tensors if t.nbytes > 1024]
    if not large or not all(isinstance(t, ir.ExternalTensor) for t in large):
        return None
    folders = {
        Path(t.path).resolve().parent for t in large if isinstance(t, ir.ExternalTensor)
    }
    return folders.pop() if len(folders) == 1 else None


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


def _by_reference(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
    del initializer
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.ExternalTensor(
        Path(tensor.path).name,
        tensor.offset,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=tensor.name or "",
    )


@contextmanager
def writing(path: Path, what: str = "a candidate") -> Iterator[None]:
    """Say what cannot be written, and where.

    Args:
        path: The file.
        what: What is written, for the message.

    Raises:
        ModelError: It cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{what} cannot be written: {error.strerror or error}",
            where=str(error.filename or path),
            help="make room there, or choose another folder",
        ) from error
