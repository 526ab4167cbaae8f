"""The postmortem of an incident, as Markdown or as one self-contained HTML page."""

from functools import partial
from typing import Any

from diagnoser.report import markup
from diagnoser.report.postmortem import charts
from diagnoser.report.postmortem.chain import drawn, leads_to, mermaid
from diagnoser.report.postmortem.content import Postmortem
from diagnoser.report.postmortem.excerpt import Excerpt
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
    template = _environment(html=False).get_template("postmortem.md.j2")
    text: str = template.render(**_given(found), fenced=_fenced, mermaid=mermaid(found.links))
    return text.rstrip() + "\n"


def as_html(found: Postmortem) -> str:
    """One file without network: light, dark, printable; everything from documents is escaped."""
    proof, split = found.proof, found.regression and found.regression.attribution
    measure = found.regression and found.regression.measure
    template = _environment(html=True).get_template("postmortem.html.j2")
    text: str = template.render(
        **_given(found),
        sections=SECTIONS,
        chain=_svg(drawn(found.links, dict(found.titles))),
        speed=_svg(charts.speed(found.series, found.moments)),
        waterfall=_svg(charts.waterfall(split, measure.metric) if split and measure else None),
        runs=_svg(charts.runs(proof.launches, proof.metric) if proof else None),
        effect=_svg(charts.effect(proof.looks) if proof else None),
    )
    return text


def _given(found: Postmortem) -> dict[str, Any]:
    from diagnoser.report.regression import headline, left_over

    split = found.regression and found.regression.attribution

    return {
        "it": found,
        "percent": _percent,
        "leads": partial(leads_to, links=found.links, titles=dict(found.titles)),
        "compared": headline(found.regression) if found.regression else None,
        "left": left_over(found.regression) if found.regression and split else None,
        "version": __version__,
    }


def _svg(drawing: str | None) -> Any:
    """What draws escapes its texts itself."""
    from markupsafe import Markup

    return Markup(drawing) if drawing else None


def _fenced(excerpt: Excerpt) -> str:
    lines = [f"{'>' if row.hit else ' '} {row.number:>6}  {row.text}" for row in excerpt.rows]
    fence = "`" * max(3, 1 + max(map(markup.longest_run, lines), default=0))
    return "\n".join([fence, *lines, fence])


def _within(text: str) -> str:
    """Prose inside a line, where no digit or sign can begin a list or a heading."""
    return markup.plain(f"x {text}")[2:]


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _environment(*, html: bool) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("diagnoser.report.postmortem"),
        autoescape=html,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=html,
        lstrip_blocks=html,
    )
    environment.filters.update(plain=markup.plain, within=_within, code=markup.code)
    return environment
