"""`diagnose schema`: the contracts, as JSON Schema."""

import argparse
import json
from typing import Any

WHICH = ("diagnosis", "regression", "rule", "messages")


def run(arguments: list[str]) -> int:
    """Print a schema."""
    options = argparse.ArgumentParser(prog="diagnose schema", description="Print a JSON Schema.")
    options.add_argument(
        "which",
        nargs="?",
        choices=WHICH,
        default="diagnosis",
        help="of the JSON output, of that of --baseline, of a rule file, of a messages file",
    )
    print(json.dumps(schema(options.parse_args(arguments).which), indent=2))
    return 0


def schema(which: str) -> dict[str, Any]:
    """The schema of one contract."""
    if which == "diagnosis":
        from diagnoser.inference.diagnosis import Diagnosis

        return Diagnosis.model_json_schema(by_alias=True, mode="serialization")
    if which == "regression":
        from diagnoser.report.regression_json import schema as of_regression

        return of_regression()
    from diagnoser.rulebook.models import CauseFile, MessagesFile

    return (CauseFile if which == "rule" else MessagesFile).model_json_schema()
