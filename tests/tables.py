"""Tables of cases as text, and models as text with weights that are arrays."""

import re
import sys

import numpy as np
import onnx.parser
import pytest


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


def pass_cases(text, frame=str, make=None):
    """Make a test of a pass by a table: two cells are before and after, one is unchanged.

    A case may have no id. What a cell lacks of a model is put around it by ``frame``. The pass
    is the one that the file is named after, or what ``make`` returns.
    """
    rows = [" ".join(row.split()) for row in re.split(r"\n(?! )", text.strip("\n"))]
    pairs = [re.fullmatch(r"(?:([^(<=|]+): )?(.*)", row).groups() for row in rows]

    @pytest.mark.parametrize(
        "models", [pytest.param(row.split(" | "), id=name or None) for name, row in pairs]
    )
    def check(models, rewrites, leaves_alone):
        given = [make()] if make else []
        (rewrites if len(models) == 2 else leaves_alone)(*given, *map(frame, models))

    return check


def cell(text, names):
    return eval(text[1:], names or {}) if text.startswith("=") else text


def model_of(text, **weights):
    """Return the model of a text, with arrays as initializers."""
    model = onnx.parser.parse_model(text)
    for name, array in weights.items():
        tensor = onnx.numpy_helper.from_array(np.asarray(array), name)
        model.graph.initializer.append(tensor)
    return model
