"""Version ranges, three-valued."""

import pytest
from packaging.version import Version

from diagnoser.inference.case import interval
from diagnoser.inference.truth import Truth
from diagnoser.inference.versions import interval_within, outside, parse, within


@pytest.mark.parametrize(
    ("version", "spec", "truth"),
    [
        ("0.5.9", ">=0.5.5,<0.5.11", Truth.YES),
        ("0.5.11", ">=0.5.5,<0.5.11", Truth.NO),
        ("0.4.6.post5", ">=0.4.6.post5", Truth.YES),
        ("0.21.1rc1.dev323+g1fc2cee50", ">=0.21.1", Truth.YES),
        ("2.9.1+cu130", "==2.9.1", Truth.YES),
        ("595.91.07", ">=595.84", Truth.YES),
        ("unknown", ">=1", Truth.UNKNOWN),
    ],
)
def test_one_version(version: str, spec: str, truth: Truth) -> None:
    assert within(version, spec) is truth


@pytest.mark.parametrize(
    ("low", "high", "spec", "truth"),
    [
        ("0.5.7", "0.5.10", ">=0.5.5,<0.5.11", Truth.YES),
        ("0.5.7", "0.5.12", ">=0.5.5,<0.5.11", Truth.UNKNOWN),
        ("0.5.12", None, ">=0.5.5,<0.5.11", Truth.NO),
        (None, "0.5.4", ">=0.5.5", Truth.NO),
        (None, None, ">=0.5.5", Truth.UNKNOWN),
    ],
)
def test_an_interval(low: str | None, high: str | None, spec: str, truth: Truth) -> None:
    assert interval_within(parse(low) if low else None, parse(high) if high else None, spec) is truth


def test_wordings_narrow_the_version_and_contradictions_say_nothing() -> None:
    said = interval([("0.5.7", None), (None, "0.5.10"), ("0.4.6", "0.5.12")], ["0.5.5", "0.5.7", "0.5.12"])
    assert said == (Version("0.5.7"), Version("0.5.10"), Version("0.5.5"), Version("0.5.12"))
    assert interval([("0.5.7", None), (None, "0.5.3")]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("after", "before", "spec", "out"),
    [
        ("0.5.15", None, ">=0.5.5,<0.5.11", True),
        ("0.5.11", None, "<0.5.11", True),
        ("0.5.10", None, "<0.5.11", False),
        (None, "0.5.5", ">=0.5.5", True),
        (None, "0.5.6", ">=0.5.5", False),
        ("0.5.3", None, "==0.5.*", False),
        ("0.6.0", None, "==0.5.*", True),
        (None, "0.5.0", "==0.5.*", True),
        ("0.5.3", "0.5.7", "!=0.5.5", False),
        (None, None, "<0.5.11", False),
    ],
)
def test_releases_that_lack_a_wording_bear_a_range_out(
    after: str | None, before: str | None, spec: str, out: bool
) -> None:
    assert outside(parse(after) if after else None, parse(before) if before else None, spec) is out
