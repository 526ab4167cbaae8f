"""Whether two launches are the same server but for the change, and whether the change took."""

from collections.abc import Iterator

from diagnoser.experiment.change import Changes
from diagnoser.experiment.load.guards import Finding
from diagnoser.experiment.results import Identity

Value = str | int | float | bool | None

VOLATILE = frozenset(
    ["random_seed", "nccl_port", "port", "dist_init_addr", "pid", "start_time", "status", "host"]
)
"""Flags that a server chooses anew at each start."""

DECIDING = frozenset([
    "model_path", "quantization", "dtype", "kv_cache_dtype", "tp_size", "pp_size", "dp_size", "ep_size",
    "context_length", "max_model_len", "tensor_parallel_size", "revision", "load_format",
])  # fmt: skip
"""Another value of these is another server, whatever else was changed."""


def _named(changes: Changes) -> set[str]:
    return {one.name.lstrip("-").replace("-", "_") for one in changes}


def same(a: Identity, b: Identity, changes: Changes) -> Iterator[Finding]:
    """What differs between two launches beyond the changes between them (none: both are of one arm)."""
    for field in ("engine", "version", "model"):
        before, after = getattr(a, field), getattr(b, field)
        if before != after:
            yield Finding(
                "identity", "void", f"the {field} is {after} in the one launch and {before} in the other"
            )
    allowed = _named(changes)
    others = []
    for name in sorted((a.flags.keys() | b.flags.keys()) - VOLATILE - allowed):
        before, after = a.flags.get(name), b.flags.get(name)
        if before == after:
            continue
        if not changes or name in DECIDING:
            yield Finding(
                "identity", "void", f"{name} is {after} in the one launch and {before} in the other"
            )
        else:
            others.append(f"{name} {before} -> {after}")
    if others:
        yield Finding("identity", "note", f"with the change came: {', '.join(others[:8])}")


def took(a: Identity, b: Identity, changes: Changes) -> Finding | None:
    """A finding when the server itself says that a change of a flag did nothing."""
    for change in changes:
        name = change.name.lstrip("-").replace("-", "_")
        if not change.action.endswith("flag") or name not in a.flags or name not in b.flags:
            continue
        if a.flags[name] == b.flags[name]:
            text = f"the change was not applied: the server says {name} is {b.flags[name]} with it and without it"
            return Finding("mechanism", "void", text)
    return None
