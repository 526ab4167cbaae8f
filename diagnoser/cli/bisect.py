"""`diagnose bisect`: which difference between a good and a bad configuration costs the speed."""

import argparse
from typing import TYPE_CHECKING, Any

from diagnoser.cli import confirm
from diagnoser.cli.output import fail
from diagnoser.compare.effects import effect_text

if TYPE_CHECKING:
    from diagnoser.experiment.bisect.differences import Difference
    from diagnoser.experiment.bisect.run import Culprit
    from diagnoser.experiment.confirm import Outcome

PROGRAM = "diagnose bisect"

EPILOG = """\
exit code:
  0 found and proven   2 wrong call, or nothing was done   12 not found   13 void or refused
  14 rolled back after an error   15 the original server could not be brought back

examples:
  diagnose bisect --good 'serve --tp 8' --bad 'serve --tp 8 --attention-backend triton --page-size 1' --url URL
  diagnose bisect --good yesterday.log --bad today.log --pid 4711 --url http://localhost:30000 --apply
"""


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Find the difference that costs the speed, in as few restarts as can be: those that the rules "
        "suspect first. Without --apply the differences are told. Afterwards the bad server runs again, as it was.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument(
        "--good", required=True, metavar="LOG|CMD", help="a log, or the command of a server that is fast"
    )
    options.add_argument("--bad", required=True, metavar="LOG|CMD", help="the same of the slow one")
    options.add_argument(
        "--most", type=int, default=20, metavar="N", help="launches at the most (default: 20)"
    )
    confirm.add_server(options)
    confirm.add_load(options)
    confirm.add_consent(options)
    options.set_defaults(chain=False, keep_fix=False)
    return options


def run(arguments: list[str]) -> int:
    """See the epilog for exit codes."""
    options = _parser().parse_args(confirm.joined(arguments))
    from diagnoser.cli.confirm_plan import bisection_of, hands_of, refused
    from diagnoser.experiment.hands import HandsError
    from diagnoser.experiment.journal import BusyError
    from diagnoser.sources.hosts.channel import ChannelError

    try:
        hands = hands_of(options)
        made = bisection_of(options, hands)
        if isinstance(made, str):
            return fail(made, PROGRAM)
        plan, differences, prior = made
        _tell(differences, prior)
        if not options.apply:
            print("\nNothing was done. --apply searches.")
            return 0
        sentence = refused(plan, options, hands)
        if sentence is not None:
            fail(sentence, PROGRAM)
            return confirm.VOID
        from diagnoser.agent.causes import READER
        from diagnoser.experiment.bisect.run import bisect

        outcome, culprit = bisect(plan, differences, prior, options.most, hands, confirm.say, READER)
        return _conclude(outcome, culprit)
    except BusyError as error:
        fail(str(error), PROGRAM)
        return confirm.VOID
    except (ChannelError, HandsError) as error:
        return fail(str(error), PROGRAM)
    except OSError as error:
        return fail(f"{error.filename}: {error.strerror}; nothing was done", PROGRAM)


def _tell(differences: "list[Difference]", prior: list[float]) -> None:
    total = sum(prior) or 1.0
    many = "1 difference" if len(differences) == 1 else f"{len(differences)} differences"
    print(f"{many} that can matter, the most suspected first:")
    for suspicion, one in sorted(zip(prior, differences, strict=True), key=lambda row: -row[0]):
        print(f"  {suspicion / total:4.0%}  {one}")


def _conclude(outcome: "Outcome", culprit: "Culprit | None") -> int:
    from diagnoser.experiment.statistics import Verdict

    codes: dict[Any, int] = {
        Verdict.CONFIRMED: 0, Verdict.INCONCLUSIVE: confirm.INCONCLUSIVE, Verdict.VOID: confirm.VOID,
        None: confirm.ROLLED_BACK,
    }  # fmt: skip
    print()
    if culprit is not None:
        names = " and ".join(one.name for one in culprit.differences)
        if culprit.proven:
            print(f"Found: {names}")
        else:
            print(f"Not found after {culprit.launches} launches; the likeliest is {names}")
        for one in culprit.differences:
            print(f"  {one}")
        if culprit.recovered is not None:
            print(f"  its revert alone brought {culprit.recovered:.0%} of the gap back")
        print(f"  probability {culprit.probability:.0%}, {culprit.launches} launches")
    elif outcome.last is not None:
        found = outcome.last.interval
        print("Nothing to search: the good configuration is not faster here")
        print(f"  {outcome.plan.metric} better by {effect_text(found.effect, found.low, found.high)}")
    if outcome.error:
        print(f"  {outcome.error}")
    if not outcome.restored:
        print("  THE SERVER IS NOT BACK. Try `diagnose confirm --rollback`, or by hand:")
        print(f"  {outcome.plan.launcher.original}")
        return confirm.ROLLBACK_FAILED
    print("  the server runs again as it was")
    return codes[outcome.verdict]
