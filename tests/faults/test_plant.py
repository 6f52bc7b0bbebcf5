"""A helper is wrong while its fault is planted, wherever it is used, and right again after."""

from benchmarks.faults import oracle
from benchmarks.faults.plant import plant
from benchmarks.faults.suite import FAULTS
from onnx_passes.model import diff, digest
from onnx_passes.model.copy import _Copier
from onnx_passes.passes.common import value_numbering

MERGED = next(f for f in FAULTS if f.name == "digest-of-prefix")
USERS = (digest, value_numbering, diff)


def test_a_function_is_wrong_in_each_module_that_holds_it():
    right = digest.tensor_digest
    with MERGED.planted("*"):
        found = {module.tensor_digest for module in USERS}
        assert len(found) == 1
        assert right not in found
    assert all(module.tensor_digest is right for module in USERS)


def test_a_method_is_right_again_after():
    right = _Copier.node
    with plant("onnx_passes.model.copy", "_Copier.node", lambda _: None)():
        assert _Copier.node is None
    assert _Copier.node is right


def test_an_interface_holds_names_order_types_dimensions_and_defaults():
    proto = MERGED.source.proto(full=False)
    for change in (
        lambda p: setattr(p.graph.output[0], "name", "other"),
        lambda p: p.graph.output.reverse(),
        lambda p: p.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_value"),
        lambda p: setattr(p.graph.initializer[0], "name", "x"),
    ):
        changed = type(proto)()
        changed.CopyFrom(proto)
        change(changed)
        assert oracle.interface(changed) != oracle.interface(proto)
