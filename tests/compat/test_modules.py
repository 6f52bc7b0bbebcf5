"""What the files of the seed system import, they find."""

import importlib
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from onnxscript import FLOAT, script
from onnxscript import opset18 as op

import onnx_passes
from onnx_passes import compat
from onnx_passes.cli.main import program
from onnx_passes.ops.bodies import QONNX_ALIASES
from onnx_passes.passes.registry import lookup
from tests.tables import each_of, each_row


@each_of("name", *sorted(compat.MODULES))
def test_each_of_its_modules_imports_and_no_file_hides_it(name):
    importlib.import_module(name)
    path = Path(onnx_passes.__file__).parents[1] / name.replace(".", "/")
    assert not path.with_suffix(".py").exists()
    assert not (path / "__init__.py").exists()


def test_names_are_those_that_clients_import():
    from onnx_passes.ops.inverse_swish import InverseSilu, InverseSwish
    from onnx_passes.ops.qonnx import BREVITAS_DOMAIN, DOMAIN, Quant
    from onnx_passes.passes.imports.qonnx import ImportQonnx
    from onnx_passes.passes.inline.qonnx import InlineQonnx
    from onnx_passes.passes.streamline.algebraic._properties import _Commutative
    from onnx_passes.passes.util import get_const_or_none, is_constant
    from onnx_passes.traits.pooling_operators import is_pooling
    from onnx_passes.traits.reduction_operators import REDUCTIONS, is_reduction

    assert (DOMAIN, BREVITAS_DOMAIN) == QONNX_ALIASES
    assert [ImportQonnx, InlineQonnx] == [*lookup("import-qonnx"), *lookup("inline-qonnx")]
    assert [op.name for op in (InverseSilu, InverseSwish, Quant)] == [
        *("InverseSilu", "InverseSwish", "Quant")
    ]
    assert is_pooling("MaxPool")
    assert is_reduction(REDUCTIONS[0])
    assert _Commutative.commute
    assert get_const_or_none(None) is None
    assert callable(is_constant)


def test_what_it_does_not_have_is_not_there():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("onnx_passes.passes.fusion.gelus")


def test_a_class_in_them_is_the_pass_of_that_name():
    from onnx_passes.passes.fusion.silu import FuseSilu

    assert [FuseSilu] == lookup("fuse-silu")
    with pytest.raises(ImportError, match="FuseTea"):
        from onnx_passes.passes.fusion.silu import FuseTea  # noqa: F401


def test_ranges_are_those_of_constants_of_metadata_and_of_types():
    from onnx_passes.passes.annotation.range import _get_range

    constant = ir.Value(name="c", const_value=ir.tensor([1.0, 3.0]))
    assert all(np.array_equal(end, [1, 3]) for end in _get_range(constant))
    noted = ir.Value(name="v", type=ir.TensorType(ir.DataType.FLOAT))
    noted.metadata_props["range"] = "[-2.0, [0.5, 1.5]]"
    low, high = _get_range(noted)
    assert low == -2
    assert np.array_equal(high, [0.5, 1.5])
    low, high = _get_range(ir.Value(name="i", type=ir.TensorType(ir.DataType.INT8)))
    assert (int(low), int(high)) == (-128, 127)
    assert _get_range(ir.Value(name="unknown")) == (None, None)


def test_nodes_are_the_same_if_they_call_one_operator_alike(graph):
    from onnx_passes.passes.streamline.reorder.concat import _is_same_op

    model = graph(
        "float[2] x",
        "float[2] y",
        "a = LeakyRelu<alpha = 0.5>(x) b = LeakyRelu<alpha = 0.5>(a) "
        "c = LeakyRelu<alpha = 0.25>(b) y = Relu(c)",
    )
    first, second, other, relu = model.graph
    assert _is_same_op(first, second)
    assert _is_same_op(None, None)
    assert not _is_same_op(first, other)
    assert not _is_same_op(first, relu)
    assert not _is_same_op(first, None)


def test_models_are_isomorphic_whatever_their_names(graph):
    from onnx_passes.utils.networkx import is_isomorphic

    first = graph("float[2] x", "float[2] y", "a = Relu(x) y = Neg(a)")
    assert is_isomorphic(first, graph("float[2] x", "float[2] y", "b = Relu(x) y = Neg(b)"))
    assert not is_isomorphic(first, graph("float[2] x", "float[2] y", "y = Neg(x)"))


def test_a_model_is_evaluated_with_its_own_operators(graph):
    from onnx_passes.passes.runtime import evaluate_model

    model = graph("float[2] x", "float[2] y", "a = Relu(x) y = Neg(a)")
    node = next(iter(model.graph))
    node.op_type, node.domain = "Silu", "onnx_passes.ops"
    x = np.array([1, -1], np.float32)
    outputs, context = evaluate_model(model, [x], full_context_dump=True, providers=[])
    expected = x / (1 + np.exp(-x))
    np.testing.assert_allclose(outputs[0], -expected, rtol=1e-6)
    np.testing.assert_allclose(context["a"], expected, rtol=1e-6)
    assert set(context) == {"a", "y"}
    assert len(model.graph.outputs) == 1


@each_row("""module | names
- passes | cleanup eliminate fusion imports inline lowering streamline convert
- passes.base | PassBase InPlacePass RewritePass RewriteRuleSet remove_unused_nodes
- passes.compose | is_isomorphic
- ops | InjectCustomOps
- traits.elementwise | is_elementwise ELEMENTWISE_UNARY ELEMENTWISE_NARY
- traits.pooling | is_pooling POOLING
- traits.reduction | is_reduction REDUCTIONS
- tests.base | PassesTestBase
- __main__ | main
""")
def test_names_that_modules_of_the_seed_system_have(module, names):
    found = importlib.import_module(f"onnx_passes.{module}")
    assert all(hasattr(found, name) for name in names.split())
    assert not hasattr(found, "nothing_of_this_name")


def test_tests_of_passes_written_beside_the_seed_system_run():
    from onnx_passes.tests.base import PassesTestBase

    class Sums(PassesTestBase):
        __passes__ = ("gather-terms",)

        @staticmethod
        @script(default_opset=op)
        def __model__(x: FLOAT["N"]) -> FLOAT["N"]:  # noqa: F821
            return op.Add(
                op.Add(x, op.Constant(value_float=0.25)), op.Constant(value_float=1.5)
            )

        @staticmethod
        @script(default_opset=op)
        def __expected__(x: FLOAT["N"]) -> FLOAT["N"]:  # noqa: F821
            return op.Add(x, op.Constant(value_float=1.75))

        @staticmethod
        def __inputs__():
            return [np.array([0.5, 2], np.float32)]

    Sums().test_apply_and_verify()
    Sums().test_isomorphic_to_expected()
    Sums.__expected__ = Sums.__model__
    with pytest.raises(AssertionError):
        Sums().test_isomorphic_to_expected()


def test_a_file_of_state_is_answered_by_what_the_option_means(tmp_path):
    (tmp_path / "state.pkl").write_bytes(b"")
    done = CliRunner().invoke(
        program, ["m.onnx", "cleanup", "-s", str(tmp_path / "state.pkl")]
    )
    assert "a file of state, which -s is in the seed system" in done.exception.help
