"""What made the later side different: as text and Markdown. JSON: `report.regression_json`."""

import math
from collections.abc import Iterator

from diagnoser.compare.attribution import Share
from diagnoser.compare.effects import effect_text
from diagnoser.compare.regression import Cause, Regression
from diagnoser.compare.speeds import Speed, in_words
from diagnoser.report import markup
from diagnoser.sources import label

MAX_CONTEXT = 12
MAX_FIXES = 2
MAX_SPEEDS = 4
MAX_MOMENTS = 6

_UNITS = {
    "decode_tok_s": "tok/s decoded",
    "output_tok_s": "output tok/s",
    "prefill_tok_s": "tok/s of prompts",
    "ttft_ms": "ms to the first token",
    "accept_len": "tokens accepted a step",
    "step_ms": "ms a step",
    "decode_ms_per_token": "ms a token",
}


def as_text(found: Regression, *, everything: bool = False) -> str:
    """What a person reads. everything: the differences that no rule ties to speed too."""
    lines = [label(line) for line in _lines(found, everything)]
    return "\n".join(lines) + "\n"


def _lines(found: Regression, everything: bool) -> Iterator[str]:
    yield headline(found)
    yield f"  before   {found.before}"
    yield f"  after    {found.after}"
    for change in found.speeds:
        for speed in change.speeds[: None if everything else MAX_SPEEDS]:
            yield (
                f"  {speed.metric}{load(speed)}: {speed.before:g} -> {speed.after:g} "
                f"({speed.after / speed.before - 1:+.1%}; {speed.lines[0]} and {speed.lines[1]} lines)"
            )
    yield from (f"  server   {one.metric} {one.before:g} -> {one.after:g}" for one in found.behaviour)
    yield from (
        f"  load     {one.metric} {one.before:g} -> {one.after:g}: the traffic changed too"
        for one in found.load
    )
    yield from (f"  within   {moment}" for moment in found.moments[:MAX_MOMENTS])
    seen = found.attribution is None or found.attribution.carries_over
    shares = {share.rule: share for share in found.attribution.shares} if found.attribution else {}
    for cause in found.came:
        yield from _cause(cause, shares.get(cause.finding.rule), "came", seen)
    for cause in found.went:
        yield from _cause(cause, shares.get(cause.finding.rule), "went", seen)
    if not found.came and found.word in ("slower", "does not start"):
        yield from ("", "No known cause came with the change.")
    told = found.attribution is not None and bool(found.attribution.shares) and seen
    if told or (found.attribution is not None and found.word == "slower"):
        yield from ("", f"  left     {left_over(found)}")
    if found.shared:
        yield f"  on both  {', '.join(found.shared)}: no reason for the change"
    if found.context:
        yield from ("", "Context: differences that rules read, though none fires for them")
        for difference, rules in found.context[: None if everything else MAX_CONTEXT]:
            read_by = f"   ({', '.join(rules[:2])}{' ...' if len(rules) > 2 else ''})" if rules else ""
            yield f"  {difference}{read_by}"
        if not everything and len(found.context) > MAX_CONTEXT:
            yield f"  and {len(found.context) - MAX_CONTEXT} more"
    if found.folded or found.innocent:
        yield from ("", _harmless(found) if everything else f"{_harmless(found)} (--all shows them)")
        if everything:
            yield from (f"  {one}" for one in found.folded)
            yield from (f"  not it: {one.title} ({one.rule})" for one in found.innocent)
    yield from (f"note: {note}" for note in found.notes)


def _harmless(found: Regression) -> str:
    parts = []
    if found.folded:
        parts.append(
            f"{len(found.folded)} difference{'s' * (len(found.folded) > 1)} that no rule ties to speed"
        )
    if found.innocent:
        several = len(found.innocent) > 1
        looks = "messages that look" if several else "message that looks"
        parts.append(
            f"{len(found.innocent)} new {looks} guilty and {'are' if several else 'is'} known not to be"
        )
    return ", ".join(parts)


