"""Assertions on passes whose result need not be spelt out."""

import onnx
import onnx_ir as ir
import pytest

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.base import Pass
from onnx_passes.passes.registry import lookup
from onnx_passes.verify.snapshot import Change, Snapshot
from tests.tables import qonnx


@pytest.fixture
def on_subject(request):
    """Give a check the pass that the file of a test is named after, if it is given none."""

    def complete(check):
        def call(*given, **options):
            if not isinstance(given[0], Pass):
                name = request.path.stem.removeprefix("test_").replace("_", "-")
                given = (lookup(name)[0](), *given)
            return check(*given, **options)

        return call

    return complete


@pytest.fixture
def rewrites(on_subject):
    """Apply a pass that must fire, and check all that it owes; returns the new model.

    Where no expected graph is given, everything but the graph is checked.
    """

    @on_subject
    def check(pass_, before, after=None, *, feeds=None):
        if after is not None:
            model = testing.assert_rewrites(pass_, before=before, after=after, feeds=feeds)
        else:
            model = testing.parse(before)
            original = Snapshot(model)
            assert pass_(model).modified, f"{pass_.name} did not fire"
            testing.assert_verified(pass_, original, model, feeds=feeds)
            once = Snapshot(model)
            again = pass_(once.restore())
            assert not again.modified, f"{pass_.name} fires on its own output"
            assert once.change(again.model) is Change.NONE
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
        return model

    return check


@pytest.fixture
def leaves_alone(on_subject):
    """Apply a pass that must report no change and make none; returns the model."""

    @on_subject
    def check(pass_, text):
        model = text if isinstance(text, ir.Model) else testing.parse(text)
        testing.assert_leaves_alone(pass_, model)
        return model

    return check


@pytest.fixture
def applied(on_subject):
    """Apply a pass where types are known, and check what it owes; None if it does nothing."""

    @on_subject
    def check(pass_, model):
        model = testing.parse(model) if isinstance(model, str) else model
        infer_shapes(model)
        before = Snapshot(model)
        if not pass_(model).modified:
            return None
        testing.assert_verified(pass_, before, model)
        return model

    return check


@pytest.fixture
def text():
    return qonnx
