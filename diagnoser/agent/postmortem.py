"""From a diagnosis to its postmortem: the lines around the evidence, and the experiment that proved the fix."""

from collections.abc import Sequence
from pathlib import Path

from diagnoser.agent.session import CallError
from diagnoser.experiment import journal
from diagnoser.inference.diagnose import Judged
from diagnoser.report.postmortem import SUFFIXES, as_html, as_markdown
from diagnoser.report.postmortem.content import Context, Proof, gather
from diagnoser.sources import Source, open_sources, printable, redaction

NEAR = 2
"""How many lines before and behind the evidence are shown."""

MAX_LINE = 400


def write(judged: Judged, target: Path, given: Sequence[str], journal_file: Path | None = None) -> str:
    """The text of the postmortem, HTML or Markdown by the target's suffix. Raises `CallError`."""
    if target.suffix not in SUFFIXES:
        raise CallError(f"--report {target}: the name must end in {' or '.join(SUFFIXES)}")
    found = gather(judged, _context(judged, given), given, _proof(journal_file) if journal_file else None)
    return as_html(found) if target.suffix == ".html" else as_markdown(found)


def _context(judged: Judged, given: Sequence[str]) -> Context:
    """The lines around every root's evidence, read again; what can be read only once has none."""
    wanted: dict[str, set[int]] = {}
    for finding in judged.diagnosis.causes:
        for place in finding.evidence:
            wanted.setdefault(place.document, set()).add(place.line)
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    again = [path for path in given if path != "-" and Path(path).exists()]
    for source in open_sources(again):
        if isinstance(source, Source) and source.name in wanted:
            lines = _lines(source, wanted[source.name])
            for line in wanted[source.name]:
                near = [
                    (number, lines[number])
                    for number in range(line - NEAR, line + NEAR + 1)
                    if number in lines
                ]
                if near:
                    found[source.name, line] = near
    return found


def _lines(source: Source, places: set[int]) -> dict[int, str]:
    needed = {line + step for line in places for step in range(-NEAR, NEAR + 1)}
    last = max(needed)
    found: dict[int, str] = {}
    for chunk in source.chunks():
        if chunk.first_line > last:
            break
        data = bytearray(chunk.data)
        redaction.redact(data)
        for number, line in enumerate(bytes(data).split(b"\n"), chunk.first_line):
            if number in needed:
                found[number] = printable(line.decode("utf-8", "replace"))[:MAX_LINE]
    return found


def _proof(file: Path) -> Proof:
    """The end of an experiment from its journal. Raises `CallError`."""
    try:
        events = journal.read(file)
    except OSError as error:
        raise CallError(f"--proof {file}: {error.strerror}") from None
    looks = [event for event in events if isinstance(event, dict) and event.get("event") == "look"]
    planned = next(
        (event for event in events if isinstance(event, dict) and event.get("event") == "planned"), None
    )
    if planned is None or not looks:
        raise CallError(
            f"--proof {file}: this is no journal of an experiment with a verdict, as confirm writes"
        )
    last = looks[-1]
    arms: dict[str, list[float]] = {}
    for event in events:
        if event.get("event") == "measured":
            arms.setdefault(str(event["arm"]), []).extend(round(float(value), 4) for value in event["values"])
    words = (
        f"{last['verdict']}: {planned['change']} changes {planned['workload']} by {float(last['effect']):+.1%} "
        f"[{float(last['low']):+.1%}, {float(last['high']):+.1%}]"
    )
    return Proof(words, str(planned.get("metric", planned["workload"])), arms)
