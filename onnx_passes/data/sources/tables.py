"""Tables: Parquet files, and Hugging Face data sets as ``save_to_disk`` writes them."""

from __future__ import annotations

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.data.files import local
from onnx_passes.data.optional_libraries import import_optional
from onnx_passes.data.sources.archive import decode_image
from onnx_passes.data.sources.part import FORMS, Columns, PartSpec, broken_file_error
from onnx_passes.plain import Foreign


class _Blocks:
    """Blocks of rows of known lengths; the last one read is kept."""

    def __init__(self, name: str, lengths: list[int]) -> None:
        self._name = name
        self._starts = np.cumsum([0, *lengths])
        self._kept: tuple[int, Foreign] | None = None

    @property
    def count(self) -> int:
        """How many samples there are."""
        return int(self._starts[-1])

    def read(self, number: int) -> Foreign:
        """Read a block as a table of pyarrow."""
        raise NotImplementedError

    def take(self, rows: Array) -> Columns:
        """Read samples; see ``SourcePart.take``."""
        places = np.searchsorted(self._starts, rows, side="right") - 1
        parts, order = [], []
        for number in np.unique(places):
            chosen = np.flatnonzero(places == number)
            order.append(chosen)
            local_rows = rows[chosen] - self._starts[number]
            parts.append(self._block(int(number)).take(local_rows))
        table = import_optional("pyarrow").concat_tables(parts)
        back = np.argsort(np.concatenate(order), kind="stable")
        table = table.take(back)
        names = table.column_names
        return {n: _values(table.column(n), f"{self._name}: column {n!r}") for n in names}

    def _block(self, number: int) -> Foreign:
        if self._kept is None or self._kept[0] != number:
            self._kept = None  # so that two blocks are never in memory
            self._kept = (number, self.read(number))
        return self._kept[1]

    def name(self, row: int) -> str:
        """Return what a report calls a sample."""
        return f"{self._name}[{row}]"


class ParquetPart(_Blocks):
    """A Parquet file, read by row groups."""

    def __init__(self, spec: PartSpec) -> None:
        parquet = import_optional("pyarrow.parquet")
        try:
            self._file = parquet.ParquetFile(local(spec.path))
            meta = self._file.metadata
            lengths = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        except (OSError, ValueError) as error:  # pyarrow's own are subclasses of these
            raise broken_file_error(
                spec.name, f"is not a complete Parquet file: {error}"
            ) from error
        super().__init__(spec.name, lengths)

    def read(self, number: int) -> Foreign:
        """Read a row group."""
        try:
            return self._file.read_row_group(number, use_threads=False)
        except (OSError, ValueError) as error:
            raise broken_file_error(self._name, f"is damaged: {error}") from error


class ArrowPart(_Blocks):
    """A file of Arrow's stream or file form, as the library ``datasets`` writes it."""

    def __init__(self, spec: PartSpec) -> None:
        self._path, self._name = local(spec.path), spec.name
        super().__init__(spec.name, [batch.num_rows for batch in self._open()])

    def _open(self) -> list[Foreign]:
        pyarrow, ipc = import_optional("pyarrow"), import_optional("pyarrow.ipc")
        try:
            source = pyarrow.memory_map(self._path)
            try:
                return list(ipc.open_stream(source))
            except pyarrow.ArrowInvalid:
                file = ipc.open_file(source)
                return [file.get_batch(i) for i in range(file.num_record_batches)]
        except (OSError, ValueError) as error:
            raise broken_file_error(
                self._name, f"is not a complete Arrow file: {error}"
            ) from error

    def take(self, rows: Array) -> Columns:
        """Read samples; see ``SourcePart.take``."""
        # Mapped only while it is read: mapped pages count as memory of the process.
        self._batches = self._open()
        try:
            return super().take(rows)
        finally:
            self._batches, self._kept = [], None

    def read(self, number: int) -> Foreign:
        """Return a record batch as a table."""
        return import_optional("pyarrow").Table.from_batches([self._batches[number]])


def _values(column: Foreign, where: str) -> Foreign:
    """Return a column of pyarrow as numpy has it; lists become axes."""
    types = import_optional("pyarrow").types
    kind = column.type
    if types.is_struct(kind) and {"bytes", "path"} <= {f.name for f in kind}:
        # The form of images in Hugging Face data sets.
        cells = column.to_pylist()
        try:
            return [decode_image(cell["bytes"]) for cell in cells]
        except (OSError, TypeError) as error:
            raise broken_file_error(
                where, f"holds an image that cannot be read: {error}"
            ) from error
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        if column.null_count:
            raise broken_file_error(where, f"holds {column.null_count} missing values")
        return column.to_numpy()
    if _is_list(kind):
        return _read_nested(column, where)
    if getattr(kind, "extension_name", "") == "arrow.fixed_shape_tensor":
        return column.combine_chunks().to_numpy_ndarray()
    return column.to_pylist()


def _read_nested(column: Foreign, where: str) -> Array | list[Array]:
    """Return lists as arrays; those of one shape become one array."""
    pyarrow = import_optional("pyarrow")
    values, shape, width = column.combine_chunks(), [len(column)], len(column)
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.chunk(0)
    while _is_list(values.type):
        lengths = set(
            import_optional("pyarrow.compute").list_value_length(values).unique().to_pylist()
        )
        if len(lengths) != 1 or None in lengths:
            return _read_ragged(column, where)
        shape.append(lengths.pop())
        width *= shape[-1]
        values = values.flatten()
    if values.null_count or len(values) != width:
        raise broken_file_error(where, "holds missing values")
    array: Array = values.to_numpy(zero_copy_only=False).reshape(shape)
    return array


def _read_ragged(column: Foreign, where: str) -> list[Array]:
    leaf = column.type
    while _is_list(leaf):
        leaf = leaf.value_type
    try:
        dtype = leaf.to_pandas_dtype()
        return [np.asarray(cell, dtype) for cell in column.to_pylist()]
    except (TypeError, ValueError, NotImplementedError) as error:
        raise broken_file_error(where, f"holds lists that are not arrays: {error}") from error


def _is_list(kind: object) -> bool:
    types = import_optional("pyarrow").types
    return bool(
        types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    )


FORMS["parquet"] = ParquetPart
FORMS["arrow"] = ArrowPart
