"""`diagnose rules`: the rule author's tools."""

import argparse
import difflib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from diagnoser.cli.output import fail, give
from diagnoser.rulebook.book import default_folders, pack_for, rule_file
from diagnoser.sources import printable

MAX_LINE = 1 << 20
"""Letters of a line that are read from standard input."""


def parser() -> argparse.ArgumentParser:
    """Sub-commands and options."""
    options = argparse.ArgumentParser(
        prog="diagnose rules", description="List, show, check and draft rules.", allow_abbrev=False
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--rules", action="append", default=[], metavar="DIR", help="a folder with further rules"
    )
    commands = options.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", parents=[shared], help="all rules, one line each")
    listing.add_argument("--kind", choices=("cause", "symptom", "bystander"))
    listing.add_argument("--json", action="store_true")
    show = commands.add_parser("show", parents=[shared], help="one rule whole")
    show.add_argument("rule")
    lint = commands.add_parser("lint", parents=[shared], help="check rule files")
    lint.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    test = commands.add_parser("test", parents=[shared], help="run the examples inside rule files")
    test.add_argument("rule", nargs="?")
    graph = commands.add_parser("graph", parents=[shared], help="the rule graph")
    graph.add_argument("--format", choices=("dot", "mermaid", "html"), default="dot")
    graph.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the graph here")
    graph.add_argument("rule", nargs="?", help="only what touches this rule")
    judge = commands.add_parser("eval", parents=[shared], help="how good the rules are on labelled cases")
    judge.add_argument(
        "cases", nargs="+", type=Path, metavar="CASES", help="JSON lines; inputs/ lies beside them"
    )
    judge.add_argument("--json", action="store_true")
    judge.add_argument("--misses", action="store_true", help="name every case that is not judged right")
    docs = commands.add_parser("docs", parents=[shared], help="write the catalogue of all rules as Markdown")
    docs.add_argument("-o", "--output", type=Path, metavar="DIR", default=Path("docs/rules"))
    covered = commands.add_parser(
        "coverage", parents=[shared], help="warnings in logs that no message and no parser knows"
    )
    covered.add_argument(
        "logs", nargs="+", metavar="LOG", help="files, folders, globs, archives; - is standard input"
    )
    covered.add_argument("--json", action="store_true")
    covered.add_argument(
        "--limit", type=int, default=50, metavar="N", help="show at most N shapes (default: 50)"
    )
    fit = commands.add_parser(
        "calibrate", parents=[shared], help="fit the numbers behind strong, medium and weak"
    )
    fit.add_argument(
        "cases", nargs="+", type=Path, metavar="CASES", help="JSON lines; inputs/ lies beside them"
    )
    new = commands.add_parser("new", parents=[shared], help="draft a rule from a log line")
    new.add_argument(
        "--from",
        dest="line",
        required=True,
        metavar="LINE",
        help="the line, as pasted; - reads it from standard input",
    )
    new.add_argument("--id", help="the new rule's id")
    new.add_argument("-o", "--output", type=Path, help="write the draft here")
    return options


def run(arguments: list[str]) -> int:
    """Exit code 0, 1 when a check failed, 2 when the call is wrong."""
    options = parser().parse_args(arguments)
    folders = default_folders(tuple(map(Path, options.rules)))
    for folder in folders:
        if not folder.is_dir():
            return _fail(f"{folder}: there is no such folder")
    return _ACTIONS[options.command](options, folders)


