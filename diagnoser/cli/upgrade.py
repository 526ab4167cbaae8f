"""`diagnose upgrade --from VERSIONS --to VERSIONS`: what a change of versions will break or slow down."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from diagnoser.cli.output import fail, give

if TYPE_CHECKING:
    from diagnoser.agent.upgrade import Upgrade
    from diagnoser.compare.defaults import Default

PROGRAM = "diagnose upgrade"
SCHEMA = "diagnoser/upgrade/1"
MAX_SHOWN = 8


def run(arguments: list[str]) -> int:
    """Exit code 0: nothing breaks by the packages alone; 1: something does; 2: wrong call."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Say what a change of versions will break or slow down, from the rules, before anybody makes it.",
        epilog="exit code: 0 the packages fit each other, 1 something breaks or is slower, 2 wrong call\n\nexample:\n"
        "  diagnose upgrade --from sglang==0.5.5,torch==2.8.0 --to sglang==0.5.9,torch==2.9.1 --gpu 'RTX PRO 6000'",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument(
        "--from",
        dest="before",
        required=True,
        metavar="VERSIONS",
        help="name==version,... or a file with a pip list",
    )
    options.add_argument(
        "--to", dest="after", required=True, metavar="VERSIONS", help="likewise; what it does not name stays"
    )
    options.add_argument(
        "--gpu", metavar="NAME", help="such as 'NVIDIA RTX PRO 6000 Blackwell Server Edition'"
    )
    options.add_argument(
        "--model", metavar="CLASS", help="the class in config.json, such as KimiK25ForConditionalGeneration"
    )
    options.add_argument("-f", "--format", choices=("text", "json"), default="text")
    options.add_argument("-o", "--output", metavar="FILE", help="write the answer to FILE instead")
    options.add_argument(
        "--all", action="store_true", help="everything that can happen then, not only the worst"
    )
    chosen = options.parse_args(arguments)
    from diagnoser.agent.session import DEFAULTS, CallError, catalog_of
    from diagnoser.agent.upgrade import upgrade

    try:
        found = upgrade(chosen.before, chosen.after, chosen.gpu, chosen.model, DEFAULTS)
    except CallError as error:
        return fail(str(error), PROGRAM)
    causes = catalog_of(DEFAULTS).pack.causes
    if chosen.format == "json":
        text = json.dumps(_as_json(found, causes), indent=2) + "\n"
    else:
        text = "\n".join(_lines(found, causes, everything=chosen.all)) + "\n"
    sentence = give(text, chosen.output)
    return fail(sentence, PROGRAM) if sentence else int(bool(found.advice.breaks))


def _lines(found: "Upgrade", causes: Mapping[str, Mapping[str, Any]], *, everything: bool) -> Iterator[str]:
    changed = [
        f"{name} {found.before.get(name, 'not there')} -> {version}"
        for name, version in found.after.items()
        if found.before.get(name) != version
    ]
    yield f"Upgrade: {', '.join(changed) or 'nothing changes'}"
    advice = found.advice
    for words, rules in (
        ("Breaks, by the packages alone", advice.breaks),
        ("Cured, by the packages alone", advice.cured),
        ("Can happen then and could not before; a log would show it", advice.watch),
        ("Cannot happen any more", advice.safe),
    ):
        if not rules:
            continue
        yield from ("", words)
        for rule in rules if everything else rules[:MAX_SHOWN]:
            cause = causes[rule]
            yield f"  {cause['severity']:<8} {rule}: {cause['title']}"
            if rules is advice.breaks or rules is advice.watch:
                yield from (f"           fix: {fix}" for fix in _fixes(cause)[:1])
        if not everything and len(rules) > MAX_SHOWN:
            yield f"  and {len(rules) - MAX_SHOWN} more (--all)"
    if found.defaults:
        yield from ("", "Defaults that move")
        for default, old, new in found.defaults:
            yield f"  {default}: {old} -> {new} ({default.moves}{_where(default)})"
    if not any(advice) and not found.defaults:
        yield "No rule knows of a difference that matters."


def _where(default: "Default") -> str:
    limits = [*sorted(default.archs or ()), *([f"{default.attention} models"] if default.attention else [])]
    return f"; on {', '.join(limits)}" if limits else ""


def _fixes(cause: Mapping[str, Any]) -> list[str]:
    from diagnoser.inference.fixes import fix_text

    return [fix_text(fix, {}).command for fix in cause["fixes"]]


def _as_json(found: "Upgrade", causes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    def rows(rules: tuple[str, ...]) -> list[dict[str, Any]]:
        return [
            {
                "rule": rule,
                "title": causes[rule]["title"],
                "severity": causes[rule]["severity"],
                "effect": causes[rule]["effect"],
                "why": causes[rule]["why"],
                "references": list(causes[rule]["references"]),
            }
            for rule in rules
        ]

    return {
        "schema": SCHEMA,
        "before": found.before,
        "after": found.after,
        **{name: rows(rules) for name, rules in found.advice._asdict().items()},
        "defaults": [
            {
                "name": str(default),
                "before": old,
                "after": new,
                "moves": default.moves,
                "archs": sorted(default.archs or ()),
                "attention": default.attention,
            }
            for default, old, new in found.defaults
        ],
    }
