"""Runs the examples inside rule files: each is a log that must, or must not, fire its rule."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from diagnoser.facts.factbase import FactBase, Sighting
from diagnoser.facts.registry import kinds
from diagnoser.inference.catalog import Catalog, build
from diagnoser.inference.diagnose import Judged, judge_readings
from diagnoser.inference.reading import Reader
from diagnoser.rulebook.compile import compile_pack
from diagnoser.rulebook.load import load
from diagnoser.rulebook.models import Cause, RuleTest

MARK = ">!"


class Failure(NamedTuple):
    """A test that did not go as its rule says."""

    file: str
    rule: str
    test: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}, test {self.test!r}: {self.what}"


class Result(NamedTuple):
    """How many tests ran, and those that failed."""

    ran: int
    failures: list[Failure]


def run_tests(folders: list[Path], only: str | None = None) -> Result:
    """Run the tests of all rules in these folders, or of the one rule ``only``."""
    loaded = load(folders)
    pack, _ = compile_pack(loaded, kinds())
    catalog = build(pack)
    ran, failures = 0, []
    for cause, file in loaded.causes:
        if cause.id not in pack.causes or only not in (None, cause.id):
            continue
        for test in cause.tests:
            ran += 1
            failures += [Failure(file, cause.id, test.name, what) for what in _check(cause, test, catalog)]
    return Result(ran, failures)


def judge_test(test: RuleTest, catalog: Catalog) -> tuple[Judged, list[int]]:
    """The judgement of a test's log, and the numbers of its marked lines."""
    marked, lines = [], []
    for number, line in enumerate(test.log.splitlines(), 1):
        if line.startswith(MARK):
            marked.append(number)
        lines.append(line.removeprefix(MARK).removeprefix(" ") if line.startswith(MARK) else line)
    reader = Reader(catalog, "test")
    reader.feed(("\n".join(lines) + "\n").encode(), 1, last=True)
    return judge_readings([reader.reading], catalog.pack, extra=_extra(test)), marked


def _check(cause: Cause, test: RuleTest, catalog: Catalog) -> Iterator[str]:
    judged, marked = judge_test(test, catalog)
    findings = {finding.rule: finding for finding in judged.diagnosis.findings}
    finding = findings.get(cause.id)
    if not test.fires:
        if finding is not None:
            yield f"fired, though it should not (evidence: {[place.line for place in finding.evidence]})"
        return
    if finding is None:
        yield f"did not fire; fired instead: {', '.join(sorted(findings)) or 'nothing'}"
        return
    shown = {line for place in finding.evidence for line in range(place.line, place.end_line + 1)}
    missing = sorted(set(marked) - shown)
    if missing:
        yield f"line {missing[0]} is marked but is not among the evidence {sorted(shown)}"


def _extra(test: RuleTest) -> FactBase:
    from diagnoser.parsers.gpu_name import gpu_name

    base = FactBase()
    place = Sighting("given", 1, 1, "given by the test")
    if test.gpu is not None:
        base.add(gpu_name(test.gpu.replace("-", " ").upper()), place)
    for fields in test.facts:
        given = dict(fields)
        base.add(kinds()[given.pop("fact")].model_validate(given), place)
    return base
