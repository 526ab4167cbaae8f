"""Versions as people write them -> what changes between them, by the rules."""

from pathlib import Path
from typing import NamedTuple

from diagnoser.agent.session import CallError, Options, catalog_of, run_text
from diagnoser.compare.defaults import Default, moved
from diagnoser.compare.subjects import Value
from diagnoser.compare.upgrade import Advice, advise
from diagnoser.facts.factbase import merge_all
from diagnoser.inference.case import Case


class Upgrade(NamedTuple):
    """packages: both sides as read, name -> version. defaults: those that move, with their value before and after."""

    before: dict[str, str]
    after: dict[str, str]
    advice: Advice
    defaults: tuple[tuple[Default, Value, Value], ...]


def upgrade(before: str, after: str, gpu: str | None, model: str | None, options: Options) -> Upgrade:
    """before, after: "sglang==0.5.5,torch==2.8.0", or a file with a pip list. gpu: its name. model: its class name.

    Raises `CallError` where a side names no package.
    """
    # What stays on the machine is the same on both sides: an upgrade names what changes.
    kept = _case(before, gpu, model, options)
    changed = _case(_overlaid(before, after), gpu, model, options)
    advice = advise(kept, changed, catalog_of(options).pack)
    defaults = moved(kept.engines, changed.engines, _values(changed, "gpu", "arch"), _attention(changed))
    return Upgrade(kept.packages, changed.packages, advice, tuple(defaults))


def _values(case: Case, kind: str, field: str) -> frozenset[str]:
    kinds = (kind, "gpu_name") if kind == "gpu" else (kind,)
    found = {getattr(fact, field, None) for one in kinds for fact, _ in case.facts.of(one)}
    return frozenset(str(value) for value in found if value is not None)


def _attention(case: Case) -> str | None:
    return next(iter(sorted(_values(case, "model", "attention"))), None)


def _overlaid(before: str, after: str) -> str:
    """The packages of one side with those of the other in their place."""
    lines = {_name(line): line for line in [*_pins(before), *_pins(after)]}
    return ",".join(lines.values())


def _name(pin: str) -> str:
    return pin.partition("==")[0].strip().lower().replace("_", "-")


def _pins(given: str) -> list[str]:
    path = Path(given)
    try:
        text = path.read_text("utf-8", "replace") if path.is_file() else given.replace(",", "\n")
    except OSError as error:
        raise CallError(f"{given}: {error.strerror}") from None
    pins = []
    for line in text.splitlines():
        words = line.split()
        if "==" in line:
            pins.append(words[0])
        elif len(words) == 2 and words[1][:1].isdigit():
            pins.append(f"{words[0]}=={words[1]}")
    if not pins:
        raise CallError(
            f"{given}: no package with a version; write sglang==0.5.9,torch==2.9.1 or name a pip list"
        )
    return pins


def _case(given: str, gpu: str | None, model: str | None, options: Options) -> Case:
    text = "\n".join(_pins(given)) + "\n"
    if gpu:
        text += f"\nGPU 0: {gpu} (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    if model:
        text += f'\n{{"architectures": ["{model}"]}}\n'
    judged = run_text(text, options, "versions")
    if not judged.parts:
        raise CallError(f"{given}: no package in it is known")
    # Only packages and the machine are told, so that what a log would say stays open.
    return Case(merge_all(part.case.facts for part in judged.parts), ("pip list",))
