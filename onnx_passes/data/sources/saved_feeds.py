"""Saved feeds: folders of ONNX test data and Polygraphy's JSON. Each sample is a feed."""

from __future__ import annotations

import re
from pathlib import Path

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.data.files import local
from onnx_passes.data.sources.archive import join
from onnx_passes.data.sources.part import FORMS, Columns, PartSpec, broken_file_error
from onnx_passes.plain import PlainDict
from onnx_passes.verify.datafiles import read_value
from onnx_passes.verify.saved import read_samples


class TestDataPart:
    """One ``test_data_set_N`` folder: a sample of ``input_0.pb``, ``output_0.pb``, ..."""

    def __init__(self, spec: PartSpec) -> None:
        self._folder, self._name = Path(spec.path), spec.name
        inputs, outputs = spec.options["inputs"], spec.options["outputs"]
        self._files: dict[str, Path] = {}
        for word, names in (("input", inputs), ("output", outputs)):
            for path in sorted(self._folder.glob(f"{word}_*.pb")):
                number = re.fullmatch(rf"{word}_(\d+)", path.stem)
                if number is None or int(number[1]) >= len(names):
                    raise broken_file_error(
                        f"{self._name}/{path.name}", f"is not an {word} of the model"
                    )
                key = names[int(number[1])] if word == "input" else path.stem
                self._files[key] = path

    @property
    def count(self) -> int:
        """How many samples there are."""
        return 1

    def take(self, rows: Array) -> Columns:
        """Read samples; see ``SourcePart.take``."""
        del rows
        sample: PlainDict = {
            name: read_value(path, ir.Value(name=name)) for name, path in self._files.items()
        }
        return join([sample], self._name)

    def name(self, row: int) -> str:
        """Return what a report calls a sample."""
        del row
        return self._name


class JsonPart:
    """Polygraphy's JSON: a list of feeds. The file is held in memory while it is open."""

    def __init__(self, spec: PartSpec) -> None:
        self._name = spec.name
        self._samples = read_samples(local(spec.path))

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(self._samples)

    def take(self, rows: Array) -> Columns:
        """Read samples; see ``SourcePart.take``."""
        return join([dict(self._samples[int(row)]) for row in rows], self._name)

    def name(self, row: int) -> str:
        """Return what a report calls a sample."""
        return f"{self._name}[{row}]"


FORMS["test-data"] = TestDataPart
FORMS["json"] = JsonPart
