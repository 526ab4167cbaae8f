"""What all forms say at their top: versions and time."""

from diagnoser.facts.lazy import lazy
from diagnoser.parsers.nvidia_smi.values import Draft, token

DATE = lazy(r"\s{0,8}[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}\s*\Z")
"""The time as nvidia-smi prints it: "Tue Dec  1 01:15:50 2026"."""

_VERSION = lazy(r"\d{1,6}(?:\.\d{1,6}){0,4}")


def version(text: str) -> str | None:
    """The version a value starts with: "610.57.04 [Deprecated; ...]" is "610.57.04"."""
    match = _VERSION.match(text.strip())
    return match.group() if match else None


def put_versions(smi: Draft, driver: str | None, cuda: str | None) -> None:
    """Set the driver's version with its branch, and CUDA's or why there is none."""
    if driver is not None and (found := version(driver)) is not None:
        smi.values.setdefault("driver_version", found)
        smi.values.setdefault("driver_branch", int(found.split(".", 1)[0]))
    if cuda is None:
        return
    if (found := version(cuda)) is not None:
        smi.values.setdefault("cuda_driver_version", found)
    elif token(cuda) == "err!":
        smi.values["cuda_lib"] = "broken"
    elif token(cuda) in ("n/a", "not found"):
        smi.values["cuda_lib"] = "absent"
