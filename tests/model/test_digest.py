import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.model.digest import digest, leaf_key, tensor_digest
from onnx_passes.model.tensor_bytes import immutable


def test_parts_do_not_run_together():
    assert (
        len({digest("ab", "c"), digest("a", "bc"), digest(("a", "b"), "c"), digest("abc")})
        == 4
    )
    assert digest(1) != digest("1") != digest(b"1")


@pytest.mark.parametrize("text", [["ab", "c"], ["a", "bc"], ["abc", ""]])
def test_strings_do_not_run_together(text):
    others = [["ab", "c"], ["a", "bc"], ["abc", ""]]
    same = [o for o in others if tensor_digest(ir.tensor(o)) == tensor_digest(ir.tensor(text))]
    assert same == [text]


def test_content_counts_and_storage_does_not():
    array = np.arange(4, dtype=np.float32)
    tensor = ir.Tensor(array)
    assert tensor_digest(tensor) == tensor_digest(ir.from_proto(ir.to_proto(tensor)))
    for other in (array.reshape(2, 2), array.astype(np.int32), array[::-1]):
        assert tensor_digest(ir.Tensor(other)) != tensor_digest(tensor)


def test_only_what_cannot_change_is_remembered(monkeypatch):
    array = np.zeros(4, np.float32)
    tensor = ir.Tensor(array)
    before = tensor_digest(tensor)
    array.flags.writeable = False
    assert tensor_digest(tensor) == before
    array.flags.writeable = True
    array[0] = 1
    array.flags.writeable = False
    assert tensor_digest(tensor) != before
    lasting = immutable(tensor)
    digest_of_it = tensor_digest(lasting)
    monkeypatch.setattr("onnx_passes.model.digest.tensor_buffer", None)
    assert tensor_digest(lasting) == digest_of_it


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (ir.AttrInt64("k", 1), ir.AttrFloat32("k", 1.0)),
        (ir.AttrInt64s("k", [1]), ir.AttrInt64("k", 1)),
        (ir.AttrFloat32("k", 0.0), ir.AttrFloat32("k", -0.0)),
        (ir.AttrString("k", "a"), ir.RefAttr("k", "a", ir.AttributeType.STRING)),
        (ir.AttrInt64s("k", []), ir.AttrFloat32s("k", [])),
    ],
)
def test_attributes_are_told_apart(a, b):
    assert leaf_key(a) != leaf_key(b)


def test_floats_are_equal_if_onnx_stores_them_equally():
    assert leaf_key(ir.AttrFloat32("k", 0.1)) == leaf_key(ir.AttrFloat32("k", np.float32(0.1)))
