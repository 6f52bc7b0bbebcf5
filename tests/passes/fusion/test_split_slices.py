from tests.tables import pass_cases

NUMBERS = ", ".join(f"int64[1] n{i} = {{{i}}}" for i in (0, 1, 2, 3, 5))
MORE = "int64[1] last = {-1}, int64[1] big = {9223372036854775807}, int64[2] s = {2, 3}"
HEAD = f"(float[N,5] x) => (float[N,?] a, float[N,?] b) <{NUMBERS}, {MORE}>"
SPLIT = "a, b = Split<axis = 1>(x, s)"


def test_sizes_are_an_attribute_in_older_opsets(rewrites):
    head = f'<ir_version: 7, opset_import: ["" : 12]> g {HEAD}'
    before = "a = Slice(x, n0, n2, n1) b = Slice(x, n2, n5, n1)"
    after = "a, b = Split<axis = 1, split = [2, 3]>(x)"
    rewrites(f"{head} {{ {before} }}", f"{head} {{ {after} }}")


def test_fires_in_bodies(rewrites):
    def of(body):
        return f"""(float[N,5] x, bool c) => (float[N,?] y) <{NUMBERS}, {MORE}> {{
          y = If (c) <
            then_branch = th () => (float[N,?] p) {{ {body} p = Concat<axis = 1>(b, a) }},
            else_branch = el () => (float[N,?] q) {{ q = Identity(x) }}> }}"""

    before = of("a = Slice(x, n0, n2, n1) b = Slice(x, n2, n5, n1)")
    after = of(f"v = Constant<value_ints = [2, 3]>() {SPLIT.replace('s)', 'v)')}")
    rewrites(before, after)


test_cases = pass_cases("""
plain: =f'{HEAD} {{ a = Slice(x, n0, n2, n1) b = Slice(x, n2, n5, n1) }}' | =f'{HEAD} {{
  {SPLIT} }}'
swapped: =f'{HEAD} {{ b = Slice(x, n2, big, last) a = Slice(x, n0, n2, n1, n1) }}' | =f'{HEAD}
  {{ {SPLIT} }}'
gap: =f'{HEAD} {{ a = Slice(x, n0, n2, n1) b = Slice(x, n3, n5, n1) }}'
shared: =f'{HEAD} {{ a = Slice(x, n0, n3, n1) b = Slice(x, n2, n5, n1) }}'
steps: =f'{HEAD} {{ a = Slice(x, n0, n5, n1, n2) b = Relu(x) }}'
unknown-size: =f"{HEAD.replace('[N,5]', '[N,M]')} {{ a = Slice(x, n0, n2, n1) b = Slice(x, n2,
  n5, n1) }}"
one: =f'{HEAD} {{ a = Slice(x, n0, n5, n1) b = Relu(x) }}'
""")
