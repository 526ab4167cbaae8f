"""Rows of tables that say by themselves what they are: df, free, /proc/meminfo, ulimit -a, lscpu, uname."""

import re
from collections.abc import Callable

from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines
from diagnoser.parsers.by_literal import text

Fields = dict[str, object]
Row = Callable[[Lines, int], Fields | None]
"""The fields of a row; empty for a row that belongs to a table and tells nothing; None for any other line."""

_SIZE = lazy(r"(\d{1,15}(?:\.\d{1,3})?)([KMGTPB]?)i?B?")
_MIB = {"B": 2.0**-20, "K": 2.0**-10, "M": 1.0, "G": 1024.0, "T": 1048576.0, "P": 1073741824.0}


def _mib(words: str, unit: str | None) -> float | None:
    """MiB of "62Gi" or "64M"; ``unit`` is for numbers without a letter."""
    found = _SIZE.fullmatch(words)
    if found is None:
        return None
    letter = found[2] or unit
    if letter is None:
        return 0.0 if float(found[1]) == 0 else None
    return round(float(found[1]) * _MIB[letter], 2)


_DF = lazy(
    r"\S{1,100}\s{1,40}([\d.]{1,16}\w{0,3})\s{1,40}([\d.]{1,16}\w{0,3})\s{1,40}[\d.]{1,16}\w{0,3}\s{1,20}\d{1,3}%\s{1,20}(/\S{0,200})"
)
_DF_HEADER = lazy(r"Filesystem\s{1,60}(?:(\d{1,4})([KMG])-blocks|Size|Type|512)")
_MOUNT = lazy(r"on /dev/shm type tmpfs \([^)]{0,300}?\bsize=(\d{1,15})([kmg]?)")
_SHM_SIZE = lazy(r'"ShmSize":\s{0,4}(\d{1,15})')


def _df(lines: Lines, i: int) -> Fields | None:
    line = text(lines, i)
    if _DF_HEADER.match(line):
        return {}
    found = _DF.match(line)
    if found is None:
        return None
    if found[3] != "/dev/shm":
        return {}
    unit = "K"
    for j in range(i - 1, max(-1, i - 40), -1):
        if header := _DF_HEADER.match(text(lines, j)):
            unit = header[2] if header[1] == "1" else "K"
            break
    return {"dev_shm_mib": _mib(found[1], unit), "dev_shm_used_mib": _mib(found[2], unit)}


def _mounted(lines: Lines, i: int) -> Fields | None:
    line = text(lines, i)
    if found := _MOUNT.search(line):
        return {"dev_shm_mib": _mib(found[1], found[2].upper() or "B")}
    found = _SHM_SIZE.search(line)
    return {"dev_shm_mib": _mib(found[1], "B")} if found and int(found[1]) else None


_FREE_HEADER = lazy(r"\s{4,40}total\s{1,20}used\s{1,20}free\b")
_FREE = lazy(
    r"(Mem|Swap|Total|-/\+ buffers/cache):\s{1,20}(\S{1,16})\s{1,20}(\S{1,16})\s{1,20}(\S{1,16})(.{0,80})"
)
_FREE_FLAG = lazy(r"\bfree\b.{0,20} -\w{0,4}?([bkmgh])\b")


def _free(lines: Lines, i: int) -> Fields | None:
    line = text(lines, i)
    if _FREE_HEADER.match(line):
        return {}
    found = _FREE.match(line)
    if found is None:
        return None
    unit = _free_unit(lines, i)
    total, used = _mib(found[2], unit), _mib(found[3], unit)
    if found[1] == "Swap":
        return {"swap_total_mib": total, "swap_used_mib": used}
    if found[1] == "Mem":
        rest = found[5].split()
        return {"mem_total_mib": total, "mem_available_mib": _mib(rest[2], unit) if len(rest) == 3 else None}
    return {}


def _free_unit(lines: Lines, i: int) -> str | None:
    """The unit of free's bare numbers: its flag where the command is shown, else told by their size."""
    for j in range(i - 1, max(-1, i - 5), -1):
        above = text(lines, j)
        if flag := _FREE_FLAG.search(above):
            return None if flag[1] == "h" else flag[1].upper()
        if not (_FREE_HEADER.match(above) or _FREE.match(above)):
            break
    for j in range(i, max(-1, i - 3), -1):
        row = _FREE.match(text(lines, j))
        if row and row[1] == "Mem" and row[2].isdecimal():
            # 8 GB in KiB is eight millions, and in MiB would be 8 TB.
            total = int(row[2])
            return "K" if total >= 8_000_000 else "M" if total >= 4096 else None
    return None


