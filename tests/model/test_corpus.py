"""Every model of onnx's own tests goes in and out of files without a loss."""

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.model.copy import copy_model
from onnx_passes.model.formats import lost_fields
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from tests.corpus import backend_models
from tests.tables import each_of

PARTS = 24


@each_of("part", 0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, PARTS)))
def test_nothing_is_lost(part: int, tmp_path: Path) -> None:
    for model_id in backend_models.shard(part, PARTS):
        model = backend_models.load(model_id).model
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        loaded = load_model(tmp_path / "m.onnx")
        assert loaded.notes == [], model_id
        assert ir.to_proto(copy_model(loaded.model)) == ir.to_proto(loaded.model), model_id
        for name, mode in (
            ("in.onnx", "inline"),
            ("out.onnx", "external"),
            ("t.onnxtxt", "keep"),
        ):
            if model_id.startswith("real/") and name == "t.onnxtxt":
                continue  # a gigabyte of digits
            written = save_model(loaded.model, tmp_path / name, external_data=mode)
            back = load_model(written[-1]).model
            proto = save_model(back, tmp_path / "back.onnx", external_data="inline")[0]
            assert list(lost_fields(model, onnx.load(proto))) == [], (model_id, name)
            for file in {*written, proto}:
                file.unlink()
