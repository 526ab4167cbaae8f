"""What commands and files of a Linux host show: CPU clocks, quotas, limits, memory, /dev/shm, lscpu.

    == /sys/fs/cgroup/cpu.max
    800000 100000
    -> HostState(cpu_quota_cores=8.0, cpu_quota_unlimited=False)

Values are found behind their file or command in every usual manner: on the next line (``cat``, ``== path``), on
the same one (``grep .``, ``head -v``, ``cpu.max: 400000 100000``). Neighbouring lines of this sort are one block
and one fact, wherever they stand in a paste.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from diagnoser.facts.base import Found
from diagnoser.facts.host import HostState
from diagnoser.facts.lazy import lazy
from diagnoser.parsers import host_notes
from diagnoser.parsers.bare import bare
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.by_literal import text
from diagnoser.parsers.host_rows import ROWS, Fields
from diagnoser.parsers.kernel_host import is_slow_clock

MAX_BLOCK = 4096
MAX_GAP = 3
"""How many lines that are not understood may stand between two that are."""


class _Read(NamedTuple):
    """Fields read at a line, and the last line used."""

    fields: Fields
    last: int


def _governor(value: str) -> Fields:
    found = re.fullmatch(
        r"(?:\d{1,5} )?(performance|powersave|ondemand|conservative|schedutil|userspace)", value
    )
    return {"governor": found[1]} if found else {}


_DYNAMIC_DRIVERS = {"intel_pstate": True, "amd-pstate-epp": True, "amd_pstate_epp": True}
_FIXED_DRIVERS = {"acpi-cpufreq": False, "intel_cpufreq": False, "pcc-cpufreq": False, "cppc_cpufreq": False}
_DRIVERS = _DYNAMIC_DRIVERS | _FIXED_DRIVERS


def _driver(value: str) -> Fields:
    found = re.fullmatch(r"(?:\d{1,5} )?([a-z][\w-]{2,40})", value)
    if found is None:
        return {}
    return {"cpufreq_driver": found[1], "dynamic_clock": _DRIVERS.get(found[1])}


def _word(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: value} if re.fullmatch(r"[a-z][\w-]{1,40}", value) else {}


def _mhz(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: int(value) / 1000} if re.fullmatch(r"\d{5,8}", value) else {}


def _cpu_max(value: str) -> Fields:
    found = re.fullmatch(r"(?:max|(\d{1,12}))(?: (\d{1,9}))?", value)
    if found is None or (found[1] and found[2] and int(found[2]) == 0):
        return {}
    if found[1] is None:
        return {"cpu_quota_unlimited": True}
    return {"cpu_quota_cores": int(found[1]) / int(found[2] or 100_000), "cpu_quota_unlimited": False}


def _cfs_quota(value: str) -> Fields:
    if value == "-1":
        return {"cpu_quota_unlimited": True}
    return {"quota_us": int(value)} if re.fullmatch(r"\d{1,12}", value) else {}


def _number(field: str) -> Callable[[str], Fields]:
    return lambda value: {field: int(value)} if re.fullmatch(r"\d{1,18}", value) else {}


def _numa_balancing(value: str) -> Fields:
    return {"numa_balancing": int(value)} if value in ("0", "1", "2", "3") else {}


def _clocksource(value: str) -> Fields:
    known = re.fullmatch(r"[a-z][\w-]{1,40}", value)
    return {"clocksource": value, "clocksource_slow": is_slow_clock(value)} if known else {}


def _hugepages(value: str) -> Fields:
    found = re.search(r"\[(always|madvise|never)\]", value)
    return {"hugepages": found[1]} if found else {}


def _memlock(value: str) -> Fields:
    if value == "unlimited":
        return {"memlock_unlimited": True}
    return {"memlock_kib": int(value), "memlock_unlimited": False} if re.fullmatch(r"\d{1,12}", value) else {}


_VALUES: tuple[tuple[str, Callable[[str], Fields]], ...] = (
    ("scaling_governor", _governor),
    ("scaling_driver", _driver),
    ("energy_performance_preference", _word("epp")),
    ("scaling_cur_freq", _mhz("cpu_cur_mhz")),
    ("cpuinfo_cur_freq", _mhz("cpu_cur_mhz")),
    ("cpuinfo_max_freq", _mhz("cpu_max_mhz")),
    ("cpu.max", _cpu_max),
    ("cpu.cfs_quota_us", _cfs_quota),
    ("cpu.cfs_period_us", _number("period_us")),
    ("nr_periods", _number("nr_periods")),
    ("nr_throttled", _number("nr_throttled")),
    ("throttled_usec", _number("throttled_usec")),
    ("throttled_time", _number("throttled_nsec")),
    ("numa_balancing", _numa_balancing),
    ("current_clocksource", _clocksource),
    ("transparent_hugepage/enabled", _hugepages),
    ("ulimit -l", _memlock),
    ("torch.get_num_threads()", _number("torch_threads")),
)
"""The end of a file's name or a command, and what its value means."""

