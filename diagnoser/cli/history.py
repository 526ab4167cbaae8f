"""`diagnose history`: what was kept with --save, and what the newest result is against its past."""

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diagnoser.cli.output import fail, give

if TYPE_CHECKING:
    from diagnoser.compare.history.entry import Entry, Kept, Service
    from diagnoser.compare.history.store import History

PROGRAM = "diagnose history"
MAX_LISTED = 40
MAX_IMPORT = 1 << 30

EPILOG = """\
exit code:
  0 done; with `test`: nothing is slower than usual    1 `test`: the newest result of a service is slower than usual
  2 wrong call, or the history cannot be used

examples:
  diagnose server.log --save --save-as before-upgrade
  diagnose bench http://localhost:30000 --save
  diagnose history plot --model kimi-k2.5-int4
  diagnose history baseline 14                stands for its host, model and workload from now on
  diagnose --baseline history: today.log      held against that baseline; history:14 and names work too
"""


def run(arguments: list[str]) -> int:
    """See the epilog for exit codes."""
    options = _parser().parse_args(arguments or ["list"])
    from diagnoser.agent.session import CallError
    from diagnoser.compare.history.store import History, HistoryError, default_path

    try:
        sentence = _COMMANDS[options.command](History(default_path()), options)
    except (HistoryError, CallError) as error:
        return fail(str(error), PROGRAM)
    return sentence if isinstance(sentence, int) else fail(sentence, PROGRAM)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="List, plot, test, export and import the results that were kept with --save.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, words: str, *, filters: bool = False) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, help=words, description=f"{words[0].upper()}{words[1:]}.", allow_abbrev=False
        )
        if filters:
            for field in ("name", "host", "model", "workload"):
                added.add_argument(
                    f"--{field}", metavar="TEXT", help=f"only results whose {field} holds this"
                )
        return added

    listed = command("list", "what is kept, by host, model and workload", filters=True)
    listed.add_argument("--all", action="store_true", help=f"more than the last {MAX_LISTED}")
    command("plot", "the figures of each service over time, in the terminal", filters=True)
    command("test", "hold the newest result of each service against its past", filters=True)
    command("show", "one result with everything that is kept of it, as JSON").add_argument("number", type=int)
    command("baseline", "let a result stand for its host, model and workload").add_argument(
        "number", type=int
    )
    command("remove", "forget a result").add_argument("number", type=int)
    added = command("add", "keep results that are there already: of benchmark tools, logs, bundles")
    added.add_argument("paths", nargs="+", metavar="PATH")
    for field in ("name", "host", "model", "workload"):
        added.add_argument(f"--{field}", metavar="TEXT", help="told, where the result does not tell it")
    exported = command("export", "everything as JSON", filters=True)
    exported.add_argument("-o", "--output", metavar="FILE", help="write it to FILE instead")
    command("import", "take in what `export` wrote; what is kept already stays").add_argument(
        "file", metavar="FILE"
    )
    return parser


def _chosen(history: "History", options: argparse.Namespace) -> list["Kept"]:
    wanted = {field: getattr(options, field) for field in ("name", "host", "model", "workload")}
    return [
        one
        for one in history.all()
        if all(text is None or text in (getattr(one.entry, field) or "") for field, text in wanted.items())
    ]


def _list(history: "History", options: argparse.Namespace) -> int:
    from diagnoser.report.history import as_list

    found = _chosen(history, options)
    if not found:
        print("Nothing is kept. `diagnose server.log --save` and `diagnose bench URL --save` keep results.")
        return 0
    shown = found if options.all else found[-MAX_LISTED:]
    print(as_list(shown), end="")
    if len(shown) < len(found):
        print(f"and {len(found) - len(shown)} earlier ones (--all)")
    return 0


def _by_service(found: Sequence["Kept"]) -> "Mapping[tuple[Service, str], list[Kept]]":
    """Results that can be held against each other: of one service and one metric, in time."""
    groups: dict[tuple[Service, str], list[Kept]] = {}
    for one in found:
        if one.entry.metric is not None and one.entry.values:
            groups.setdefault((one.entry.service, one.entry.metric), []).append(one)
    return groups