_MEMINFO = lazy(r"([A-Z]\w{2,24}(?:\(\w{1,12}\))?):\s{1,20}(\d{1,15})(?: kB)?\s{0,4}$")
_MEMINFO_FIELDS = {
    "MemTotal": "mem_total_mib",
    "MemAvailable": "mem_available_mib",
    "SwapTotal": "swap_total_mib",
    "SwapFree": "swap_free_mib",
}


def _meminfo(lines: Lines, i: int) -> Fields | None:
    found = _MEMINFO.match(text(lines, i))
    if found is None:
        return None
    field = _MEMINFO_FIELDS.get(found[1])
    return {field: round(int(found[2]) / 1024, 1)} if field else {}


_ULIMIT = lazy(r"[a-zA-Z][\w /-]{2,40}\s{1,30}\((?:[\w ]{1,20}, )?-([a-zA-Z])\) (unlimited|\d{1,20})\s{0,4}$")


def _ulimit(lines: Lines, i: int) -> Fields | None:
    found = _ULIMIT.match(text(lines, i))
    if found is None:
        return None
    flag, value = found.groups()
    number = int(value) if value.isdecimal() else None
    if flag == "l":
        return {"memlock_kib": number, "memlock_unlimited": number is None}
    field = {"n": "open_files", "u": "max_processes"}.get(flag)
    return {field: number} if field else {}


_LSCPU = lazy(
    r"\s{0,8}(Architecture|CPU op-mode\(s\)|Address sizes|Byte Order|CPU\(s\)|On-line CPU\(s\) list|"
    r"Off-line CPU\(s\) list|Vendor ID|BIOS [\w ]{1,20}|Model(?: name)?|CPU family|Thread\(s\) per core|"
    r"Core\(s\) per (?:socket|cluster)|Socket\(s\)|Cluster\(s\)|Stepping|Frequency boost|CPU\(s\) scaling MHz|"
    r"CPU (?:max |min )?MHz|BogoMIPS|Flags|Hypervisor vendor|Virtualization(?: type| features)?|"
    r"Caches[\w ()]{0,20}|L\d[di]?(?: cache)?|NUMA node\(s\)|NUMA node\d{1,4} CPU\(s\)|NUMA|Vulnerabilit[\w ]{1,40}):"
    r"(?:\s{1,60}(\S.{0,300}))?"
)
_LSCPU_NUMBERS = {
    "CPU(s)": "cpus",
    "Socket(s)": "sockets",
    "Core(s) per socket": "cores_per_socket",
    "Thread(s) per core": "threads_per_core",
    "NUMA node(s)": "numa_nodes",
}


def _lscpu(lines: Lines, i: int) -> Fields | None:
    found = _LSCPU.match(text(lines, i))
    if found is None:
        return None
    key, value = found[1], (found[2] or "").strip()
    if key == "Model name":
        return {"cpu_model": value}
    if key == "Hypervisor vendor":
        return {"hypervisor": value}
    if key == "CPU max MHz":
        whole = re.fullmatch(r"(\d{3,5})[.,]\d{1,4}", value)
        return {"cpu_max_mhz": float(whole[1])} if whole else {}
    field = _LSCPU_NUMBERS.get(key)
    return {field: int(value)} if field and re.fullmatch(r"\d{1,6}", value) else {}


_UNAME = lazy(r"Linux \S{1,64} (\d{1,2}\.\d{1,3}[\w.+~-]{0,64}) #\d{1,6}.{0,80} SMP ")


def _uname(lines: Lines, i: int) -> Fields | None:
    found = _UNAME.match(text(lines, i))
    return {"kernel_release": found[1]} if found else None


_SWAPON = lazy(r"NAME\s{1,20}TYPE\s{1,20}SIZE\s{1,20}USED|/\S{1,100}\s{1,20}(?:file|partition)\s{1,20}\d")


def _swapon(lines: Lines, i: int) -> Fields | None:
    return {} if _SWAPON.match(text(lines, i)) else None


ROWS: tuple[Row, ...] = (_df, _mounted, _free, _lscpu, _meminfo, _ulimit, _uname, _swapon)
