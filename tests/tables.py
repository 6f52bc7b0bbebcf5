"""Tables of cases as text, and models as text with weights that are arrays."""

import ast
import re
import sys

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnx_passes.passes import register, verify
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.testing import parse


def each_of(names, *rows, **options):
    """Run a test on each row, as ``parametrize`` does; each row is an argument."""
    return pytest.mark.parametrize(names, rows, **options)


def each_row(text):
    """Run a test on each case of a table; its first line has the names of the arguments."""
    names, rows = text.split("\n", 1)
    return each_of(names.replace(" |", ","), *cases(rows, sys._getframe(1).f_globals))


def cases(text, names=None):
    """Read a table for ``parametrize``: a case a line, ``id: cell | cell``, or behind a dash.

    Indented lines continue a case. A cell is text whose white space does not matter, or behind
    ``=`` an expression, which may use the names that are given: those of the module, if none.
    """
    names = sys._getframe(1).f_globals if names is None else names
    rows = (" ".join(row.split()) for row in re.split(r"\n(?! )", text.strip("\n")))
    return [
        pytest.param(*(cell(each, names) for each in cells.split(" | ")), id=name or None)
        for name, cells in (re.match(r"(?:- |(.*?): )(.*)", row).groups() for row in rows)
    ]


def cases_in(frame=str, make=None):
    """Make a test of a pass by a table of what stands in a frame: see ``pass_cases``."""
    names = sys._getframe(1).f_globals
    return lambda text: pass_cases(text, frame, make, names)


def pass_cases(text, frame=str, make=None, names=None):
    """Make a test of a pass by a table: two cells are before and after, one is unchanged.

    Behind ``>`` are the operators of the result in order, behind ``>~`` those without
    constants, and behind ``=`` is an expression. A case may have no id. A cell that does not
    begin as a model does is given to ``frame``. The pass is the one that the file is named
    after, or what ``make`` returns.
    """
    names = names or sys._getframe(1).f_globals
    rows = [" ".join(row.split()) for row in re.split(r"\n(?! )", text.strip("\n"))]
    pairs = [re.fullmatch(r"(?:([^(<=|]+): )?(.*)", row).groups() for row in rows]

    @pytest.mark.parametrize(
        "models", [pytest.param(row.split(" | "), id=name or None) for name, row in pairs]
    )
    def check(models, rewrites, applied, leaves_alone):
        before, *after = models
        given = [*([make()] if make else []), model(before)]
        if not after:
            leaves_alone(*given)
        elif after[0].startswith(">"):
            sign, *wanted = after[0].split()
            made = (rewrites if isinstance(given[-1], str) else applied)(*given)
            assert (kinds(made) if sign == ">~" else [n.op_type for n in made.graph]) == wanted
        else:
            rewrites(*given, model(after[0]))

    def model(text):
        if text.startswith("="):
            return cell(text, names)
        return text if re.match(r"<ir|\([a-z0-9]+(\[| [a-z])", text) else frame(text)

    return check


def inferred(text):
    """Return the model of a text, with the types and shapes that can be inferred."""
    model = parse(text)
    infer_shapes(model)
    return model


def outputs_of(engine, model, feeds):
    """Run a model once."""
    with engine.prepare(model) as session:
        return session.run(feeds)


def kinds(model):
    """Return the operators of a graph in order, without constants."""
    return [node.op_type for node in model.graph if node.op_type != "Constant"]


def cell(text, names):
    return eval(text[1:], names or {}) if text.startswith("=") else text


QONNX = """<ir_version: 10, opset_import: ["" : 20, "qonnx.custom_op.general" : 1,
"onnx.brevitas" : 1, "onnx_passes.ops" : 1]> main """


def qonnx(graph):
    """Write a graph behind a header that imports the domains; ``q.`` and ``o.`` are short."""
    short = graph.replace("q.", "qonnx.custom_op.general.")
    return QONNX + short.replace("o.", "onnx_passes.ops.")


def model_of(text, **weights):
    """Return the model of a text, with arrays as initializers."""
    model = onnx.parser.parse_model(text)
    for name, array in weights.items():
        tensor = onnx.numpy_helper.from_array(np.asarray(array), name)
        model.graph.initializer.append(tensor)
    return model


def rule_pass(name, text, contract=verify.equality, **options):
    """Register a pass of one rule, ``Relu(x) => Max(x, least) when x.producer()``.

    Calls of names with a capital make nodes. What else the pattern names are its values, which
    the rest may read, as it may read ``self``, which has the options.
    """
    names = sys._getframe(1).f_globals
    text, _, condition = text.partition(" when ")
    before, after = re.sub(r"(?<![\w.])([A-Z]\w*)\(", r"op.\1(", text).split(" => ")
    parts = [*ast.walk(ast.parse(before, mode="eval"))]
    inner = {"op", *(part.arg for part in parts if isinstance(part, ast.arg))}
    values = {part.id for part in parts if isinstance(part, ast.Name)} - inner
    outputs = [part.value for part in parts if getattr(part, "arg", None) == "_outputs"]
    results = {name for each in outputs for name in ast.literal_eval(each)}

    def method(expression, values):
        return eval(f"lambda self, op, {', '.join(values)}: {expression}", names)

    members = {"__doc__": f"{text}.", "__module__": names["__name__"], **options}
    members |= {"__annotations__": {key: type(value) for key, value in options.items()}}
    members |= {"pattern": method(before, values), "rewrite": method(after, values | results)}
    members |= {"check": method(condition or "True", values | results)}
    cls = type(name, (Transformation, RewriteRulePass), members)
    return register()(contract(cls))


def edit_pass(contract=verify.equality):
    """Register a pass, named as a function is, that edits a model as the function does.

    A function that returns False has changed nothing.
    """

    def made(function):
        def call(self, model):
            return ir.passes.PassResult(model, modified=function(model) is not False)

        members = {
            "call": call,
            "__doc__": function.__doc__,
            "__module__": function.__module__,
        }
        name = "".join(word.capitalize() for word in function.__name__.split("_"))
        return register()(contract(type(name, (Transformation,), members)))

    return made