_KEY = lazy("|".join(re.escape(key) for key, _ in _VALUES))
_MEANING = dict(_VALUES)
_INLINE = lazy(r"\s{0,40}(?::|=|->)?\s{0,40}(?=\S)")
# A setting on the line of `ulimit -l unlimited` is an order, not an answer.
_NEEDS_SIGN = frozenset({"ulimit -l"})
_LOG_START = lazy(r"[\[({<]|(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b|Traceback |\d{4}-\d\d-\d\d")


def _read_value(lines: Lines, i: int) -> _Read | None:
    line = text(lines, i)
    key = _KEY.search(line)
    if key is None:
        return None
    read = _MEANING[key[0]]
    tail = line[key.end() :].strip()
    sign = _INLINE.match(tail)
    if tail and sign and not (key[0] in _NEEDS_SIGN and not sign[0].strip()):
        inline = read(tail[sign.end() :].strip())
        if inline:
            return _Read(inline, i)
    if tail and "|" not in tail and not tail.startswith((":", "2>")):
        return None
    below = read(text(lines, i + 1).strip())
    return _Read(below, i + 1) if below else None


def _read(lines: Lines, i: int) -> _Read | None:
    if found := _read_value(lines, i):
        return found
    for row in ROWS:
        fields = row(lines, i)
        if fields is not None:
            return _Read(fields, i)
    return None


def _may_be_value(line: str) -> bool:
    """A line that may stand between two that are understood: a header, a prompt, a short answer."""
    return len(line) <= 200 and not bare(line).stream and not _LOG_START.match(line)


def _grow(lines: Lines, i: int, step: int) -> int:
    """The furthest line of the block in one direction."""
    edge = at = i
    while abs(at - i) < MAX_BLOCK and abs(at - edge) <= MAX_GAP:
        at += step
        if not 0 <= at < len(lines):
            break
        if read := _read(lines, at):
            edge = at = max(at, read.last) if step > 0 else at
        elif not _may_be_value(text(lines, at)):
            break
    return edge


def _extent(lines: Lines, i: int) -> range | None:
    # The literal may stand in an answer whose question is the line above.
    start = next((j for j in (i, i - 1) if (read := _read(lines, j)) and read.last >= i), None)
    if start is None:
        return None
    first = _grow(lines, start, -1)
    above = text(lines, first - 1)
    if first > 0 and (above.startswith("== ") or "free -" in above):
        first -= 1
    found = _read(lines, start)
    last = _grow(lines, max(start, found.last) if found else start, 1)
    return range(first, min(last + 1, len(lines)))


def _parse(lines: Lines, _i: int) -> Iterator[Found]:
    known: Fields = {}
    first = last = None
    i = 0
    while i < len(lines):
        read = _read(lines, i)
        if read is None:
            i += 1
            continue
        for name, value in read.fields.items():
            if value is not None:
                known.setdefault(name, value)
        if read.fields:
            first, last = i if first is None else first, min(read.last, len(lines) - 1)
        i = read.last + 1
    fields = _derived(known)
    if fields and first is not None and last is not None:
        yield Found(HostState.model_validate(fields), first, last)


def _derived(known: Fields) -> Fields:
    """The fact's fields: control group v1 joined, ratios formed, raw counts dropped."""
    fields = {name: value for name, value in known.items() if name in HostState.model_fields}
    quota, period = known.get("quota_us"), known.get("period_us", 100_000)
    if isinstance(quota, int) and isinstance(period, int) and period > 0 and "cpu_quota_cores" not in fields:
        fields |= {"cpu_quota_cores": quota / period, "cpu_quota_unlimited": False}
    periods, throttled = known.get("nr_periods"), known.get("nr_throttled")
    if isinstance(periods, int) and isinstance(throttled, int) and periods > 0:
        fields["throttled_ratio"] = round(throttled / periods, 4)
    for name, per_second in (("throttled_usec", 1e6), ("throttled_nsec", 1e9)):
        if isinstance(spent := known.get(name), int):
            fields["throttled_s"] = spent / per_second
    threads, cores = fields.get("torch_threads"), fields.get("cpu_quota_cores")
    if isinstance(threads, int) and isinstance(cores, float) and cores > 0:
        fields["threads_per_quota_core"] = round(threads / cores, 2)
    total, free = known.get("swap_total_mib"), known.get("swap_free_mib")
    if isinstance(total, float) and isinstance(free, float) and "swap_used_mib" not in fields:
        fields["swap_used_mib"] = round(total - free, 1)
    return fields


PARSERS = (
    Parser(
        name="host",
        literals=(
            *(key for key, _ in _VALUES),
            "% /dev/shm",
            "/dev/shm type tmpfs",
            '"ShmSize"',
            "max locked memory",
            "Mem: ",
            "Swap: ",
            "MemTotal:",
            "CPU op-mode(s)",
            "Thread(s) per core",
            "NUMA node(s)",
            " SMP ",
        ),
        parse=_parse,
        extent=_extent,
        document="host probe",
    ),
    *host_notes.PARSERS,
)
