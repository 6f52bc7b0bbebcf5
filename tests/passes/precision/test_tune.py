import onnx_ir as ir

from onnx_passes.passes.precision.tune import Tune
from tests.passes.precision.samples import sampled

CONFIG = {
    "verify": {"metrics": {"kl_divergence": [0, 0.001]}},
    "tune": {"formats": ["int8-weights", "int4-gptq"], "objective": "size"},
}


def size(model):
    return sum(v.const_value.nbytes for v in model.graph.initializers.values())


def tuned(model, images, config=CONFIG, **options):
    pass_ = sampled(Tune(config, **options), {"image": images})
    return pass_.call(model), pass_.context.notes


def test_a_cheaper_model_within_the_budget_takes_the_place(digits, images, run):
    model, original = digits(21), digits(21)
    result, notes = tuned(model, images)
    assert result.modified
    assert result.model is model
    assert size(model) < 0.3 * size(original)
    assert run(model, {"image": images})[0].shape == (len(images), 10)
    assert [v.name for v in model.graph.outputs] == [v.name for v in original.graph.outputs]
    assert any("int4-gptq" in note or "int8-weights" in note for note in notes)


def test_the_accuracy_over_all_data_is_left_to_the_end_of_the_run(digits, images):
    verify = CONFIG["verify"] | {"accuracy": "1 %"}
    result, _ = tuned(digits(21), images, CONFIG | {"verify": verify})
    assert result.modified


def test_a_model_with_functions_is_tuned(images, digits):
    model = digits(21)
    x = ir.val("x", dtype=ir.DataType.FLOAT)
    node = ir.node("Relu", [x])
    body = ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 21})
    model.functions[("own", "Act", "")] = ir.Function("own", "Act", graph=body, attributes=[])
    model.graph.opset_imports["own"] = 1
    for relu in [n for n in model.graph if n.op_type == "Relu"]:
        relu.op_type, relu.domain = "Act", "own"
    result, _ = tuned(model, images)
    assert result.modified
    assert not model.functions
