"""What two sides say differently of the same subjects, without what never matters."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from diagnoser.compare.subjects import Stated, Subject, alike, same

NEVER = frozenset((
    "random_seed", "seed", "port", "host", "nccl_port", "dist_init_addr", "dist_init_method",
    "served_model_name", "api_key", "admin_api_key", "log_level", "log_level_http", "uvicorn_log_level",
    "log_requests", "log_requests_level", "log_requests_format", "crash_dump_folder",
    "file_storage_path", "root_path", "node_rank", "base_gpu_id", "fastapi_root_path",
    "disable_log_requests", "disable_log_stats", "enable_log_requests", "max_log_len", "show_time_cost",
    "enable_metrics", "metrics_port", "instance_id", "engine_id", "disaggregation_bootstrap_port",
    "weight_version", "watchdog_timeout", "gc_warning_threshold_secs", "ssl_keyfile", "ssl_certfile",
    "tokenizer_path", "tokenizer", "download_dir", "decode_log_interval", "shutdown_timeout",
))  # fmt: skip
"""Options that name a run, a place or a log and cost no time (sglang 0.5.9 server_args.py, vllm 0.33.0 engine/
arg_utils.py)."""

NEVER_SET = frozenset((
    "PWD", "OLDPWD", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "SHLVL", "HOSTNAME", "LANG", "LC_ALL",
    "TZ", "_", "PS1", "MAIL", "DISPLAY", "SSH_CLIENT", "SSH_TTY", "SSH_CONNECTION", "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN", "POD_NAME", "POD_IP", "MASTER_ADDR", "MASTER_PORT",
))  # fmt: skip
"""Environment variables that say who and where, not how."""

SHORT_S = 1.0
"""Phases of start-up that differ by less have taken the same time."""

_UNSET = frozenset(["none", "false", "", "auto", "[]", "{}", "0"])
"""Values that say no more than that an option was left alone."""


class Difference(NamedTuple):
    """A subject with its value on both sides; None: that side does not state it."""

    subject: Subject
    before: Stated | None
    after: Stated | None

    def __str__(self) -> str:
        return f"{self.subject}: {_shown(self.before)} -> {_shown(self.after)}"

    @property
    def of_defaults(self) -> bool:
        """Whether a default moved: neither side stated it."""
        return all(side is not None and side.assumed is not None for side in (self.before, self.after))


def differences(before: Mapping[Subject, Stated], after: Mapping[Subject, Stated]) -> list[Difference]:
    """All differences, alike owners folded, in the order of area and name.

    What only one side states counts where it is an option or a variable that was set, or a package of a side whose
    packages are listed on both; otherwise that side was just not asked.
    """
    listed = {subject.kind for subject in before} & {subject.kind for subject in after}
    found = []
    for subject in sorted({*before, *after}, key=lambda one: (one.area, one.kind, one.name, one.field)):
        one, other = before.get(subject), after.get(subject)
        if _never(subject):
            continue
        if one is not None and other is not None:
            if not _alike(subject, one, other):
                found.append(Difference(subject, one, other))
        elif subject.kind in listed and _is_set(subject, one or other):
            found.append(Difference(subject, one, other))
    return _once(alike(found, lambda one: (_value(one.before), _value(one.after))))


def _never(subject: Subject) -> bool:
    return (subject.kind == "server_arg" and subject.name in NEVER) or (
        subject.kind == "env" and subject.name in NEVER_SET
    )


def _alike(subject: Subject, one: Stated, other: Stated) -> bool:
    if same(subject, (one.value, other.value)):
        return True
    if subject.area == "start-up" and isinstance(one.value, float) and isinstance(other.value, float):
        return abs(one.value - other.value) < SHORT_S
    if subject.name == "model_path" or (subject.kind, subject.field) == ("model", "path"):
        # The same model in another folder is the same model.
        return (
            str(one.value).rstrip("/").rsplit("/", 1)[-1] == str(other.value).rstrip("/").rsplit("/", 1)[-1]
        )
    return False


def _is_set(subject: Subject, stated: Stated | None) -> bool:
    if stated is None or subject.kind not in ("server_arg", "env", "package"):
        return False
    return subject.kind == "package" or str(stated.value).lower() not in _UNSET


def _once(found: Iterable[Difference]) -> list[Difference]:
    """What a log and a package list say alike (the version of NCCL) once."""
    return list({str(one): one for one in reversed(list(found))}.values())[::-1]


def _value(stated: Stated | None) -> str:
    return repr(stated.value) if stated else "-"


def _shown(stated: Stated | None) -> str:
    if stated is None or stated.value is None:
        return "not set"
    return f"{stated.value} ({stated.assumed})" if stated.assumed else str(stated.value)
