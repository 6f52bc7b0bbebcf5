"""Protobuf's encoding, a field at a time."""

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.model import wire
from onnx_passes.model.wire import FileBytes, fields, head


def message():
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], raw_data=b"12345678")
    graph = onnx.GraphProto(name="g" * 200, initializer=[tensor])
    return onnx.ModelProto(ir_version=8, producer_name="p", graph=graph).SerializeToString()


def test_fields_follow_each_other_to_the_end():
    data = message()
    found = list(fields(data, 0, len(data)))
    assert [field.number for field in found] == [1, 2, 7]
    assert b"".join(data[f.start : f.end] for f in found) == data
    assert data[found[1].content : found[1].end] == b"p"


@given(st.integers(1, 2**20), st.integers(0, 2**31))
def test_a_head_is_read_back(number, size):
    data = head(number, size)
    with pytest.raises(ValueError, match="behind its message"):
        list(fields(data, 0, len(data) + size - 1))
    (field,) = fields(data, 0, len(data) + size)
    assert (field.number, field.wire, field.content) == (number, wire.LENGTH, len(data))


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\x0b", "wire type 3"), (b"\x0a\x05a", "behind"), (b"\xff" * 11, "10 bytes")],
)
def test_what_is_no_message_is_refused(data, said):
    with pytest.raises(ValueError, match=said):
        list(fields(data, 0, len(data)))


def test_a_file_reads_as_its_bytes_do(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "_WINDOW", 5)
    data, path = message(), tmp_path / "m"
    path.write_bytes(data)
    with open(path, "rb") as stream:
        content = FileBytes(stream)
        assert list(fields(content, 0, len(content))) == list(fields(data, 0, len(data)))
        assert [content[i] for i in (7, 0, 30, 3)] == [data[i] for i in (7, 0, 30, 3)]
        assert content[3:100] == data[3:100]
        assert content[9:9] == b""


def test_a_file_that_becomes_shorter_is_told(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(message())
    with open(path, "rb") as stream:
        content = FileBytes(stream)
        path.write_bytes(b"short")
        with pytest.raises(ValueError, match="too early"):
            content[0 : len(content)]
        with pytest.raises(IndexError):
            content[100]
