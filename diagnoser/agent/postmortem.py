"""From a diagnosis to its postmortem: the lines around the evidence, and the experiment that proved the fix."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from diagnoser.agent.session import CallError, Options, catalog_of
from diagnoser.compare.regression import Regression
from diagnoser.experiment import journal
from diagnoser.inference.diagnose import Judged
from diagnoser.inference.documents import name_documents
from diagnoser.inference.ruled_out import ruled_out
from diagnoser.report.postmortem import SUFFIXES, as_html, as_markdown
from diagnoser.report.postmortem.content import Around, gather
from diagnoser.report.postmortem.excerpt import MAX_LINE, Context
from diagnoser.report.postmortem.proof import Proof, proof_from
from diagnoser.sources import Source, Unreadable, printable, redaction

NEAR = 2
"""How many lines before and behind the evidence are shown."""


class Order(NamedTuple):
    """A postmortem that was asked for.

    call: the words of the command, without those that say where the answer goes. paths: files of the call. again: the
    sources once more, for the lines around the evidence. journal: of the experiment that proved the fix. regression:
    the comparison with a time when all was well.
    """

    target: Path
    call: Sequence[str]
    paths: Sequence[str] = ()
    again: Iterable[Source | Unreadable] = ()
    journal: Path | None = None
    regression: Regression | None = None


def check(target: Path, journal_file: Path | None) -> Proof | None:
    """What can be wrong with a call before anything is read. Raises `CallError`."""
    if target.suffix not in SUFFIXES:
        raise CallError(f"--report {target}: the name must end in {' or '.join(SUFFIXES)}")
    return _proof(journal_file) if journal_file else None


def write(judged: Judged, order: Order, options: Options) -> str:
    """The text of the postmortem, HTML or Markdown by the target's suffix. Raises `CallError`."""
    proof = check(order.target, order.journal)
    pack = catalog_of(options).pack
    considered = {one.rule: one for part in judged.parts for one in ruled_out(pack, part.case)}
    around = Around(
        order.call,
        order.paths,
        _context(judged, order.again),
        list(considered.values()),
        proof,
        order.regression,
    )
    found = gather(judged, around)
    return as_html(found) if order.target.suffix == ".html" else as_markdown(found)


def _context(judged: Judged, again: Iterable[Source | Unreadable]) -> Context:
    """The lines around every cause's evidence, read again; what can be read only once has none."""
    source_of = _sources(judged)
    wanted: dict[str, set[tuple[str, int]]] = {}
    for finding in judged.diagnosis.causes:
        for place in finding.evidence:
            name = source_of.get(place.document, place.document)
            wanted.setdefault(name, set()).add((place.document, place.line))
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for source in again if wanted else ():
        if isinstance(source, Source) and source.name in wanted:
            lines = _lines(source, {line for _, line in wanted[source.name]})
            for document, line in wanted[source.name]:
                near = range(line - NEAR, line + NEAR + 1)
                found[document, line] = [(number, lines[number]) for number in near if number in lines]
    return found


def _sources(judged: Judged) -> dict[str, str]:
    """Document -> the source that holds it; a paste holds several."""
    readings = [one.reading for part in judged.parts for one in part.group]
    return {document.read.document: document.source for document in name_documents(readings).documents}


def _lines(source: Source, places: set[int]) -> dict[int, str]:
    needed = {line + step for line in places for step in range(-NEAR, NEAR + 1)}
    last = max(needed)
    found: dict[int, str] = {}
    for chunk in source.chunks():
        if chunk.first_line > last:
            break
        many = chunk.data.count(b"\n") + 1
        if not any(chunk.first_line <= number < chunk.first_line + many for number in needed):
            continue
        data = bytearray(chunk.data)
        redaction.redact(data)
        for number, line in enumerate(bytes(data).removesuffix(b"\n").split(b"\n"), chunk.first_line):
            if number in needed:
                text = printable(line.decode("utf-8", "replace"))
                found[number] = text[:MAX_LINE] + ("..." if len(text) > MAX_LINE else "")
    return found


def _proof(file: Path) -> Proof:
    """An experiment from its journal. Raises `CallError`."""
    try:
        events = journal.read(file)
    except OSError as error:
        raise CallError(f"--proof {file}: {error.strerror}") from None
    try:
        proof = proof_from([event for event in events if isinstance(event, dict)], file.name)
    except (KeyError, TypeError, ValueError, AttributeError):
        proof = None
    if proof is None:
        raise CallError(
            f"--proof {file}: this is no journal of an experiment with a verdict, as confirm writes"
        )
    return proof
