"""Every fact kind by name. A new module of facts is added to the names here and nowhere else."""

from functools import cache
from importlib import import_module

from diagnoser.facts.base import Fact

MODULES = ("bench", "engine", "gpu", "host", "kernel", "loader", "nccl", "packages", "series_stats")


def kinds() -> dict[str, type[Fact]]:
    """Kind name to class, of all modules."""
    return {kind: fact for module in MODULES for kind, fact in _kinds(module).items()}


def kind_class(kind: str) -> type[Fact] | None:
    """The class of one kind; later modules are imported only when the earlier ones do not have it."""
    for module in MODULES:
        found = _kinds(module).get(kind)
        if found is not None:
            return found
    return None


@cache
def _kinds(module: str) -> dict[str, type[Fact]]:
    values = vars(import_module(f"diagnoser.facts.{module}")).values()
    return {
        value.kind: value
        for value in values
        if isinstance(value, type) and issubclass(value, Fact) and value.kind
    }
