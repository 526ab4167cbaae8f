"""One kept result: a benchmark or a diagnosis, with all that a later comparison needs."""

import hashlib
import json
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal["diagnoser/history/1"] = "diagnoser/history/1"


class Service(NamedTuple):
    """What results are comparable by: the host, the model and the load that they were measured under."""

    host: str | None
    model: str | None
    workload: str | None

    def __str__(self) -> str:
        model, host = self.model or "model not told", self.host or "a host that is not told"
        return f"{model} on {host}, {self.workload or 'load not told'}"


class Entry(BaseModel):
    """A kept result.

    at: seconds since the epoch, when it was measured or logged. metric, value: what decides; higher is better unless
    the metric is a time. values: the value of each run. causes: the rules that fired, for the list.
    judged: a diagnosis as `inference.kept` writes it. measured: benchmark results as the importers read them.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    at: float
    kind: Literal["benchmark", "diagnosis"]
    name: str | None = Field(default=None, max_length=200)
    host: str | None = None
    model: str | None = None
    workload: str | None = None
    engine: str | None = None
    version: str | None = None
    metric: str | None = None
    value: float | None = None
    values: list[float] = []
    causes: list[str] = []
    judged: dict[str, Any] | None = None
    measured: list[dict[str, Any]] = []

    @property
    def service(self) -> Service:
        return Service(self.host, self.model, self.workload)

    @property
    def digest(self) -> str:
        """The same result has the same digest, whatever it is called; so importing twice keeps it once."""
        body = self.model_dump(mode="json", exclude={"name"})
        return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()


class Kept(NamedTuple):
    """An entry in the store. baseline: it stands for its service."""

    number: int
    entry: Entry
    baseline: bool


class Exported(BaseModel):
    """A file of `diagnose history export`. baselines: digests of the entries that stand for their service."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, defer_build=True)

    schema_: Literal["diagnoser/history/1"] = Field(default=SCHEMA, alias="schema")
    entries: list[Entry]
    baselines: list[str] = []
