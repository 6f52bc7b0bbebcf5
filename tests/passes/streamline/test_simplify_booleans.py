from tests.tables import cases_in

HEAD = """(bool[N] a, bool[N] b) => (bool[N] y) <bool t = {1}, bool f = {0}> """
BITS = "(uint8[N] a, uint8[N] b) => (uint8[N] y) <uint8 t = {255}, uint8 f = {127}> "


test_cases = cases_in(lambda body: HEAD + "{ " + body + " }")("""
c = Not(a) d = Not(b) y = And(c, d) | > Or Not
c = Not(a) d = Not(b) y = Or(c, d) | > And Not
c = Not(a) d = Not(b) y = Xor(c, d) | > Xor
c = Not(a) y = Xor(b, c) | > Xor Not
y = Xor(t, a) | > Not
=BITS + '{ c = BitwiseNot(a) d = BitwiseNot(b) y = BitwiseOr(c, d) }' | > BitwiseAnd BitwiseNot
=BITS + '{ y = BitwiseXor(a, t) }' | > BitwiseNot
=HEAD + '{ c = Not(a) d = Not(b) e = And(c, d) y = Or(e, c) }'
=HEAD + '{ y = Xor(a, f) }'
=BITS + '{ y = BitwiseXor(a, f) }'
""")
