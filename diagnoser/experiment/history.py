"""What earlier launches on a machine taught: how much they scatter, and which servers were started there before.

One JSON file of schema ``diagnoser/history/1`` in the user's data folder: for each machine its launches, each with the
key of what was launched and measured, the metric and its mean. Launches of one key should be alike; what they scatter
by is the noise of the machine, and lowers (or raises) the floor of the next experiment's interval.
"""

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diagnoser.experiment.guards.identity import VOLATILE
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.results import Identity
from diagnoser.experiment.statistics import Noise, noise_from_history

SCHEMA = "diagnoser/history/1"
KEPT = 500
"""Launches of a machine; older ones are forgotten."""


def file() -> Path:
    """``history.json`` in ``$DIAGNOSER_STATE``, or in the user's data folder."""
    named = os.environ.get("DIAGNOSER_STATE")
    if named:
        return Path(named) / "history.json"
    from platformdirs import user_data_path

    return user_data_path("diagnoser", appauthor=False) / "history.json"


def key(identity: Identity, load: Load) -> str:
    """What makes two launches alike: the server with all its flags, its GPUs, and the load."""
    flags = {name: value for name, value in identity.flags.items() if name not in VOLATILE}
    what = [
        identity.engine, identity.version, identity.model, flags, [gpu.name for gpu in identity.gpus],
        load.prompt_tokens, load.output_tokens, load.concurrency, load.rate_per_s, load.requests,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def noise(host: str) -> Callable[[str], Noise]:
    """The noise of a metric on a machine, with what earlier launches there taught."""

    def of(metric: str) -> Noise:
        groups: dict[str, list[float]] = {}
        for one in _read().get(host, []):
            if one.get("metric") == metric:
                groups.setdefault(one["key"], []).append(one["mean"])
        return noise_from_history(metric, list(groups.values()))

    return of


def started_before(host: str, identity: Identity) -> bool:
    """Whether this version of the engine was up on the machine before: the first start fills caches."""
    return any(
        (one["engine"], one["version"]) == (identity.engine, identity.version)
        for one in _read().get(host, [])
    )


def add(host: str, identity: Identity, load: Load, metric: str, values: list[float]) -> None:
    """Remember a launch; without values only that it was up. A file that cannot be written is left alone."""
    mean = math.exp(sum(map(math.log, values)) / len(values)) if values else None
    row = {
        "at": round(time.time()), "engine": identity.engine, "version": identity.version,
        "key": key(identity, load), "metric": metric if values else None, "mean": mean,
    }  # fmt: skip
    try:
        with _locked() as path:
            hosts = _read()
            hosts[host] = [*hosts.get(host, []), row][-KEPT:]
            partial = path.with_suffix(".new")
            partial.write_text(json.dumps({"schema": SCHEMA, "hosts": hosts}, indent=1) + "\n")
            partial.replace(path)
    except OSError:
        return  # a measurement is worth more than its memory


@contextmanager
def _locked() -> Iterator[Path]:
    path = file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(descriptor)


def _read() -> dict[str, list[dict[str, Any]]]:
    """The launches by machine; nothing where there is no file, or one of another kind."""
    try:
        kept = json.loads(file().read_text())
    except (OSError, ValueError):
        return {}
    hosts = kept.get("hosts") if isinstance(kept, dict) and kept.get("schema") == SCHEMA else None
    return hosts if isinstance(hosts, dict) else {}