def _list(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    causes = pack_for(folders).causes
    chosen = [causes[name] for name in sorted(causes) if options.kind in (None, causes[name]["kind"])]
    if options.json:
        print(
            json.dumps(
                [
                    {key: cause[key] for key in ("id", "kind", "effect", "severity", "title")}
                    for cause in chosen
                ],
                indent=2,
            )
        )
        return 0
    for cause in chosen:
        print(f"{cause['id']:<40} {cause['kind']:<10} {cause['severity']:<9} {cause['title']}")
    return 0


def _show(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    causes = pack_for(folders).causes
    if options.rule not in causes:
        return _unknown(options.rule, causes)
    return _write(None, rule_file(causes[options.rule]).read_text("utf-8"))


def _lint(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.facts.registry import kinds
    from diagnoser.rulebook.lint import lint

    chosen = options.folders or list(folders)
    for folder in chosen:
        if not folder.is_dir():
            return _fail(f"{folder}: there is no such folder")
    problems = lint([Path(folder) for folder in chosen], kinds(), beside=folders)
    for problem in problems:
        print(printable(str(problem)))
    print(f"{len(problems)} problems" if problems else "all rules are well-formed", file=sys.stderr)
    return 1 if problems else 0


def _test(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.inference.ruletest import run_tests

    result = run_tests(list(folders), options.rule)
    if options.rule and not result.ran:
        return _fail(f"there is no rule {options.rule!r}, or it has no tests")
    for failure in result.failures:
        print(failure)
    print(f"{result.ran} tests, {len(result.failures)} failed", file=sys.stderr)
    return 1 if result.failures else 0


def _graph(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.rulebook.graph import as_dot, as_mermaid, rule_graph

    pack = pack_for(folders)
    graph = rule_graph(pack, options.rule)
    if graph is None:
        return _unknown(options.rule, pack.causes)
    if options.format == "html":
        from diagnoser.report.rulegraph import page

        return _write(options.output, page(pack, graph, options.rule))
    return _write(
        options.output, (as_mermaid(graph) if options.format == "mermaid" else as_dot(graph)) + "\n"
    )


def _docs(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.cli.output import write_whole
    from diagnoser.report.catalogue import MARK, catalogue
    from diagnoser.rulebook.load import load

    target: Path = options.output
    pages = catalogue(load(list(folders)), pack_for(folders))
    try:
        target.mkdir(parents=True, exist_ok=True)
        for old in sorted(target.glob("*.md")):
            if old.name not in pages and old.read_text("utf-8", "replace").startswith(MARK):
                old.unlink()
        for name, text in pages.items():
            write_whole(target / name, text)
    except OSError as error:
        return _fail(f"{target}: {error.strerror or error}")
    print(f"{len(pages)} pages written; start with {target / 'index.md'}", file=sys.stderr)
    return 0


def _coverage(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.agent.coverage import coverage
    from diagnoser.agent.session import Options
    from diagnoser.cli.coverage import as_json, as_text
    from diagnoser.cli.progress import Bar

    with Bar(sys.stderr) as bar:
        found = coverage(options.logs, Options(rules=tuple(map(Path, options.rules))), bar.update)
    if not found.sources:
        return _fail("nothing could be read\n  " + "\n  ".join(found.unreadable or ["the input is empty"]))
    print(as_json(found) if options.json else as_text(found, options.limit))
    return 0


def _new(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.inference.catalog import catalog_for
    from diagnoser.inference.draft import DraftError, draft, said_by

    line = _first_line() if options.line == "-" else options.line
    catalog = catalog_for(tuple(map(str, folders)))
    taken = {*catalog.pack.causes, *(message.id for message in catalog.pack.messages)}
    try:
        text = draft(line, options.id, taken)
    except DraftError as error:
        return _fail(str(error))
    known = said_by(line, catalog)
    if known:
        print(f"note: {', '.join(known)} says this line already; a rule can name it", file=sys.stderr)
    if options.output is None:
        return _write(None, text)
    if options.output.exists():
        return _fail(f"{options.output} exists already")
    code = _write(options.output, text)
    if code == 0:
        print(f"{options.output} written; complete it, then run `diagnose rules test`", file=sys.stderr)
    return code


def _first_line() -> str:
    """The first line of standard input that is not blank."""
    return next((line for line in iter(lambda: sys.stdin.readline(MAX_LINE), "") if line.strip()), "")


def _eval(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.agent.evaluation import evaluate_cases, load_cases
    from diagnoser.agent.session import Options
    from diagnoser.cli.evaluation import as_json, as_text

    try:
        cases = load_cases(options.cases)
    except (OSError, ValueError) as error:
        return _fail(str(error))
    report = evaluate_cases(cases, Options(rules=tuple(map(Path, options.rules))))
    print(as_json(report) if options.json else as_text(report, misses=options.misses))
    return 0


def _write(output: Path | None, text: str) -> int:
    """To standard output, or to a file that is there whole or not at all."""
    sentence = give(text, None if output is None else str(output))
    return _fail(sentence) if sentence else 0


def _unknown(rule: str, causes: Iterable[str]) -> int:
    close = difflib.get_close_matches(rule, causes, n=3)
    return _fail(f"there is no rule {rule!r}" + (f"; did you mean {', '.join(close)}?" if close else ""))


def _calibrate(options: argparse.Namespace, folders: tuple[Path, ...]) -> int:
    from diagnoser.agent.calibration import calibrate, collect
    from diagnoser.agent.evaluation import load_cases
    from diagnoser.agent.session import Options

    try:
        cases = load_cases(options.cases)
    except (OSError, ValueError) as error:
        return _fail(str(error))
    fit = calibrate(collect(cases, Options(rules=tuple(map(Path, options.rules)))))
    print(f"# {fit.samples} first roots; cross-validated over threads, before and after:")
    print(f"# calibration error {fit.error_before:.3f} {fit.error_after:.3f}")
    print(f"# mean log loss {fit.loss_before:.3f} {fit.loss_after:.3f}")
    for term, weight in fit.weights.items():
        print(f'    "{term}": {weight:.2f},')
    return 0


def _fail(sentence: str) -> int:
    return fail(sentence, "diagnose rules")


_ACTIONS = {
    "list": _list,
    "show": _show,
    "lint": _lint,
    "test": _test,
    "graph": _graph,
    "eval": _eval,
    "calibrate": _calibrate,
    "new": _new,
    "docs": _docs,
    "coverage": _coverage,
}
