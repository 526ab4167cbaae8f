"""The postmortem of an incident, as Markdown or as one self-contained HTML page."""

from collections.abc import Iterator
from typing import Any

from diagnoser.facts.base import Evidence
from diagnoser.report import markup
from diagnoser.report.postmortem import charts
from diagnoser.report.postmortem.content import Context, Postmortem
from diagnoser.sources import label
from diagnoser.version import __version__

SUFFIXES = (".md", ".html")

SECTIONS = (
    ("impact", "Impact"),
    ("timeline", "Timeline"),
    ("cause", "Root cause"),
    ("proof", "Proof"),
    ("ruled-out", "Ruled out"),
    ("prevention", "Prevention"),
    ("questions", "Open questions"),
    ("appendix", "Appendix"),
)


def as_markdown(found: Postmortem) -> str:
    """Text that shows exactly what the documents say, whatever characters are in it."""

    def fenced(place: Evidence) -> str:
        lines = [
            f"{'>' if hit else ' '} {number:>6}  {text}" for number, text, hit in around(place, found.context)
        ]
        fence = "`" * max(3, 1 + max(map(markup.longest_run, lines), default=0))
        return "\n".join([fence, *lines, fence])

    template = _environment(html=False).get_template("postmortem.md.j2")
    text: str = template.render(it=found, percent=_percent, fenced=fenced)
    return text.rstrip() + "\n"


def as_html(found: Postmortem) -> str:
    """One file without network: light, dark, printable; everything from documents is escaped."""
    from markupsafe import Markup

    speed = charts.speed(found.series, found.moments)
    arms = charts.intervals(found.proof.arms, found.proof.metric) if found.proof else None
    template = _environment(html=True).get_template("postmortem.html.j2")
    text: str = template.render(
        it=found,
        percent=_percent,
        around=lambda place: list(around(place, found.context)),
        sections=SECTIONS,
        # The library escapes the texts in its charts.
        speed=Markup(speed) if speed else None,
        arms=Markup(arms) if arms else None,
        version=__version__,
    )
    return text


def around(place: Evidence, context: Context) -> Iterator[tuple[int, str, bool]]:
    """The lines around a place, each with its number and whether it is the evidence."""
    lines = context.get((place.document, place.line))
    if not lines:
        first, *rest = place.text.splitlines() or [""]
        yield place.line, label(first), True
        yield from ((place.line + number, label(text), True) for number, text in enumerate(rest, 1))
        return
    for number, text in lines:
        yield number, label(text), place.line <= number <= place.end_line


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _environment(*, html: bool) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("diagnoser.report.postmortem"),
        autoescape=html,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters.update(plain=markup.plain, code=markup.code)
    return environment
