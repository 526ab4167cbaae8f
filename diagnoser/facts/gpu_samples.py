"""Facts from tools that print a GPU again and again: ``nvidia-smi dmon``, ``pmon``, ``--query-gpu -lms``."""

from typing import ClassVar

from diagnoser.facts.base import Fact


class GpuSample(Fact):
    """One row of ``nvidia-smi dmon``. Which columns there are depends on ``-s`` and the driver.

    mtemp_c: memory temperature. pviol_pct: share of time held down by the power cap; tviol: held down by
    temperature. sbecc, dbecc: ECC errors of one and two bits. pci_errors: replays. rx, tx: PCIe MB/s.
    """

    kind: ClassVar[str] = "gpu_sample"
    gpu_index: int
    power_w: int | None = None
    temp_c: int | None = None
    mtemp_c: int | None = None
    sm_pct: int | None = None
    mem_pct: int | None = None
    enc_pct: int | None = None
    dec_pct: int | None = None
    jpg_pct: int | None = None
    ofa_pct: int | None = None
    mclk_mhz: int | None = None
    pclk_mhz: int | None = None
    pviol_pct: int | None = None
    tviol: bool | None = None
    fb_mb: int | None = None
    bar1_mb: int | None = None
    ccpm_mb: int | None = None
    sbecc: int | None = None
    dbecc: int | None = None
    pci_errors: int | None = None
    rx_mb_s: int | None = None
    tx_mb_s: int | None = None


class GpuProcessSample(Fact):
    """One row of ``nvidia-smi pmon``; pid is None on the row of a GPU without processes."""

    kind: ClassVar[str] = "gpu_process_sample"
    gpu_index: int
    pid: int | None = None
    type: str | None = None
    sm_pct: int | None = None
    mem_pct: int | None = None
    enc_pct: int | None = None
    dec_pct: int | None = None
    jpg_pct: int | None = None
    ofa_pct: int | None = None
    fb_mb: int | None = None
    ccpm_mb: int | None = None
    command: str | None = None


class GpuSeries(Fact):
    """One GPU over several samples of one text (``--query-gpu -lms``, ``dmon``).

    loaded: samples under load. link_low_run: the longest run of consecutive loaded samples with the link
    generation below its limit (one sample proves nothing, three do). thermal, power_cap, hw: samples with
    thermal, power-cap and hardware clock reasons (dmon: ``tviol``, ``pviol`` > 0; it shows no hw).
    """

    kind: ClassVar[str] = "gpu_series"
    gpu_index: int | None = None
    bus_id: str | None = None
    samples: int
    loaded: int | None = None
    link_low_run: int | None = None
    thermal: int | None = None
    power_cap: int | None = None
    hw: int | None = None
    util_median_pct: float | None = None
    util_max_pct: int | None = None
    power_median_w: float | None = None
    power_max_w: float | None = None
    clock_sm_min_mhz: int | None = None
    clock_sm_median_mhz: float | None = None
    clock_sm_max_mhz: int | None = None
    temp_max_c: int | None = None
    memory_used_min_mib: int | None = None
    memory_used_max_mib: int | None = None
