import hashlib
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from onnx_passes.errors import ModelError
from onnx_passes.model import save
from onnx_passes.model.digest import canonical_hash
from onnx_passes.model.formats import lost_fields
from onnx_passes.model.load import load_model
from onnx_passes.model.save import drop_unpublished, is_device, pending, save_model, to_text
from onnx_passes.model.walk import all_tensors
from tests.tables import each_of


@pytest.fixture
def loaded(external):
    return load_model(external())


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def state(model: ir.Model) -> list[object]:
    """What saving could change: which tensor is where, its name, and what is mapped."""
    return [(id(t), t.name, type(t)) for t in all_tensors(model)] + [canonical_hash(model)]


def test_keep_puts_weights_where_those_of_the_source_are(loaded, proto, write, tmp_path):
    written = save_model(loaded.model, tmp_path / "out/deep/m.onnx", source=loaded)
    digest = hashlib.sha256(np.arange(600, dtype=np.float32)).hexdigest()
    assert [path.name for path in written] == [f"m.onnx.{digest[:16]}.data", "m.onnx"]
    assert files(tmp_path / "out/deep") == {path.name for path in written}
    inside = load_model(write(proto))
    assert save_model(inside.model, tmp_path / "in.onnx", source=inside) == [
        tmp_path / "in.onnx"
    ]


def test_weights_go_in_and_out_on_request(loaded, tmp_path):
    inline = save_model(loaded.model, tmp_path / "i.onnx", external_data="inline")
    assert [path.name for path in inline] == ["i.onnx"]
    back = load_model(inline[0])
    assert back.external == ()
    outside = save_model(back.model, tmp_path / "e.onnx", external_data="external")
    again = load_model(outside[1])
    assert again.external == (outside[0],)
    assert canonical_hash(again.model) == canonical_hash(loaded.model)


def test_small_weights_stay_inside(loaded, tmp_path):
    path = tmp_path / "m.onnx"
    assert save_model(loaded.model, path, size_threshold=2401, source=loaded) == [path]
    assert len(save_model(loaded.model, path, size_threshold=2400, source=loaded)) == 2


def test_saving_changes_nothing_in_memory(loaded, tmp_path):
    shared = loaded.model.graph.initializers["w"].const_value
    loaded.model.graph.register_initializer(ir.Value(name="w2", const_value=shared))
    before = state(loaded.model)
    for mode in ("keep", "inline", "external"):
        save_model(loaded.model, tmp_path / "m.onnx", external_data=mode)
        assert state(loaded.model) == before
    assert {"w", "w2"} <= set(load_model(tmp_path / "m.onnx").model.graph.initializers)


def test_a_model_is_saved_over_itself(loaded, tmp_path):
    before = canonical_hash(load_model(loaded.path).model)
    for _ in range(3):
        # Nothing is mapped at first, everything is later: both must do.
        save_model(loaded.model, loaded.path, source=loaded)
        assert canonical_hash(load_model(loaded.path).model) == before
        assert canonical_hash(loaded.model) == before


def test_the_data_file_of_the_input_stays_as_it_is(loaded, tmp_path):
    data = (tmp_path / "w.bin").read_bytes()
    loaded.model.graph.initializers["w"].const_value = ir.tensor(np.zeros(600, np.float32))
    save_model(loaded.model, loaded.path, source=loaded)
    assert (tmp_path / "w.bin").read_bytes() == data
    assert not load_model(loaded.path).model.graph.initializers["w"].const_value.numpy().any()


def test_bytes_depend_on_nothing_but_the_model(loaded, tmp_path):
    loaded.model.metadata_props.update({"b": "1", "a": "2"})
    first = save_model(loaded.model, tmp_path / "1/m.onnx", source=loaded)
    second = save_model(loaded.model, tmp_path / "2/m.onnx", source=loaded)
    for a, b in zip(first, second, strict=True):
        assert a.name == b.name
        assert a.read_bytes() == b.read_bytes()


