"""The engine of a cluster: every incident is a task of Ray, on a cluster that runs or on one made for this scan."""

import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

from diagnoser.agent.scan.engines import EngineError, Policy, Tries
from diagnoser.agent.scan.incidents import Settings
from diagnoser.agent.scan.work import Job, Result, work

_AHEAD = 2
"""Tasks that wait for each core, so that none is idle while the driver looks elsewhere."""

_LOOK_S = 1.0


class RayEngine:
    """address: of a running cluster ("auto", "ray://host:10001", "host:6379"); None: a cluster of this machine."""

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise EngineError("--engine ray needs Ray; pip install 'diagnoser[cluster]'") from error
        self._ray: Any = ray
        self._begun = not ray.is_initialized()
        if self._begun:
            try:
                ray.init(
                    address=address,
                    num_cpus=workers if address is None else None,
                    include_dashboard=False if address is None else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except Exception as error:  # Ray has many, and what matters is that there is no cluster
                raise EngineError(f"Ray cannot be used: {str(error)[:300]}") from error

    def results(
        self, jobs: Iterable[Job], settings: Settings, policy: Policy
    ) -> Iterator[tuple[Job, Result]]:
        ray = self._ray
        # Ray's own retries do not tell a poisoned file from a lost node; they are counted here.
        task = ray.remote(max_retries=0, num_cpus=1)(work)
        shared = ray.put(settings)
        tries = Tries(jobs, policy)
        running: dict[Any, tuple[Job, float]] = {}
        try:
            while True:
                while len(running) < _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))):
                    job = tries.next()
                    if job is None:
                        break
                    running[task.remote(job, shared)] = (job, time.monotonic())
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_S)
                now = time.monotonic()
                late = [one for one, (_, began) in running.items() if now - began > policy.timeout_s]
                for one in dict.fromkeys([*done, *late]):
                    job, _ = running.pop(one)
                    final = tries.ended(job, *self._answer(one, late=one not in done))
                    if final is not None:
                        yield job, final
        finally:
            for one in running:
                ray.cancel(one, force=True)

    def _answer(self, task: Any, *, late: bool) -> tuple[Result | None, str | None]:
        ray = self._ray
        if late:
            ray.cancel(task, force=True)
            return None, "reading it took too long"
        try:
            return ray.get(task), None
        except ray.exceptions.RayTaskError as error:
            cause = error.cause or error
            return None, f"reading it failed: {type(cause).__name__}: {str(cause)[:200]}"
        except ray.exceptions.RayError as error:
            return None, f"the process that read it was ended ({type(error).__name__})"

    def close(self) -> None:
        if self._begun:
            self._ray.shutdown()
