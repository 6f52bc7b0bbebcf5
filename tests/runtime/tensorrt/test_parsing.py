"""The parser in a process of its own; bindings that behave as badly as is needed."""

import textwrap

import onnx_ir as ir
import pytest

from onnx_passes.bench.compiler_support import capability
from onnx_passes.errors import EngineTimeoutError, EngineUnavailableError
from onnx_passes.runtime.tensorrt import parsing
from onnx_passes.runtime.tensorrt.bindings import installed_version
from onnx_passes.runtime.tensorrt.engine import make_tensorrt
from onnx_passes.runtime.tensorrt.parsing import Refused, parser_refusals

HEAD = '<ir_version: 10, opset_import: ["": 20]> main '
BINDINGS = '''
    """Refuses the first Det, all of Sin beside Cos without a name; Tan ends the process."""
    import os, time
    import onnx

    class ILogger: pass
    class NetworkDefinitionCreationFlag: pass
    class Builder:
        def __init__(self, logger): pass
        def create_network(self, flags): return None

    class Error:
        def __init__(self, node, operator, text):
            self.values = node, operator, text
        def node_name(self): return self.values[0]
        def node_operator(self): return self.values[1]
        def desc(self): return self.values[2]
        def code(self): return "ErrorCode.UNSUPPORTED_NODE"
        def local_function_stack(self): return []

    class OnnxParser:
        def __init__(self, network, logger): self.errors = []
        @property
        def num_errors(self): return len(self.errors)
        def get_error(self, index): return self.errors[index]
        def parse(self, data):
            nodes = onnx.load_from_string(data).graph.node
            operators = {node.op_type for node in nodes}
            if "Tan" in operators: os._exit(134)
            if "Tanh" in operators: time.sleep(60)
            bad = [node for node in nodes if node.op_type == "Det"][:1]
            self.errors = [Error(node.name, node.op_type, "no") for node in bad]
            if not bad and {"Sin", "Cos"} <= operators:
                self.errors = [Error("", "", "not both")]
            return not self.errors
'''


@pytest.fixture
def bindings(tmp_path, monkeypatch):
    """Bindings of the name that is looked for; those that are installed are not reached."""
    (tmp_path / "tensorrt_rtx.py").write_text(textwrap.dedent(BINDINGS))
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_version("tensorrt-rtx")


def model(body):
    return ir.from_onnx_text(f"{HEAD}(float[2,2] a) => (float[2,2] y) {{ {body} }}")


def rejected(body):
    found = capability(model(body), make_tensorrt("tensorrt-rtx", {}))
    return [(each.node, each.reason) for each in found.rejected], found


def test_a_model_that_ends_the_process_does_not_hide_the_others(bindings):
    models = [model("[n] y = Abs(a)"), model("[n] y = Tan(a)"), model("[n] y = Neg(a)")]
    first, crashed, last = parser_refusals("tensorrt-rtx", models)
    assert first == last == []
    assert crashed == [Refused("", "tensorrt-rtx ended with exit code 134 while parsing")]


def test_what_the_parser_tells_one_at_a_time_is_all_told(bindings):
    told, found = rejected("[one] b = Det(a) c = Add(a, b) [two] d = Det(c) y = Add(c, d)")
    assert told == [(name, "no (UNSUPPORTED_NODE)") for name in ("one", "two")]
    assert [part.supported for part in found.parts()] == [False, True, False, True]


def test_a_crash_is_traced_to_its_node(bindings):
    told, found = rejected("b = Abs(a) [odd] c = Tan(b) y = Neg(c)")
    assert told == [("odd", "tensorrt-rtx ended with exit code 134 while parsing")]
    assert [node.name for node in found.parts()[1].model.graph] == ["odd"]


def test_nodes_refused_only_together_are_all_set_apart(bindings):
    told, found = rejected(
        "b = Sin(a) [x] c = Det(b) d = Neg(a) e = Sin(d) f = Cos(e) y = Add(c, f)"
    )
    assert ("x", "no (UNSUPPORTED_NODE)") in told
    assert any("refused together with its neighbours: not both" in why for _, why in told)
    made = {
        node.op_type for part in found.parts() if part.supported for node in part.model.graph
    }
    assert not {"Sin", "Cos"} <= made


def test_a_parser_that_hangs_is_ended(bindings):
    with pytest.raises(EngineTimeoutError, match=r"within 0\.5 s"):
        parser_refusals("tensorrt-rtx", [model("y = Tanh(a)")], seconds=0.5)


def test_tensorrt_is_not_started_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(parsing, "gpu_count", lambda: 0)
    (tmp_path / "tensorrt.py").write_text("raise SystemExit('must not be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineUnavailableError, match="starts only beside a GPU"):
        parser_refusals("tensorrt", [model("y = Abs(a)")])