def test_a_data_file_that_nobody_needs_any_more_is_removed(loaded, tmp_path):
    path = tmp_path / "out/m.onnx"

    def save_filled(value):
        tensor = ir.tensor(np.full(600, value, np.float32), name="w")
        loaded.model.graph.initializers["w"].const_value = tensor
        return save_model(loaded.model, path, source=loaded)

    save_filled(1.0)
    (path.parent / "m.onnx.0123456789abcdef.data").write_bytes(b"a stranger's")
    second = save_filled(2.0)
    stranger = {"m.onnx.0123456789abcdef.data"}
    assert files(path.parent) == {p.name for p in second} | stranger
    (path.parent / "copy.onnx").write_bytes(path.read_bytes())
    third = save_filled(3.0)
    needed = {second[0].name, "copy.onnx"}
    assert files(path.parent) == {p.name for p in third} | needed | stranger
    fourth = save_model(load_model(path).model, path, external_data="inline")
    assert third[0].exists(), "the model in memory is mapped from it"
    assert fourth == [path]


@each_of("name", "m.onnxtxt", "m.onnx.txt")
def test_other_forms_hold_all_weights(loaded, tmp_path, name):
    written = save_model(loaded.model, tmp_path / name, source=loaded)
    assert written == [tmp_path / name]
    back = load_model(written[0])
    assert back.external == ()
    assert canonical_hash(back.model) == canonical_hash(loaded.model)


def test_text_leaves_out_names_of_constants_that_its_parser_cannot_read(loaded, tmp_path):
    value = onnx.helper.make_tensor("/a/b", 1, [1], [2.0])
    node = ir.node("Constant", [], {"value": ir.serde.deserialize_tensor(value)})
    loaded.model.graph.append(node)
    node.outputs[0].name = "c"
    assert to_text(loaded.model).startswith("# without 1 ")
    path = save_model(loaded.model, tmp_path / "m.onnxtxt")[0]
    assert canonical_hash(load_model(path).model) == canonical_hash(loaded.model)
    assert node.attributes["value"].value.name == "/a/b", "the model itself keeps it"


def test_text_that_would_lose_more_than_remarks_is_refused(write, proto, tmp_path):
    proto.graph.node[0].attribute.append(helper.make_attribute("a", b"\xff\xfe"))
    model = load_model(write(proto)).model
    with pytest.raises(ModelError, match="no words") as caught:
        save_model(model, tmp_path / "m.onnxtxt")
    assert ".onnx" in str(caught.value.help)
    assert files(tmp_path) == {"model.onnx"}


def test_everything_a_model_has_survives(write, tmp_path, proto):
    proto.producer_name, proto.producer_version = "maker", "1.2"
    proto.domain, proto.model_version, proto.doc_string = "org", 3, "doc"
    proto.metadata_props.add(key="k", value="v")
    proto.graph.initializer[0].metadata_props.add(key="of", value="tensor")
    proto.graph.node[0].metadata_props.add(key="of", value="node")
    proto.graph.value_info.append(helper.make_tensor_value_info("z", 1, ["N", 4]))
    proto.opset_import.append(helper.make_opsetid("my", 1))
    function = onnx.parser.parse_function("""<domain: "my", opset_import: ["": 20]> f <k> (a)
        => (b) { b = Elu<alpha: float = @k>(a) }""")
    proto.functions.append(function)
    path = tmp_path / "out.onnx"
    for source in (write(proto), path):
        loaded = load_model(source)
        save_model(loaded.model, path, source=loaded)
        back = onnx.load(path)
        assert list(lost_fields(proto, back)) == []
        assert (
            back.graph.initializer[0].metadata_props
            == proto.graph.initializer[0].metadata_props
        )


