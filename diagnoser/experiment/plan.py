"""What an experiment is going to do, before its first step; kept whole in its journal."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from diagnoser.experiment.change import Change, Changes
from diagnoser.experiment.launchers import launcher_from
from diagnoser.experiment.launchers.base import Launcher
from diagnoser.experiment.load.bench import Plan as Load
from diagnoser.experiment.statistics import LOOK_LEVELS, Noise, detectable

WORKLOADS: dict[str, tuple[str, Load]] = {
    "decode_single_stream": ("decode_ms_per_token", Load(prompt_tokens=128, output_tokens=256)),
    "decode_long_context": ("decode_ms_per_token", Load(prompt_tokens=10_000, output_tokens=256)),
    "prefill_long": ("ttft_ms", Load(prompt_tokens=8_000, output_tokens=16)),
    "throughput_many_streams": (
        "output_tok_s_wall",
        Load(prompt_tokens=512, output_tokens=256, concurrency=32, requests=96),
    ),
}
"""What exercises a hypothesis, and the metric that it is scored on. Attention costs nothing at a short context and 40 %
at 10,000 tokens (SGLang on an H200), so a workload that does not exercise the cause refutes nothing."""

DEFAULT_WORKLOAD = "decode_single_stream"


class Plan(NamedTuple):
    """An experiment before its first step.

    host: the machine whose server it is. remote: reached over SSH. changes: what is put to the test. base: changes that
    both arms need, because the server does not start without them. gap: the relative loss that the changes should
    explain. running: the server's process, where it runs already; running_log: its log, where that is a file. was_up:
    the server ran before. chain: the fix of a start that fails is tried next. noise: what is known of the scatter
    between launches of this metric here. given: what of the load was asked for, whatever the workload.
    """

    host: str
    url: str
    launcher: Launcher
    changes: Changes
    workload: str
    metric: str
    load: Load
    gap: float | None = None
    running: tuple[int, int] | None = None
    was_up: bool = False
    keep_fix: bool = False
    remote: bool = False
    base: Changes = ()
    chain: bool = False
    dead_man_s: float = 60.0
    noise: Noise = Noise()
    running_log: str | None = None
    given: Mapping[str, Any] = MappingProxyType({})

    @property
    def port(self) -> int:
        """The server's port on its machine."""
        from urllib.parse import urlsplit

        parts = urlsplit(self.url if "://" in self.url else f"http://{self.url}")
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def ends_down(self) -> bool:
        """Nothing ran before, and perhaps nothing can as it was found: nothing runs afterwards."""
        return self.chain and not self.was_up

    def testing(self, changes: Changes, workload: str, noise: Callable[[str], Noise]) -> "Plan":
        """The plan with other changes, measured by the workload that exercises them."""
        metric, load = WORKLOADS.get(workload, WORKLOADS[DEFAULT_WORKLOAD])
        return self._replace(
            changes=changes,
            workload=workload,
            metric=metric,
            load=replace(load, **self.given),
            noise=noise(metric),
        )

    def plain(self) -> dict[str, Any]:
        """As it is kept in a journal."""
        row = self._asdict()
        row["launcher"] = self.launcher.plain()
        row["changes"], row["base"] = [list(one) for one in self.changes], [list(one) for one in self.base]
        row["given"] = dict(self.given)
        row["load"], row["noise"] = asdict(self.load), list(self.noise)
        return row

    @staticmethod
    def from_plain(row: dict[str, Any]) -> "Plan":
        """A plan as `plain` gave it."""
        made = dict(row)
        made["launcher"] = launcher_from(row["launcher"])
        made["changes"] = tuple(Change(*one) for one in row["changes"])
        made["base"] = tuple(Change(*one) for one in row["base"])
        made["load"], made["noise"] = Load(**row["load"]), Noise(*row["noise"])
        made["running"] = tuple(row["running"]) if row["running"] else None
        return Plan(**made)


def smallest_seen(plan: Plan, run_cv: float = 0.01) -> list[float]:
    """What can be detected after one, two and three pairs."""
    return [detectable(pairs, run_cv, plan.noise, plan.load.runs) for pairs in range(1, len(LOOK_LEVELS) + 1)]
