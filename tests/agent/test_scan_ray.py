"""Ray: two nodes, a worker that is killed, a driver that is restarted, corrupt files among 2,000, object storage."""

import os
import random
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from diagnoser.agent.scan.engines import Policy  # noqa: E402
from diagnoser.agent.scan.incidents import Row, Settings  # noqa: E402
from diagnoser.agent.scan.local import LocalEngine  # noqa: E402
from diagnoser.agent.scan.on_ray import RayEngine  # noqa: E402
from diagnoser.agent.scan.run import scan  # noqa: E402
from diagnoser.agent.scan.work import Job, Result  # noqa: E402

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SETTINGS = Settings(year=2026)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, on this machine."""
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = str(FIXTURES.parent)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 files: the stories' logs on 50 hosts; one is packed and corrupt, one no text."""
    folder = tmp_path_factory.mktemp("fleet")
    texts = [path.read_bytes() for path in sorted((FIXTURES / "story").glob("*.log"))]
    for number in range(1998):
        place = folder / f"gpu-{number % 50:02}"
        place.mkdir(exist_ok=True)
        (place / f"server-{number}.log").write_bytes(texts[number % len(texts)])
    (folder / "gpu-00" / "corrupt.log.gz").write_bytes(b"\x1f\x8b\x08\0" + random.Random(1).randbytes(5000))
    (folder / "gpu-01" / "core").write_bytes(b"\x7fELF" + bytes(5000))
    return folder


def test_two_nodes_a_killed_worker_and_a_corrupt_file(cluster: Any, logs: Path) -> None:
    wanted = scan([str(logs)], LocalEngine(2), SETTINGS)
    engine = RayEngine(cluster.address)
    killed: list[int] = []

    def kill_one() -> None:
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and b"ray::work" in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
                    killed.append(int(entry.name))
                    return
            except OSError:
                continue

    def progress(done: int, _count: int, _size: int) -> None:
        if done == 300:
            threading.Thread(target=kill_one).start()

    found = scan([str(logs)], engine, SETTINGS, progress=progress)
    assert len(found.rows) == 2000
    assert killed
    assert found == wanted
    assert found.digest.failed == 2
    assert {Path(row.incident).name for row in found.rows if row.error} == {"corrupt.log.gz", "core"}


class Stopping:
    """An engine whose driver stops after some rows."""

    def __init__(self, engine: RayEngine, after: int) -> None:
        self._engine = engine
        self._after = after
        self.given = 0

    def results(
        self, jobs: Iterable[Job], settings: Settings, policy: Policy
    ) -> Iterator[tuple[Job, Result]]:
        for one in self._engine.results(jobs, settings, policy):
            if self.given == self._after:
                raise KeyboardInterrupt
            self.given += 1
            yield one


def test_a_driver_that_is_restarted(cluster: Any, logs: Path, tmp_path: Path) -> None:
    places = [str(logs / f"gpu-0{number}") for number in range(5)]
    engine, state = RayEngine(cluster.address), tmp_path / "state.jsonl"
    with pytest.raises(KeyboardInterrupt):
        scan(places, Stopping(engine, after=80), SETTINGS, state=state)
    again = Stopping(engine, after=10**6)
    found = scan(places, again, SETTINGS, state=state)
    # What is done is not done again; the two that cannot be read are tried again.
    assert len(found.rows) - 80 <= again.given <= len(found.rows) - 80 + 2
    assert found == scan(places, LocalEngine(2), SETTINGS)


def test_object_storage(cluster: Any, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    s3fs = pytest.importorskip("s3fs")
    server.start()
    host, port = server.get_host_and_port()
    # The workers are other processes: where the storage is, they learn from what fsspec reads.
    settings = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        system = s3fs.S3FileSystem()
        system.mkdir("logs")
        names = sorted(path for path in logs.glob("gpu-0[0-3]/*"))[:60]
        for path in names:
            system.pipe(f"logs/{path.parent.name}/{path.name}", path.read_bytes())
        here = {
            Path(row.incident).name: row.causes
            for row in scan(list(map(str, names)), LocalEngine(1), SETTINGS).rows
        }
        for rows in (scan(["s3://logs"], LocalEngine(2), SETTINGS).rows, _on_cluster(cluster, settings)):
            assert len(rows) == 60
            assert {
                row.incident.rpartition("/")[2]: [cause.rule for cause in row.causes] for row in rows
            } == {name: [cause.rule for cause in causes] for name, causes in here.items()}
    finally:
        server.stop()


def _on_cluster(cluster: Any, settings: dict[str, str]) -> list[Row]:
    """A driver whose job brings its variables to the workers."""
    ray.shutdown()
    ray.init(cluster.address, runtime_env={"env_vars": settings}, log_to_driver=False)
    return scan(["s3://logs"], RayEngine(cluster.address), SETTINGS).rows
