"""Host probes: the ways people show them, a real machine, and what must not be taken for one."""

from pathlib import Path
from typing import Any

import pytest

from diagnoser.facts.base import Fact
from diagnoser.facts.host import HostState, NumaMemory, Service
from diagnoser.parsers import host


def facts(read: Any, text: str) -> list[Fact]:
    return [found.fact for found in read(host.PARSERS, text)]


GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"== {GOVERNOR}\nperformance", HostState(governor="performance")),
        (f"$ cat {GOVERNOR}\nperformance", HostState(governor="performance")),
        (f"{GOVERNOR}:performance", HostState(governor="performance")),
        (
            f"$ cat {GOVERNOR.replace('cpu0', 'cpu*')} | sort | uniq -c\n     96 schedutil",
            HostState(governor="schedutil"),
        ),
        ("cpu.max: max 100000", HostState(cpu_quota_unlimited=True)),
        ("cpu.max: 150000 100000", HostState(cpu_quota_cores=1.5, cpu_quota_unlimited=False)),
        (
            "$ cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /dev/null\n800000\n"
            "$ cat /sys/fs/cgroup/cpu/cpu.cfs_period_us\n100000",
            None,
        ),
        (
            "== /sys/fs/cgroup/cpu/cpu.cfs_quota_us\n800000\n== /sys/fs/cgroup/cpu/cpu.cfs_period_us\n100000",
            HostState(cpu_quota_cores=8.0, cpu_quota_unlimited=False),
        ),
        ("== /sys/fs/cgroup/cpu/cpu.cfs_quota_us\n-1", HostState(cpu_quota_unlimited=True)),
        (
            "nr_periods 1000\nnr_throttled 250\nthrottled_time 5000000000",
            HostState(throttled_ratio=0.25, throttled_s=5.0),
        ),
        (
            "nr_periods 1000\nnr_throttled 0\nthrottled_usec 0",
            HostState(throttled_ratio=0.0, throttled_s=0.0),
        ),
        ("kernel.numa_balancing = 1", HostState(numa_balancing=1)),
        (
            "$ cat /sys/devices/system/clocksource/clocksource0/current_clocksource\nhpet",
            HostState(clocksource="hpet", clocksource_slow=True),
        ),
        ("$ ulimit -l\nunlimited", HostState(memlock_unlimited=True)),
        ("ulimit -l: 64", HostState(memlock_kib=64, memlock_unlimited=False)),
        (
            "max locked memory           (kbytes, -l) 8192",
            HostState(memlock_kib=8192, memlock_unlimited=False),
        ),
        (
            "shm              64M   12K   64M   1% /dev/shm",
            HostState(dev_shm_mib=64.0, dev_shm_used_mib=0.01),
        ),
        (
            "Filesystem     1K-blocks  Used Available Use% Mounted on\n"
            "tmpfs              65536     0     65536   0% /dev/shm",
            HostState(dev_shm_mib=64.0, dev_shm_used_mib=0.0),
        ),
        (
            "shm on /dev/shm type tmpfs (rw,nosuid,nodev,noexec,relatime,size=65536k)",
            HostState(dev_shm_mib=64.0),
        ),
        ('            "ShmSize": 67108864,', HostState(dev_shm_mib=64.0)),
        ("torch.get_num_threads() -> 96", HostState(torch_threads=96)),
        (">>> torch.get_num_threads()\n96", HostState(torch_threads=96)),
        (
            "cpu.max: 400000 100000\ntorch.get_num_threads() -> 96",
            HostState(
                cpu_quota_cores=4.0,
                cpu_quota_unlimited=False,
                torch_threads=96,
                threads_per_quota_core=24.0,
            ),
        ),
        (
            "$ free -g\n"
            "              total        used        free      shared  buff/cache   available\n"
            "Mem:           1511          12         900           0         599        1490\n"
            "Swap:             7           1           6",
            HostState(
                mem_total_mib=1511 * 1024.0,
                mem_available_mib=1490 * 1024.0,
                swap_total_mib=7 * 1024.0,
                swap_used_mib=1024.0,
            ),
        ),
        (
            "              total        used        free      shared  buff/cache   available\n"
            "Mem:          125Gi       1.5Gi       123Gi       7.0Mi       1.0Gi       123Gi\n"
            "Swap:            0B          0B          0B",
            HostState(
                mem_total_mib=128000.0, mem_available_mib=125952.0, swap_total_mib=0.0, swap_used_mib=0.0
            ),
        ),
        (
            "              total        used        free      shared  buff/cache   available\n"
            "Mem:      131981020     1000000   129541952        7368     2062264   131422540",
            HostState(mem_total_mib=128887.71, mem_available_mib=128342.32),
        ),
    ],
)
def test_ways_to_show_it(text: str, expected: Fact | None, read: Any) -> None:
    assert facts(read, text) == ([expected] if expected else [])


