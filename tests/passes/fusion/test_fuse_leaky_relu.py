import numpy as np

from tests.tables import each_of, pass_cases

HEAD = "(float[N] x) => (float[?] y)"


@each_of("maximum", "Max(x, t)", "Max(t, x)")
@each_of("factor", 0.1, 0.5, 0.999)
def test_fires(maximum, factor, rewrites):
    special = [np.nan, np.inf, -np.inf, -0.0, 0, 1e-40, -1e-40, -1, 1, 3e38, -3e38]
    rewrites(
        f"{HEAD} <float c = {{{factor}}}> {{ t = Mul(x, c) y = {maximum} }}",
        f"{HEAD} {{ y = LeakyRelu<alpha = {factor}>(x) }}",
        feeds=[{"x": np.tile(np.float32(special), 4)}],
    )


test_cases = pass_cases("""
zero: =f'{HEAD} <float c = {{{0}}}> {{ t = Mul(x, c) y = Max(x, t) }}'
negative: =f'{HEAD} <float c = {{{-0.5}}}> {{ t = Mul(x, c) y = Max(x, t) }}'
above-one: =f'{HEAD} <float c = {{{1.5}}}> {{ t = Mul(x, c) y = Max(x, t) }}'
minimum: =f'{HEAD} <float c = {{{0.5}}}> {{ t = Mul(x, c) y = Min(x, t) }}'
read: =f'{HEAD} <float c = {{{0.5}}}> {{ t = Mul(x, c) u = Max(x, t) y = Add(t, u) }}'
three: =f'{HEAD} <float c = {{{0.5}}}> {{ t = Mul(x, c) y = Max(x, t, c) }}'
leaves types without a kernel alone: =f'{HEAD} <float c = {{0.5}}> {{ t = Mul(x, c) y = Max(x,
  t) }}'.replace('float', 'double')
""")
