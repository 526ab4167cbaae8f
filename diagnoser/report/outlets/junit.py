"""A diagnosis as JUnit XML: every cause is a test that failed, every document that was read one that passed."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from diagnoser.inference.diagnosis import Diagnosis, Finding
from diagnoser.report.outlets.words import file_of, headline
from diagnoser.sources import printable
from diagnoser.version import __version__


class Failure(NamedTuple):
    """A test that failed. kind: what its class is named by. file, line: where it shows."""

    name: str
    kind: str
    message: str
    text: str
    file: str | None = None
    line: int | None = None


def render(diagnosis: Diagnosis) -> str:
    """One suite in the form that CI servers read (testsuites, testsuite, testcase, failure)."""
    documents = [one.document for one in diagnosis.coverage]
    failures = [failure_of(one) for one in diagnosis.causes]
    return suite("diagnose", failures, documents, diagnosis.unreadable, headline(diagnosis))


def failure_of(finding: Finding) -> Failure:
    """A finding as a test that failed, its lines and fixes as the text."""
    lines = [finding.summary, ""]
    lines += [f"{place.document}:{place.line}: {place.text}" for place in finding.evidence]
    lines += [f"fix: {fix.command} (risk {fix.risk})" for fix in finding.fixes]
    message = f"{finding.title} ({finding.confidence:.0%}, {finding.severity})"
    first = finding.evidence[0] if finding.evidence else None
    return Failure(
        finding.rule,
        finding.effect,
        message,
        "\n".join(lines),
        file_of(first.document) if first else None,
        first.line if first else None,
    )


def suite(
    name: str, failures: Sequence[Failure], passed: Sequence[str], errors: Sequence[str], words: str
) -> str:
    """passed: names of tests that passed. errors: sentences about what could not be judged. words: the answer."""
    tests = len(failures) + len(passed) + len(errors)
    counts = {"tests": str(tests), "failures": str(len(failures)), "errors": str(len(errors))}
    root = Xml.Element("testsuites", counts | {"name": name})
    one = Xml.SubElement(root, "testsuite", counts | {"name": name, "skipped": "0", "time": "0"})
    properties = Xml.SubElement(one, "properties")
    for key, value in (("diagnoser", __version__), ("headline", words)):
        Xml.SubElement(properties, "property", {"name": key, "value": _text(value)})
    for failure in failures:
        case = _case(one, f"{name}.{failure.kind}", failure.name)
        if failure.file is not None:
            case.set("file", _text(failure.file))
            case.set("line", str(failure.line))
        said = Xml.SubElement(case, "failure", {"message": _text(failure.message), "type": failure.kind})
        said.text = "\n".join(map(_text, failure.text.split("\n")))
    for test in passed:
        _case(one, f"{name}.read", test)
    for sentence in errors:
        case = _case(one, f"{name}.read", sentence)
        Xml.SubElement(case, "error", {"message": _text(sentence), "type": "unreadable"})
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _case(parent: Xml.Element, kind: str, name: str) -> Xml.Element:
    return Xml.SubElement(
        parent, "testcase", {"classname": kind, "name": _text(name) or "(no name)", "time": "0"}
    )


def _text(text: str) -> str:
    """XML 1.0 forbids most control characters, lone surrogates and two code points; they become visible escapes."""
    return "".join(one if _legal(one) else ascii(one)[1:-1] for one in printable(text))


def _legal(letter: str) -> bool:
    code = ord(letter)
    return letter == "\t" or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
