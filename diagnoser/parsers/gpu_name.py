"""GPU names outside nvidia-smi: logs and reports print them beside a compute capability or alone."""

from diagnoser.facts.packages import GpuName


def gpu_name(name: str, count: int | None = None, capability: str | None = None) -> GpuName:
    """The fact for a printed name; the capability ("12.0") tells the architecture better than the name.

    >>> gpu_name("NVIDIA RTX PRO 6000", capability="12.0").arch
    'sm120'
    """
    if capability is not None:
        arch: str | None = "sm" + capability.replace(".", "")
    else:
        from diagnoser.parsers.nvidia_smi.names import arch_of

        arch = arch_of(name)
    return GpuName(name=name, count=count, compute_capability=capability, arch=arch)
