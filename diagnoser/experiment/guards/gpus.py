"""The state of a machine's GPUs, as nvidia-smi tells it."""

import csv
import io
from typing import NamedTuple

from diagnoser.experiment.hands import Hands

_FIELDS = (
    "index,uuid,name,driver_version,memory.used,temperature.gpu,power.draw,enforced.power.limit,clocks.sm,clocks.mem,"
    "{reasons}.active,ecc.errors.uncorrected.volatile.total,pcie.link.gen.current,pcie.link.width.current,utilization.gpu"
)
_APPS = "gpu_uuid,pid,process_name,used_memory"
_SCRIPT = """PATH=$PATH:/usr/local/cuda/bin:/usr/local/bin:/usr/bin; export PATH
command -v nvidia-smi >/dev/null 2>&1 || exit 127
nvidia-smi --query-gpu={fields} --format=csv,nounits || exit 1
printf '\\036'
nvidia-smi --query-compute-apps={apps} --format=csv,nounits 2>/dev/null
exit 0
"""
_SPELLINGS = ("clocks_event_reasons", "clocks_throttle_reasons")
"""Drivers before 535 know the second only; an unknown field fails the whole call."""

WAIT_S = 30.0


class Gpu(NamedTuple):
    """One GPU; None where the driver does not tell. reasons: the mask of what holds its clocks down."""

    number: int
    uuid: str
    name: str
    driver: str
    memory_used_mib: float | None
    temperature_c: float | None
    power_w: float | None
    power_limit_w: float | None
    sm_clock_mhz: float | None
    reasons: int | None
    ecc_uncorrected: float | None
    pcie_gen: float | None
    pcie_width: float | None
    utilization: float | None


class App(NamedTuple):
    """A process that computes on a GPU."""

    uuid: str
    pid: int
    name: str


class State(NamedTuple):
    """All GPUs at one time."""

    gpus: tuple[Gpu, ...]
    apps: tuple[App, ...]


class Smi:
    """nvidia-smi of one machine; it remembers which spelling its driver knows."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._spelling = 0
        self._absent = False

    def state(self, why: str = "look at the GPUs") -> State | None:
        """The GPUs now; None where there is no nvidia-smi or it does not answer. Raises `ChannelError`."""
        while not self._absent:
            fields = _FIELDS.format(reasons=_SPELLINGS[self._spelling])
            script = _SCRIPT.format(fields=fields, apps=_APPS)
            output = self._hands.run(script, why, timeout_s=WAIT_S, often=True)
            if output.ok:
                return read(output.stdout.decode("utf-8", "replace"))
            self._absent = output.exit_code == 127
            unknown = b"is not a valid field" in output.stdout + output.stderr
            if not unknown or self._spelling + 1 == len(_SPELLINGS):
                return None
            self._spelling += 1
        return None


def read(text: str) -> State:
    """What the script printed."""
    first, _, second = text.partition("\x1e")
    gpus = []
    for row in _rows(first):
        reasons = row.get("clocks_event_reasons.active") or row.get("clocks_throttle_reasons.active") or ""
        gpus.append(
            Gpu(
                int(_number(row.get("index")) or 0), row.get("uuid") or row.get("index", ""), row.get("name", ""),
                row.get("driver_version", ""), _number(row.get("memory.used")), _number(row.get("temperature.gpu")),
                _number(row.get("power.draw")), _number(row.get("enforced.power.limit")),
                _number(row.get("clocks.sm") or row.get("clocks.current.sm")),
                int(reasons, 16) if reasons.startswith("0x") else None,
                _number(row.get("ecc.errors.uncorrected.volatile.total")), _number(row.get("pcie.link.gen.current")),
                _number(row.get("pcie.link.width.current")), _number(row.get("utilization.gpu")),
            )
        )  # fmt: skip
    apps = [
        App(row.get("gpu_uuid", ""), int(pid), row.get("process_name", ""))
        for row in _rows(second)
        if (pid := _number(row.get("pid")))
    ]
    return State(tuple(gpus), tuple(apps))


def _rows(text: str) -> list[dict[str, str]]:
    """Rows by the name of their column, without its unit: ``memory.used [MiB]`` is ``memory.used``."""
    lines = list(csv.reader(io.StringIO(text.strip())))
    names = [name.strip().partition(" ")[0] for name in lines[0]] if lines else []
    return [
        dict(zip(names, (cell.strip() for cell in row), strict=True))
        for row in lines[1:]
        if len(row) == len(names)
    ]


def _number(text: str | None) -> float | None:
    """None for ``[N/A]`` and its like."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
