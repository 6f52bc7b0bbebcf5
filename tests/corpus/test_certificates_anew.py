"""A tenth of the certificates, drawn by the day, is made anew: keys do not see everything."""

import random
from datetime import date
from pathlib import Path

import pytest

from onnx_passes.certifying.certificates import read_certificates
from onnx_passes.certifying.certification import certify_apart
from onnx_passes.certifying.rewrite_rule import Job
from onnx_passes.passes.registry import lookup
from tests.tables import each_of

KNOWN = read_certificates(Path(__file__).parents[2] / "certificates")
RULES = [(name, index) for name, lines in sorted(KNOWN.items()) for index in range(len(lines))]
CHANCE = random.Random(date.today().toordinal())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("name, index", *CHANCE.sample(RULES, len(RULES) // 10))
def test_a_rule_has_the_verdict_that_its_certificate_says(name, index):
    line = KNOWN[name][index]
    (cls,) = lookup(name)
    subject = f"{cls.__module__}:{cls.__qualname__}"
    whole = "changed" in line
    found = certify_apart(
        Job(subject, None if whole else index, seconds=600, models=line["asked"])
    )
    assert (found["rule"], found["verdict"]) == (line["rule"], line["verdict"]), found[
        "reason"
    ]
    assert found["contract"] == line.get("contract")
