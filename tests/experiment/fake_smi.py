"""A small nvidia-smi for PATH that prints captures of an H200, with what a test changes in them."""

from pathlib import Path

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures" / "h200"


def query(state: str, **changed: str) -> str:
    """A captured ``--query-gpu`` of the GPU "idle" or "busy", with the values of some columns changed."""
    names, values = (CAPTURES / state / "query.csv").read_text().splitlines()[:2]
    row = dict(zip(names.split(", "), values.split(", "), strict=True))
    for column, value in changed.items():
        name = next(one for one in row if one.partition(" ")[0].replace(".", "_") == column)
        row[name] = value
    plain = [
        value.removesuffix(" MHz").removesuffix(" W").removesuffix(" MiB").removesuffix(" %")
        for value in row.values()
    ]
    return f"{names}\n{', '.join(plain)}\n"


def install(
    folder: Path, gpus: str, apps: str = "pid, process_name, used_gpu_memory [MiB]\n", *, old: bool = False
) -> Path:
    """An executable in ``folder`` that prints the files gpus.csv and apps.csv beside it, which a test may change.

    old: a driver that knows the former names of fields only, as drivers before 535.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpus.csv").write_text(gpus)
    (folder / "apps.csv").write_text(apps)
    refuse = (
        "  *clocks_event_reasons*) echo 'Field \"clocks_event_reasons.active\" is not a valid field to query.'; exit 2 ;;\n"
        if old
        else ""
    )
    tool = folder / "nvidia-smi"
    tool.write_text(
        f'#!/bin/sh\ncase "$*" in\n{refuse}  *--query-gpu*) cat {folder}/gpus.csv ;;\n'
        f"  *--query-compute-apps*) cat {folder}/apps.csv ;;\n  *) exit 2 ;;\nesac\n"
    )
    tool.chmod(0o755)
    return folder
