"""Says why an LLM inference server is slow or will not start.

>>> from diagnoser import diagnose
>>> diagnosis = diagnose("server.log")     # doctest: +SKIP
"""

from typing import Any

from diagnoser.version import __version__

__all__ = ["DiagnoserError", "Diagnosis", "Options", "__version__", "diagnose"]


class DiagnoserError(Exception):
    """Nothing could be read or the call is wrong; the message is one clear sentence."""


def __getattr__(name: str) -> Any:
    # Loaded on first use: `diagnose --version` and imports of submodules must not pay for all of it.
    if name in ("diagnose", "Options"):
        from diagnoser.agent import session

        return getattr(session, name)
    if name == "Diagnosis":
        from diagnoser.inference.diagnosis import Diagnosis

        return Diagnosis
    raise AttributeError(f"module 'diagnoser' has no attribute {name!r}")
