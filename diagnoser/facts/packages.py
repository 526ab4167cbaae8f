"""Facts about installed software: packages, the CUDA toolkit, torch's build, the driver, GPU names."""

from typing import ClassVar

from diagnoser.facts.base import Fact
from diagnoser.facts.lazy import lazy

_SEPARATORS = lazy(r"[-_.]+")


def normalise(name: str) -> str:
    """The package index's spelling (PEP 503).

    >>> normalise("sgl_kernel")
    'sgl-kernel'
    """
    return _SEPARATORS.sub("-", name).lower()


class Package(Fact):
    """An installed package, or one that a listing says is missing.

    name: normalised ("sgl-kernel"). version without its local part; local is what follows the plus sign
    ("cu130"). installed is False where a tool looked for it in vain (``Module Not Found``).
    source: "pip list", "pip freeze", "conda list", "pip show", "collect-env", "check_env", "log".
    """

    kind: ClassVar[str] = "package"
    kept: ClassVar[int] = 8
    name: str
    version: str | None = None
    local: str | None = None
    source: str | None = None
    installed: bool = True

    @property
    def family(self) -> str:
        return f"package:{self.name}"


class TorchBuild(Fact):
    """What torch was built for and with: cuda "13.0", cudnn as torch or a check printed it ("9.13")."""

    kind: ClassVar[str] = "torch_build"
    version: str | None = None
    cuda: str | None = None
    cudnn: str | None = None


class CudaToolkit(Fact):
    """A CUDA toolkit on the machine. where: "nvcc", or the folder that CUDA_HOME names."""

    kind: ClassVar[str] = "cuda_toolkit"
    version: str | None = None
    where: str | None = None


class Driver(Fact):
    """The NVIDIA driver's version as a software report states it ("580.95.05")."""

    kind: ClassVar[str] = "driver"
    version: str


class GpuName(Fact):
    """A GPU model by its product name, as logs and software reports print it.

    count: how many of it are listed. compute_capability: as printed ("12.0"). arch: "sm120", from the
    capability, else from the name; None when neither tells.
    """

    kind: ClassVar[str] = "gpu_name"
    name: str
    count: int | None = None
    compute_capability: str | None = None
    arch: str | None = None
