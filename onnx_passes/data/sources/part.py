"""A part of a data set: usually a file, with samples that are read by their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeAlias

from onnx_passes.arrays import Array
from onnx_passes.errors import ReferenceDataError
from onnx_passes.plain import PlainDict, PlainMapping

Column: TypeAlias = "Array | list[Any]"
Columns: TypeAlias = dict[str, Column]
"""Values by column; the first axis, or the list, runs over samples."""


class SourcePart(Protocol):
    """Samples that are read by their number, 0 to ``count - 1``."""

    @property
    def count(self) -> int:
        """How many samples there are."""
        ...

    def take(self, rows: Array) -> Columns:
        """Read samples.

        Args:
            rows: Their numbers, int64, in any order.

        Raises:
            ReferenceDataError: The data is damaged.
            OSError: It cannot be read.
        """
        ...

    def name(self, row: int) -> str:
        """Return what a report calls a sample."""
        ...


@dataclass(frozen=True)
class PartSpec:
    """Where a part lies, as plain data.

    Attributes:
        form: Its form, by which it is opened: "npy", "npz", "tar", ...
        files: Its files by column, or one under the empty name.
        name: What a report calls it.
        count: Number of samples.
        size: Bytes.
        digest: Hash of the content.
        options: What else the form needs.
    """

    form: str
    files: Mapping[str, str]
    name: str
    count: int = 0
    size: int = 0
    digest: str = ""
    options: PlainMapping = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path of a part of one file."""
        return next(iter(self.files.values()))

    def to_json(self) -> PlainDict:
        """Return the fields as JSON has them."""
        return asdict(self)


FORMS: dict[str, Callable[[PartSpec], SourcePart]] = {}
"""What opens a part, by its form. A family of forms adds itself when it is imported."""


def broken_file_error(
    name: str, what: str, help_: str = "write it again, or leave it out"
) -> ReferenceDataError:
    """Return the error of a file that cannot be used.

    Args:
        name: Name of the part.
        what: What is wrong with it, as the end of a sentence.
        help_: What to do about it.
    """
    return ReferenceDataError(f"data {name!r} {what}", help=help_)