def headline(found: Regression) -> str:
    """One sentence with the number and its interval."""
    if found.word == "does not start":
        return "AFTER does not start, BEFORE did"
    if found.measure is None:
        return "The two sides cannot be compared in speed"
    one = found.measure
    unit = _UNITS.get(one.metric, one.metric)
    at = load(one.at) if one.at else ""
    return f"{found.word.capitalize()}: {one.before:.4g} -> {one.after:.4g} {unit}{at}, {effect_text(*one.interval)}"


def load(speed: Speed) -> str:
    """Under which load, as in " at 4 running with 1k to 4k tokens each"."""
    return in_words((speed.running, speed.context))


def _cause(cause: Cause, share: Share | None, when: str, seen: bool) -> Iterator[str]:
    one = cause.finding
    yield ""
    title = one.title if when == "came" else f"Gone: {one.title}"
    yield f"{title}  {one.confidence:.0%}"
    yield f"  {one.rule} · {one.effect.replace('_', ' ')} · {one.severity}"
    if share is not None and share.effect is not None:
        yield (
            f"  share    {_share(share)}  (measured {share.measured})"
            if seen
            else f"  share    not as where it was measured ({share.measured})"
        )
    elif share is not None:
        yield "  share    not known: nobody has measured it alone"
    yield from (f"  differs  {difference}" for difference in cause.differences[:4])
    yield from (f"  proof    {place.document}:{place.line}  {place.text[:160]}" for place in one.evidence[:2])
    if when == "came":
        for fix in one.fixes[:MAX_FIXES]:
            yield f"  fix      {fix.command}"
    if cause.one_sided:
        yield "  unsure   the other side holds nothing that would show it, so it may be old"


def _share(share: Share) -> str:
    assert share.effect is not None
    low, high = share.effect - share.half, share.effect + share.half
    return effect_text(math.expm1(share.effect), math.expm1(low), math.expm1(high))


def left_over(found: Regression) -> str:
    """What the shares leave unexplained, with its interval, and whether that is claimed."""
    assert found.attribution is not None
    split = found.attribution
    interval = (
        math.expm1(split.left), math.expm1(split.left - split.left_half), math.expm1(split.left + split.left_half),
    )  # fmt: skip
    left = effect_text(*interval)
    if not any(share.effect is not None for share in split.shares):
        return f"{left}: the whole change; no measured gain speaks for a part of it"
    words = f"{left} unexplained"
    if not split.carries_over:
        return (
            f"{left} to be explained: the shares come to more than was seen, so either they are smaller "
            "under this load than where they were measured, or something else made up for them"
        )
    if split.exceeds:
        words += "; the shares come to more than was seen, so something made up for a part of them"
    if split.left_is_noise:
        words += "; one launch on a side cannot tell that from nothing, so it is not claimed"
    return words


def as_markdown(found: Regression) -> str:
    """The text as Markdown: for issues and chats."""
    lines = [f"## {markup.plain(headline(found))}", ""]
    for cause in (*found.came, *found.went):
        one = cause.finding
        gone = "Gone: " if cause in found.went else ""
        lines.append(
            f"- **{markup.plain(gone + one.title)}** ({markup.code(one.rule)}, {one.confidence:.0%})"
        )
        lines += [f"  - {markup.code(str(difference))}" for difference in cause.differences[:4]]
        lines += [f"  - {markup.code(place.text[:160])}" for place in one.evidence[:1]]
        lines += [f"  - fix: {markup.code(fix.command)}" for fix in one.fixes[:1] if not gone]
    if found.attribution is not None:
        for share in found.attribution.shares:
            if share.effect is not None:
                lines.append(f"- share of {markup.code(share.rule)}: {_share(share)}")
        lines.append(f"- left: {markup.plain(left_over(found))}")
    lines += [f"- {markup.plain(str(moment))}" for moment in found.moments[:MAX_MOMENTS]]
    if found.context:
        lines += ["", "Context:", ""] + [f"- {markup.code(str(one))}" for one, _ in found.context]
    if found.folded or found.innocent:
        lines += ["", f"{_harmless(found)}."]
    return "\n".join(lines) + "\n"
