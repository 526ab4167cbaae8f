"""A server with SGLang's flags, log lines and endpoints, and seeded speeds: triton decodes more slowly than fa3.

Run as a program: ``python fake_sglang.py --port 30000 --attention-backend triton``. ``--fail`` ends as SGLang does when
an attention backend cannot be used. ``--deaf`` takes the flag and does not heed it, ``--says LINE`` prints a line all the
time, ``--story`` prints the logs of the story and fails as it does.
"""

import argparse
import asyncio
import os
import sys
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "load"))
from scheduled_server import Schedule, Server

GAP_S = {"triton": 0.010, "fa3": 0.006, "flashinfer": 0.006}
STORY = Path(__file__).parents[2] / "fixtures" / "story"


def say(words: str) -> None:
    print(f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {words}", flush=True)


def tell_the_story(backend: str | None) -> str:
    """The logs of an upgrade: cuDNN's check, unless it is off; then triton by default, unless flashinfer is asked for."""
    if os.environ.get("SGLANG_DISABLE_CUDNN_CHECK") != "1":
        print((STORY / "step5-cudnn-check.log").read_text(), flush=True)
        sys.exit(1)
    step = "step7-flashinfer" if backend == "flashinfer" else "step6-triton-default"
    print((STORY / f"{step}.log").read_text(), flush=True)
    return backend or "triton"


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--attention-backend")
    options.add_argument("--log-level", default="info")
    options.add_argument("--load-s", type=float, default=0.2)
    options.add_argument("--page-size", type=int)
    options.add_argument("--stream-interval", type=int)
    options.add_argument("--deaf", action="store_true")
    options.add_argument("--says", default="")
    options.add_argument("--story", action="store_true")
    chosen = options.parse_args()
    backend = chosen.attention_backend or "fa3"
    if chosen.story:
        backend = tell_the_story(chosen.attention_backend)
    if chosen.deaf:
        backend = "triton"
    if not chosen.story:
        say(
            f"server_args=ServerArgs(model_path='/models/small', port={chosen.port}, attention_backend='{backend}', tp_size=1)"
        )
        say("Load weight begin. avail mem=138.51 GB")
    await asyncio.sleep(chosen.load_s)
    if backend not in GAP_S:  # as a card that is too small
        say("Scheduler hit an exception: Traceback (most recent call last):")
        print(
            '  File "/opt/sglang/srt/managers/scheduler.py", line 3169, in run_scheduler_process\n    scheduler = Scheduler()'
        )
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 GiB. GPU 0 has a total capacity of "
              "139.80 GiB of which 1.29 GiB is free.", flush=True)  # fmt: skip
        sys.exit(1)
    served = Schedule(
        engine="sglang", ttft_s=0.02, gap_s=GAP_S[backend], flags={"attention_backend": backend}
    )
    server = await asyncio.start_server(
        Server(served).connection, "127.0.0.1", chosen.port, reuse_address=True
    )
    say("The server is fired up and ready to roll!")
    while chosen.says:
        await asyncio.sleep(0.02)
        say(chosen.says)
    await server.serve_forever()


asyncio.run(main())
