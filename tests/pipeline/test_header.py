"""What a model says of itself is part of it: a pass that drops it is reported."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_of, edit_pass

TEXT = """<ir_version: 10, opset_import: ["" : 20], producer_name: "yolo",
    metadata_props: ["names" : "cat, dog", "stride" : "32"]>
    g (float[2] x) => (float[2] y) { y = Neg(x) }"""


@edit_pass()
def header_lost(model):
    """Forget the names of classes."""
    model.metadata_props.pop("names")
    model.producer_name = None


@passes.verify.equality
@passes.register()
class HeaderDeclared(header_lost):
    """The same, on purpose."""

    interface_changes = frozenset({"metadata"})


@each_of("step, told", ("header-lost", 1), ("header-declared", 0))
def test_a_pass_that_drops_metadata_is_reported_unless_it_declares_that(step, told):
    done = run_pipeline(ir.from_onnx_text(TEXT), default_config([], [step]))
    assert done.error is None
    notes = [note for note in done.report.notes if step in note]
    assert len(notes) == told
    for note in notes:
        assert "producer_name is lost" in note
        assert "'names' is lost" in note
