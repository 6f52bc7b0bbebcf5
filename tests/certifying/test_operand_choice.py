import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying.coverage import Plan
from onnx_passes.certifying.operand_choice import Chooser, MatchTraces, RecordedGenerator
from onnx_passes.certifying.template_models import candidates, formed_candidates
from onnx_passes.ops.input_hints import Operand


def _constants(pattern):
    """Return the constants of models of float32 that have what authors forget, by name."""
    rule = RewriteRule(pattern, lambda op, **_: None)
    hits = MatchTraces(np.random.default_rng(0))
    groups = [g for g in formed_candidates(rule, seed=0, hits=hits) if g]
    models = [g[0].model for g in groups if g[0].dtype == ir.DataType.FLOAT]
    held = [m.graph.initializers.values() for m in models]
    return [{v.name: v.const_value.numpy().tolist() for v in values} for values in held]


def _drawn(draws):
    numbers = [int(draws.integers(1000)) for _ in range(20)]
    return [*numbers, draws.random(), *draws.permutation(4).tolist()]


def test_what_was_drawn_is_repeated_but_for_the_places_drawn_anew():
    first = RecordedGenerator(np.random.default_rng(0))
    numbers = _drawn(first)
    again = _drawn(RecordedGenerator(np.random.default_rng(1), tuple(first.trace), changes=1))
    differing = sum(a != b for a, b in zip(numbers[:21], again[:21], strict=True))
    assert differing <= 1


def test_a_number_beside_places_is_of_their_type_and_may_be_the_last_one():
    found = _constants(lambda op, k, x: op.Sub(k, op.ArgMax(x)))
    assert {1, 2} <= {c["k"] for c in found if type(c.get("k")) is int}


def test_booleans_beside_constants_near_the_limits_have_none():
    chooser = Chooser(RecordedGenerator(np.random.default_rng(0)), ir.DataType.INT32, [1.0])
    chooser.plan = Plan(limits=True, form="wraps")
    drawn = [chooser.content(Operand((4,), ir.DataType.BOOL)) for _ in range(9)]
    assert {array.dtype for array in drawn} == {np.dtype(bool)}
    assert {True, False} == {number for array in drawn for number in array.tolist()}


def test_a_slice_may_run_backwards():
    found = _constants(lambda op, x, s, e, a, t: op.Slice(x, s, e, a, t))
    assert [[-1], [-(2**63)], [-1]] in [[c.get(n) for n in "set"] for c in found]


def _drawn_models(groups):
    models = [c.model for group in groups for c in group]
    return [ir.to_proto(m).graph.SerializeToString(deterministic=True) for m in models]


def test_ordinary_models_do_not_depend_on_what_forms_draw(monkeypatch):
    rule = RewriteRule(lambda op, x, a, b: op.Add(op.Add(x, a), b), lambda op, **_: None)

    def drawn():
        hits = MatchTraces(np.random.default_rng(0))
        formed = _drawn_models(formed_candidates(rule, seed=0, hits=hits))
        return _drawn_models(candidates(rule, attempts=30, seed=0, hits=hits)), formed

    ordinary, formed = drawn()
    monkeypatch.setattr("onnx_passes.certifying.template_models.FORMS", ("undoes",))
    again, fewer = drawn()
    assert ordinary == again
    assert 0 < len(fewer) < len(formed)
    assert {*fewer} <= {*formed}
