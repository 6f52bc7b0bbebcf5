"""Formulas of dimensions agree with Python, and no text of a model ends a run."""

import math
import random
import re
from fractions import Fraction

import onnx_ir as ir

from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.inputs.dimensions import names_in, size_of
from tests.tables import each_of

HALVED = "height"
for _ in range(40):
    HALVED = f"floor({HALVED}/2 - 1/2)"


def ceiling_of(value):
    return Fraction(math.ceil(value))


def floor_of(value):
    return Fraction(math.floor(value))


def random_formula(rng, depth):
    """Return a formula that Python reads, too."""
    kind = rng.randrange(8) if depth else 0
    one, other = (random_formula(rng, depth - 1) for _ in range(2)) if depth else ("", "")
    match kind:
        case 0 | 1:
            return rng.choice(["n", "m", " n ", "1", "2", "7", "n.dim_1"])
        case 2 | 3:
            return f"{one}{rng.choice(['+', ' - ', '*', '/', ' // ', '%'])}{other}"
        case 4:
            return f"-{one}"
        case 5:
            return f"({one})**{rng.choice(['2', '-1', '(n % 3)'])}"
        case 6:
            return f"{rng.choice(['Max', 'min', 'Mod'])}({one}, {other})"
        case _:
            return f"{rng.choice(['floor', 'ceiling', 'max '])}({one})"


def evaluate_with_python(formula, sizes):
    names = {"Max": max, "max": lambda *a: max(a), "min": min, "floor": floor_of}
    names |= {"Mod": lambda a, b: a % b, "ceiling": ceiling_of}
    names |= {name: Fraction(size) for name, size in sizes.items()}
    for number in "127":
        formula = formula.replace(f"_{number}", "_one").replace(number, f"Fraction({number})")
    try:
        value = eval(
            formula.replace("n.dim_one", "dotted").strip(), {"Fraction": Fraction}, names
        )
    except (ZeroDivisionError, TypeError):
        return None
    return int(value) if value.denominator == 1 and value >= 0 else None


def test_random_formulas_agree_with_python():
    rng = random.Random(7)
    sizes = {"n": 9, "m": 4, "n.dim_1": 5}
    known = 0
    for _ in range(2000):
        formula = random_formula(rng, 4)
        expected = None  # numbers alone are a name, which nobody has given a size
        if re.search(r"\b[nm]\b", formula):
            expected = evaluate_with_python(formula, {"n": 9, "m": 4, "dotted": 5})
        assert size_of(formula, sizes) == expected, formula
        known += expected is not None
    assert known > 400


@each_of(
    "formula",
    *("n + 1", "Min(6, n)", "Max(6, 2*n - 4)", "n//2*2", "n%4 + 1", "floor(n/2 - 1/2)"),
    *("Mod(n, 4)", "sqrt(n)", "n**2", "(n + 7)//8*8", "-n + 20", "a.b_1*2"),
)
def test_formulas_agree_with_sympy(formula):
    sizes = {"n": 9, "a.b_1": 3}
    assert size_of(formula, sizes) == ir.SymbolicDim(formula).evaluate(sizes)
    assert names_in(formula) == sorted(ir.SymbolicDim(formula).free_symbols())


@each_of(
    "name",
    "",
    " ",
    "(" * 10_000 + "n" + ")" * 10_000,
    "(" * 2000 + "n" + ")" * 2000,
    "-" * 3001 + "n",
    "1**" * 1000 + "n",
    "(" * 2000 + "n" + ")" * 1999,
    "n" + ")" * 2000,
    "floor(" * 500 + "n",
    "n " * 2000,
    "n" * 100_000,
    "height_" * 20_000 + "!",
    "n+" * 2000,
    "1" * 10_000,
    "n*" + "9" * 19,
    *("n // 0", "n % (n - n)", "0**-1", "9**9**9**9", "2**n**n", "(-1)**(1/2)", "sqrt(2)"),
    *("sqrt(-4)", "Max()", "floor(n, n)", "Mod(n)", "print(n)", "(n, n)", "n[0]", "3d_size"),
    *("n - 10", "n/2", "größe/2", "二*n", "²*n", "٣*n", "n\x00", "__import__('os')"),
    "*" * 4000,
    "2" + "*2" * 64,
    *("3", "007", "9223372036854775808", "-1", "2*3", "Max(2, 3)"),
)
def test_a_name_that_gives_no_size_is_unknown(name):
    assert size_of(name, {"n": 9}) is None
    assert all(names_in(name)) or name == ""


def test_a_formula_without_a_size_is_an_unknown_size(parse):
    model = parse("g (float[n] x, float[m] z) => (float[k] y) { y = Concat<axis = 0>(x, z) }")
    for formula in ("n//0", "n - 1000", "n/7", "9**9**9**9", "(" * 2000):
        model.graph.inputs[1].shape = ir.Shape([formula])
        assert all(feeds["z"].size for feeds in generate(model))


def test_a_name_of_a_result_that_is_a_number_fixes_no_size(parse):
    model = parse("g (float[?] x, float[?] z) => (float[k] y) { y = Add(x, z) }")
    model.graph.outputs[0].shape = ir.Shape(["3"])
    assert all(feeds["x"].shape == feeds["z"].shape != (3,) for feeds in generate(model))
