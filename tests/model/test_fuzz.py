"""Any bytes give a model or a ModelError, never another error, a crash or a partial model."""

import tempfile
from pathlib import Path

import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.errors import ModelError
from onnx_passes.model.load import LoadedModel, load_model
from onnx_passes.model.save import save_model, to_text

TEXT = """
<ir_version: 10, opset_import: ["": 20, "my": 1],
 producer_name: "p", metadata_props: ["k": "v"]>
g (float[N, 4] x, bool c, seq(float[2]) s, optional(int64) o) => (float[N, 4] y, float[] t)
<float[4] w = {1.0, 2.0, 3.0, 0.1}, int64[2] i = {1, -1}, float[600] e = ["location": "w.bin"],
 float[N, 4] z>
{
    z = Add(x, w)
    y = If(c) <
      then_branch = a () => (float[N, 4] p) { p = Elu<alpha = 0.5>(z) },
      else_branch = b () => (float[N, 4] q) { q = my.f<k = 2>(z) }>
    u = Constant<value = float[2] {1.0, 2.0}>()
    t = ReduceSum<keepdims = 0>(u)
}
<domain: "my", opset_import: ["": 20]>
f <k> (a) => (b) { b = ThresholdedRelu<alpha: float = @k>(a) }
"""
MODEL = onnx.parser.parse_model(TEXT.replace("alpha: float = @k", "alpha = 1.0"))
BINARY = MODEL.SerializeToString()

FUZZ = settings(max_examples=100)


def survives(content: bytes, name: str) -> None:
    """Load what may be anything; what is loaded can be written and read again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        Path(folder, "w.bin").write_bytes(bytes(2400))
        loaded = load_or_error(path)
        if isinstance(loaded, ModelError):
            assert str(path) in str(loaded.where)
            assert loaded.help
            return
        save_model(loaded.model, path.with_name("again.onnx"))
        assert load_model(path.with_name("again.onnx")).notes == []


def load_or_error(path: Path) -> LoadedModel | ModelError:
    try:
        return load_model(path)
    except ModelError as error:
        return error


def test_the_seed_itself_loads(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(2400))
    for name, content in (("m.onnx", BINARY), ("m.onnxtxt", TEXT.encode())):
        (tmp_path / name).write_bytes(content)
        loaded = load_model(tmp_path / name)
        assert loaded.notes == []
        assert "ReduceSum" in to_text(loaded.model)


@FUZZ
@given(st.binary(max_size=300), st.sampled_from(["m.onnx", "m", "m.onnxtxt", "m.txt"]))
def test_random_bytes(content, name):
    survives(content, name)


@FUZZ
@given(
    st.lists(
        st.tuples(st.integers(0, len(BINARY) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_models_with_bytes_changed(changes):
    content = bytearray(BINARY)
    for index, byte in changes:
        content[index] = byte
    survives(bytes(content), "m.onnx")


@FUZZ
@given(
    st.integers(0, len(TEXT)),
    st.integers(0, 40),
    st.text(alphabet='<>(){}[]",:=@ \nabc019.-', max_size=20),
)
def test_text_with_parts_replaced(start, length, part):
    survives((TEXT[:start] + part + TEXT[start + length :]).encode(), "m.onnxtxt")


def messages_of(message):
    """List a protobuf message and all inside it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type:
            for item in [value] if hasattr(value, "ListFields") else value:
                found += messages_of(item)
    return found


@FUZZ
@given(st.data())
def test_models_with_fields_missing_repeated_or_changed(data):
    model = onnx.ModelProto.FromString(BINARY)
    for _ in range(data.draw(st.integers(1, 3))):
        message = data.draw(st.sampled_from(messages_of(model)))
        fields = [field for field, _ in message.ListFields()]
        if not fields:
            continue
        field = data.draw(st.sampled_from(fields))
        value = getattr(message, field.name)
        if hasattr(value, "append"):
            copies = list(value)
            del value[:]
            value.extend(data.draw(st.lists(st.sampled_from(copies), max_size=3)))
        elif field.message_type or data.draw(st.booleans()):
            message.ClearField(field.name)
        elif isinstance(value, int) and field.enum_type is None:
            setattr(message, field.name, data.draw(st.sampled_from([0, 1, 2, 7, 16])))
        elif isinstance(value, str):
            setattr(message, field.name, data.draw(st.sampled_from(["", "x", "z", "ai.onnx"])))
    survives(model.SerializeToString(), "m.onnx")


def test_a_name_of_a_noted_type_that_is_not_utf8():
    start = BINARY.rindex(b"z", 0, BINARY.rindex(b"ThresholdedRelu"))
    survives(BINARY[:start] + b"\x80" + BINARY[start + 1 :], "m.onnx")


def test_an_output_whose_type_is_noted_elsewhere():
    model = onnx.ModelProto.FromString(BINARY)
    model.graph.output[0].name = "z"
    model.graph.output[0].ClearField("type")
    survives(model.SerializeToString(), "m.onnx")


def test_an_input_without_a_type_that_is_an_output():
    model = onnx.ModelProto.FromString(BINARY)
    model.graph.output[1].name = "x"
    model.graph.input[0].ClearField("type")
    survives(model.SerializeToString(), "m.onnx")


def test_a_constant_that_gives_nothing():
    model = onnx.ModelProto.FromString(BINARY)
    del model.graph.node[2].output[:]
    del model.graph.node[3].input[:]
    survives(model.SerializeToString(), "m.onnx")
