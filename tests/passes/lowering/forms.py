"""Forms of operators that lowering passes are tried on."""

from tests.tables import each_of

WINDOWS = [
    "<kernel_shape = [2, 2]>",
    "<kernel_shape = [2, 2], strides = [2, 3]>",
    "<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>",
    "<kernel_shape = [2, 3], strides = [3, 3], ceil_mode = 1, pads = [0, 1, 0, 1]>",
    "<kernel_shape = [3, 2], dilations = [2, 3]>",
    '<kernel_shape = [3, 3], auto_pad = "SAME_UPPER", strides = [2, 2]>',
    '<kernel_shape = [3, 2], auto_pad = "SAME_LOWER", strides = [2, 2]>',
    '<kernel_shape = [3, 2], auto_pad = "VALID", strides = [2, 2]>',
    "<kernel_shape = [1, 3]>",
    "<kernel_shape = [1, 1]>",
]
"""Windows of a pool over two axes."""


def elementwise(call, since, kinds, *more, types=("float", "float16"), old=None):
    """Make a test: a call becomes operators, of all types, and other calls go as well.

    ``since`` is the first opset, ``kinds`` what the call becomes, ``more`` are other calls.
    Functions stay as they are, and opset ``old``.
    """
    operator = call.partition("(")[0]

    @each_of("form", call, *more)
    def check(form, lowers_elementwise, lowers, leaves_functions_alone, leaves_alone):
        assert operator not in lowers_elementwise(form, since, types=types)
        if form == call:
            assert " ".join(lowers(model(call, since))) == kinds
            leaves_functions_alone(call, max(since, 20))
            if old is not None:
                leaves_alone(model(call, old))

    return check


def model(call, opset, dtype="float"):
    """Write a model of one call."""
    header = f'<ir_version: {10 if opset > 20 else 8}, opset_import: ["" : {opset}]> g'
    return f"{header} ({dtype}[2,N] x) => ({dtype}[2,N] y) {{ y = {call} }}"