@pytest.mark.parametrize(
    "text",
    [
        f"cat: {GOVERNOR}: No such file or directory",
        "Found ulimit of 20000 and failed to automatically increase. Consider increasing with ulimit -n",
        "docker run --gpus all --ulimit memlock=-1 vllm",
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-vG5kQ1 (size 7340384)",
        "Try `ulimit -l unlimited` first",
        "kernel.numa_balancing_promote_rate_limit_MBps = 65536",
        "[2026-02-27 15:17:28 TP0] Memory pool end. avail mem=94.97 GB",
        "Linux SMP is a word of three letters",
    ],
)
def test_what_is_no_probe(text: str, read: Any) -> None:
    assert facts(read, text) == []


def test_log_lines_around_a_probe_stay_in_the_log(read: Any) -> None:
    text = "\n".join(
        [
            "INFO 03-09 15:36:37 api_server.py:266] vLLM API server version 0.6.2",
            "cpu.max: 400000 100000",
            "torch.get_num_threads() -> 96",
            "INFO 03-09 15:37:05 model_runner.py:1083] Graph capturing finished in 20 secs.",
            "ValueError: x",
        ]
    )
    lines = text.split("\n")
    (parser,) = [one for one in host.PARSERS if one.name == "host"]
    assert parser.extent is not None
    assert parser.extent(lines, 1) == parser.extent(lines, 2) == range(1, 3)


REAL: dict[str, Fact] = {
    "df.txt": HostState(dev_shm_mib=131072.0, dev_shm_used_mib=0.0),
    "lscpu.txt": HostState(
        cpu_model="Intel(R) Xeon(R) Processor",
        cpus=16,
        sockets=1,
        cores_per_socket=16,
        threads_per_core=1,
        numa_nodes=1,
        hypervisor="KVM",
    ),
    "meminfo.txt": HostState(
        mem_total_mib=128887.7, mem_available_mib=128342.3, swap_total_mib=0.0, swap_used_mib=0.0
    ),
    "ulimit.txt": HostState(memlock_unlimited=True, open_files=20000, max_processes=515506),
    "uname.txt": HostState(kernel_release="6.18.44-gpu"),
}


@pytest.mark.parametrize("name", REAL)
def test_a_real_machine(name: str, fixtures: Path, read: Any) -> None:
    assert facts(read, (fixtures / "captures/h200/host" / name).read_text(encoding="utf-8")) == [REAL[name]]


def test_a_machine_without_clock_scaling_says_nothing(fixtures: Path, read: Any) -> None:
    assert facts(read, (fixtures / "captures/h200/host/governor.txt").read_text(encoding="utf-8")) == []


def test_numastat(read: Any) -> None:
    text = (
        "Per-node process memory usage (in MBs) for PID 48211 (python3)\n"
        "                           Node 0          Node 1           Total\n"
        "                  --------------- --------------- ---------------\n"
        "Huge                         0.00            0.00            0.00\n"
        "Private                   3012.44        10655.10        13667.54\n"
        "----------------  --------------- --------------- ---------------\n"
        "Total                     3012.44        10655.10        13667.54\n"
        "INFO 03-09 15:37:05 next line of a log"
    )
    assert facts(read, text) == [
        NumaMemory(pid=48211, process="python3", nodes_mib=(3012.44, 10655.1), minor_share=0.2204)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Unit nvidia-fabricmanager.service could not be found.",
            Service(name="nvidia-fabricmanager", state="missing"),
        ),
        (
            "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
            "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled)\n"
            "     Active: failed (Result: exit-code) since Mon 2026-03-02 09:14:07 UTC; 5min ago",
            Service(name="nvidia-fabricmanager", state="failed"),
        ),
        (
            "○ nvidia-persistenced.service - NVIDIA Persistence Daemon\n"
            "     Loaded: loaded (/lib/systemd/system/nvidia-persistenced.service; static)\n"
            "     Active: inactive (dead)",
            Service(name="nvidia-persistenced", state="inactive"),
        ),
    ],
)
def test_services(text: str, expected: Service, read: Any) -> None:
    assert facts(read, text) == [expected]