def _plot(history: "History", options: argparse.Namespace) -> int | str:
    from diagnoser.agent.history import past_of
    from diagnoser.report.history import as_chart, shifts

    groups = {
        key: series for key, series in _by_service(_chosen(history, options)).items() if len(series) > 1
    }
    if not groups:
        return "there are no two results of one service and metric to plot"
    width = min(shutil.get_terminal_size().columns, 120)
    for (service, _), series in groups.items():
        past = past_of(series, series[-1].number)
        print(as_chart(service, series, past, width, 16))
        for line in shifts(past, series):
            print(line)
    return 0


def _test(history: "History", options: argparse.Namespace) -> int | str:
    from diagnoser.agent.history import past_of
    from diagnoser.report.history import sentence, shifts
    from diagnoser.sources import label

    slower = False
    groups = _by_service(_chosen(history, options))
    if not groups:
        return "nothing with a figure is kept that could be tested"
    for (service, metric), series in groups.items():
        past = past_of(series, series[-1].number)
        slower = slower or past.word == "slower"
        print(label(f"{service}: number {series[-1].number}: {sentence(past, metric)}"))
        for line in shifts(past, series):
            print(f"  {line}")
    return int(slower)


def _show(history: "History", options: argparse.Namespace) -> int | str:
    from diagnoser.sources import escaped

    found = history.get(options.number)
    if found is None:
        return f"there is no result {options.number}; see `diagnose history`"
    print(escaped(found.entry.model_dump_json(indent=2)))
    return 0


def _baseline(history: "History", options: argparse.Namespace) -> int | str:
    from diagnoser.sources import label

    service = history.set_baseline(options.number)
    if service is None:
        return f"there is no result {options.number}; see `diagnose history`"
    print(label(f"Number {options.number} is the baseline of {service}."))
    return 0


def _remove(history: "History", options: argparse.Namespace) -> int | str:
    return (
        0
        if history.remove(options.number)
        else f"there is no result {options.number}; see `diagnose history`"
    )


def _add(history: "History", options: argparse.Namespace) -> int | str:
    from diagnoser.agent.history import Told, keep
    from diagnoser.report.history import sentence

    told = Told(options.name, options.host, options.model, options.workload)
    # All are read before any is kept: one that cannot be read leaves nothing half-done.
    for path, entry in [(path, _entry(path, told)) for path in options.paths]:
        number, past = keep(entry)
        print(f"{path}: kept as {number}; {sentence(past, entry.metric)}")
    return 0


def _entry(path: str, told: object) -> "Entry":
    from diagnoser.agent.history import Told, of_benchmark, of_diagnosis
    from diagnoser.agent.regression import read_side
    from diagnoser.agent.session import DEFAULTS, CallError

    assert isinstance(told, Told)
    side, measured = read_side([path], DEFAULTS)
    if measured:
        return of_benchmark(measured, Path(path).stat().st_mtime, told, side.judged)
    if side.judged is None:
        raise CallError(f"{path}: it holds nothing that can be kept")
    return of_diagnosis(side.judged, told)


def _export(history: "History", options: argparse.Namespace) -> int | str:
    from diagnoser.compare.history.entry import Exported
    from diagnoser.sources import escaped

    found = _chosen(history, options)
    baselines = [one.entry.digest for one in found if one.baseline]
    text = Exported(entries=[one.entry for one in found], baselines=baselines).model_dump_json(
        by_alias=True, indent=1
    )
    return give(escaped(text) + "\n", options.output) or 0


def _import(history: "History", options: argparse.Namespace) -> int | str:
    from pydantic import ValidationError

    from diagnoser.compare.history.entry import Exported

    path = Path(options.file)
    try:
        if path.stat().st_size > MAX_IMPORT:
            return f"{path}: it is larger than {MAX_IMPORT >> 30} GiB; export less at a time"
        said = Exported.model_validate_json(path.read_bytes())
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its text"
        return f"{path}: this is no export of a history: {where}: {first['msg']}; nothing was taken in"
    new = history.merge(said.entries, said.baselines)
    print(f"{new} new results; {len(said.entries) - new} were kept already.")
    return 0


_COMMANDS: Mapping[str, Callable[["History", argparse.Namespace], int | str]] = {
    "list": _list,
    "plot": _plot,
    "test": _test,
    "show": _show,
    "baseline": _baseline,
    "remove": _remove,
    "add": _add,
    "export": _export,
    "import": _import,
}