def test_notes_on_a_constant_that_is_an_output_and_the_empty_domain_survive(write, tmp_path):
    proto = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 18]>
        g (float[2] x) => (float[2] y, float[2] k) <float[2] k = {1, 2}> { y = Elu(x) }
        <domain: "", opset_import: ["": 18]> Elu (a) => (b) { b = Abs(a) }"""
    )
    proto.graph.quantization_annotation.add(tensor_name="k").quant_parameter_tensor_names.add(
        key="finn_datatype", value="UINT2"
    )
    path = tmp_path / "out.onnx"
    for source in (write(proto), path):
        loaded = load_model(source)
        save_model(loaded.model, path, source=loaded)
        back = onnx.load(path)
        assert back.graph.quantization_annotation == proto.graph.quantization_annotation
        onnx.checker.check_model(back)


@each_of(
    "array",
    np.arange(3000).astype(ml_dtypes.bfloat16),
    np.arange(3000).astype(ml_dtypes.int4),
    np.arange(3000).astype(ml_dtypes.float8_e4m3fn),
    np.arange(3001).astype(ml_dtypes.uint4),
    np.arange(6000, dtype=np.float64)[::2],
    np.asfortranarray(np.arange(3000.0).reshape(30, 100)),
    ids=lambda array: str(array.dtype),
)
def test_weights_of_any_type_and_layout_go_outside(loaded, tmp_path, array):
    loaded.model.graph.register_initializer(
        ir.Value(name="v", const_value=ir.tensor(array, name="v"))
    )
    path = save_model(loaded.model, tmp_path / "o.onnx", source=loaded)[1]
    back = load_model(path).model.graph.initializers["v"].const_value
    assert isinstance(back, ir.ExternalTensor)
    assert back.numpy().tobytes() == array.tobytes()
    proto = onnx.load(path)
    assert onnx.numpy_helper.to_array(proto.graph.initializer[1]).tobytes() == array.tobytes()


def test_external_tensors_in_attributes_follow_the_model(external, tmp_path):
    proto = onnx.load(external(), load_external_data=False)
    proto.graph.node.insert(
        0, helper.make_node("Constant", [], ["c"], value=proto.graph.initializer[0])
    )
    path = tmp_path / "constant.onnx"
    path.write_bytes(proto.SerializeToString())
    loaded = load_model(path)
    moved = save_model(loaded.model, tmp_path / "elsewhere/m.onnx", source=loaded)
    constant = load_model(moved[1]).model.graph.node(0).attributes["value"].as_tensor()
    assert isinstance(constant, ir.ExternalTensor)
    assert constant.numpy()[7] == 7
    inline = save_model(loaded.model, tmp_path / "elsewhere/i.onnx", external_data="inline")
    constant = load_model(inline[0]).model.graph.node(0).attributes["value"].as_tensor()
    assert not isinstance(constant, ir.ExternalTensor)
    assert isinstance(loaded.model.graph.node(0).attributes["value"].value, ir.ExternalTensor)


def test_above_the_limit_of_protobuf_weights_go_outside(loaded, tmp_path, monkeypatch):
    monkeypatch.setattr(save, "LIMIT", 2000)
    monkeypatch.setattr(save, "_MARGIN", 0)
    assert len(save_model(loaded.model, tmp_path / "m.onnx", external_data="inline")) == 2
    with pytest.raises(ModelError, match="too many"):
        save_model(loaded.model, tmp_path / "m.onnxtxt")


def test_weights_that_are_gone_are_named_and_nothing_is_left(loaded, tmp_path):
    (tmp_path / "w.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match="'w'"):
        save_model(loaded.model, tmp_path / "m.onnx", source=loaded)
    (tmp_path / "w.bin").unlink()
    for mode in ("inline", "external"):
        with pytest.raises(ModelError, match=r"w\.bin|'w'"):
            save_model(loaded.model, tmp_path / "m.onnx", external_data=mode)
    assert files(tmp_path) == {"model.onnx"}


def test_places_that_cannot_be_written(loaded, tmp_path):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    before = files(tmp_path)
    for name in (".", "file/m.onnx", "pipe", "n" * 300 + ".onnx", "a\0b"):
        with pytest.raises(ModelError) as caught:
            save_model(loaded.model, tmp_path / name, source=loaded)
        assert caught.value.help
    assert files(tmp_path) == before


@each_of("error", OSError(28, "No space left on device"), KeyboardInterrupt())
@each_of("when", "write", "replace")
@each_of("nth", 1, 2)
def test_a_failed_save_leaves_the_old_state_alone(
    loaded, tmp_path, monkeypatch, error, when, nth
):
    target = tmp_path / "out/m.onnx"
    save_model(loaded.model, target, source=loaded)
    old = canonical_hash(load_model(target).model)
    before = files(tmp_path)
    loaded.model.graph.initializers["w"].const_value = ir.tensor(np.ones(600, np.float32))
    calls = 0

    def failing(original):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == nth:
                raise error
            return original(*args, **kwargs)

        return call

    if when == "write":
        monkeypatch.setattr(save.Pending, "write", failing(save.Pending.write))
    else:
        monkeypatch.setattr(save.os, when, failing(getattr(os, when)))
    with pytest.raises(ModelError if isinstance(error, OSError) else KeyboardInterrupt):
        save_model(loaded.model, target, source=loaded)
    monkeypatch.undo()
    assert files(tmp_path) == before
    assert canonical_hash(load_model(target).model) == old


@each_of("when", "fsync", "replace")
def test_an_interrupt_after_the_model_leaves_the_new_state(
    loaded, tmp_path, monkeypatch, when
):
    target = tmp_path / "out/m.onnx"
    original = getattr(os, when)

    def interrupted(*args):
        original(*args)
        if target.exists():
            raise KeyboardInterrupt

    monkeypatch.setattr(save.os, when, interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(loaded.model, target, source=loaded)
    monkeypatch.undo()
    assert canonical_hash(load_model(target).model) == canonical_hash(loaded.model)
    assert len(files(tmp_path / "out")) == 2


def test_a_file_system_that_cannot_sync_folders_will_do(loaded, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(save.os, "open", refuse)
    path = save_model(loaded.model, tmp_path / "m.onnx", source=loaded)[1]
    assert canonical_hash(load_model(path).model) == canonical_hash(loaded.model)


def test_modes_follow_the_umask_and_what_was_there(loaded, tmp_path):
    old = os.umask(0o027)
    try:
        path = save_model(loaded.model, tmp_path / "m.onnx", source=loaded)[1]
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o604)
        save_model(loaded.model, path, source=loaded)
        assert path.stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(old)


def test_a_link_is_replaced_and_what_it_points_to_stays(loaded, tmp_path):
    target = tmp_path / "target.onnx"
    target.write_bytes(b"precious")
    link = tmp_path / "link.onnx"
    link.symlink_to(target)
    save_model(loaded.model, link, source=loaded)
    assert target.read_bytes() == b"precious"
    assert not link.is_symlink()


def test_a_pipe_a_device_and_a_link_to_one_are_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe or device"), pending(tmp_path / "pipe"):
        pass
    # They lead to whatever the shell has redirected: a regular file, while pytest captures.
    assert all(
        map(is_device, [Path("/dev/stdout"), Path("/dev/fd/1"), Path("/proc/self/fd/1")])
    )
    assert not any(map(is_device, [tmp_path, tmp_path / "new", Path("/dev/shm/new")]))


STREAMING = """
import resource, sys
from pathlib import Path
from onnx_passes.model.formats import lost_fields
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
loaded = load_model(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save_model(loaded.model, sys.argv[2], source=loaded)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_weights_are_streamed_and_never_held_in_memory(external, tmp_path):
    size = 1 << 28
    path = external(name="big.onnx")
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].dims[:] = [size // 4]
    path.write_bytes(proto.SerializeToString())
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(size)
    out = tmp_path / "out/m.onnx"
    run = subprocess.run(
        [sys.executable, "-c", STREAMING, path, out],
        capture_output=True,
        text=True,
        check=True,
    )
    grown = int(run.stdout) * (1024 if sys.platform == "linux" else 1)
    assert grown < size / 4
    assert sum(f.stat().st_size for f in out.parent.iterdir()) > size


@each_of("kind", "INT64", "INT32", "UINT64", "UINT32")
def test_a_file_that_lists_small_integers_does_not_grow(kind, tmp_path):
    """Written raw, each takes four or eight bytes; protobuf spends one on it."""
    number = getattr(onnx.TensorProto, kind)
    shape = onnx.helper.make_tensor("s", number, [1000], list(range(100)) * 10)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["s"], ["y"])],
        "g",
        [],
        [onnx.helper.make_tensor_value_info("y", number, [1000])],
        [shape],
    )
    imports = [onnx.helper.make_opsetid("", 20)]
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=imports), source)
    loaded = load_model(source)
    save_model(loaded.model, target, source=loaded)
    assert target.stat().st_size <= source.stat().st_size
    (written,) = onnx.load(target).graph.initializer
    assert written == shape


def test_a_process_that_ends_at_once_leaves_nothing_that_it_was_writing(tmp_path):
    with pending(tmp_path / "m.onnx") as file:
        file.write(b"half")
        assert len(list(tmp_path.iterdir())) == 1
        drop_unpublished()
        assert not list(tmp_path.iterdir())
    drop_unpublished()
