"""What was judged, as plain data; and judged again from it, by the rules of today.

The facts are kept, not the verdict: rules that were written since see what they would have seen in the text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import Version

from diagnoser.facts import plain
from diagnoser.inference.blocks import Span
from diagnoser.inference.case import Case, Interval
from diagnoser.inference.diagnose import Judged, Part, findings, headline, judge_case, server_state
from diagnoser.inference.diagnosis import Diagnosis, DocumentRead
from diagnoser.inference.documents import Document, Named
from diagnoser.inference.resolve import is_known
from diagnoser.inference.servers import combine
from diagnoser.rulebook.pack import Pack
from diagnoser.version import __version__

_NUMBERED = re.compile(r"#\d+ \([^)]*\)$")


def as_plain(judged: Judged) -> dict[str, Any]:
    """``{"coverage", "parts"}``."""
    return {
        "coverage": [one.model_dump(mode="json") for one in judged.diagnosis.coverage],
        "parts": [_part(part) for part in judged.parts],
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "facts": plain.as_plain(part.case.facts),
        "covered": sorted(part.case.covered),
        "intervals": {
            engine: [None if end is None else str(end) for end in interval]
            for engine, interval in sorted(part.case.intervals.items())
        },
        "last_at": part.case.last_at,
        "started": part.started,
    }


def judge_again(kept: Mapping[str, Any], pack: Pack) -> Judged:
    """Raises ValueError, KeyError or TypeError where the data is not what `as_plain` gives."""
    named = _named([DocumentRead.model_validate(one) for one in kept["coverage"]])
    parts = [judge_case(_case(one), one["started"], pack) for one in kept["parts"]]
    known = [item for part in parts for item in part.ranked if is_known(item, pack.causes)]
    diagnosis = Diagnosis(
        version=__version__,
        headline=headline(known, pack),
        server=server_state(parts),
        findings=combine([findings(part, pack, named) for part in parts]) if parts else [],
        coverage=[document.read for document in named.documents],
    )
    return Judged(parts, diagnosis)


def _case(part: Mapping[str, Any]) -> Case:
    intervals = {
        engine: Interval(*(None if end is None else Version(end) for end in ends))
        for engine, ends in part["intervals"].items()
    }
    facts = plain.from_plain(part["facts"])
    return Case(facts, part["covered"], intervals=intervals, last_at=part["last_at"])


def _named(reads: Sequence[DocumentRead]) -> Named:
    documents = []
    for read in reads:
        source = _NUMBERED.sub("", read.document)
        documents.append(Document(source, Span(read.kind, read.first_line, read.last_line), read))
    return Named(documents)
