"""Of a model that repeats itself, what is rare is tried first, and never believed."""

import numpy as np
import onnx_ir as ir

from onnx_passes.bench.reducing import Reducer, reduce
from onnx_passes.bench.reducing.candidates import CheckOutcome, Status
from tests.tables import model_of

BLOCK = ("Abs", "Tanh", "Neg", "Sigmoid")


def kept(found):
    return [node.op_type for node in found.model.graph]


def test_a_kind_that_occurs_once_is_found_in_few_checks(parts_of, chain, operators):
    model = chain(*BLOCK * 5, "Sin", *BLOCK * 5, "Cos", *BLOCK * 5)
    check = operators("Sin", "Cos")
    found = Reducer(parts_of(model), check).run()
    assert kept(found) == ["Sin", "Cos"]
    assert check.judged == [62, 2, 1, 1]


def test_a_fault_that_is_not_rare_is_found_all_the_same(boundary_of, chain):
    model = chain(*BLOCK * 4, "Sin", *BLOCK * 4)

    class Third:
        """Fails for the Neg of the third block, which only its name distinguishes from
        others."""

        width, text, reads_values = 2, "third", False

        def judge(self, candidate, number):
            names = {value.name for node in candidate.model.graph for value in node.outputs}
            return CheckOutcome(Status.BAD if "v10" in names else Status.GOOD)

    found = reduce(model, Third(), boundary_of(model))
    assert [node.outputs[0].name for node in found.model.graph] == ["v10"]


def test_candidates_made_at_a_time_hold_the_weights_of_the_model(boundary_of):
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal(400).astype(np.float32) for i in range(40)}
    chain = ["v0 = Mul(x, w0)", *(f"v{i} = Mul(v{i - 1}, w{i})" for i in range(1, 40))]
    chain[20] = "v20 = Sin(v19)"
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[N, 400] x) => (float[N, 400] v39) {{ {" ".join(chain)} }}"""
    model = ir.from_proto(model_of(text, **weights))

    class Weights:
        """Fails where a certain weight is, and notes those that are not as they were."""

        width, text, reads_values = 4, "weights", False

        def __init__(self):
            self.wrong = []

        def judge(self, candidate, number):
            proto = candidate.render(lambda tensor, initializer: tensor)
            held = ir.from_proto(proto).graph.initializers
            self.wrong += [
                name
                for name, value in held.items()
                if not np.array_equal(value.const_value.numpy(), weights[name])
            ]
            return CheckOutcome(Status.BAD if "w30" in held else Status.GOOD)

    check = Weights()
    found = reduce(model, check, boundary_of(model))
    assert check.wrong == []
    assert [node.outputs[0].name for node in found.model.graph] == ["v30"]
    assert found.model.graph.inputs[0].dtype is ir.DataType.FLOAT
    assert list(found.model.graph.inputs[0].shape) == ["N", 400]
