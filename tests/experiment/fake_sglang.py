"""A server with SGLang's flags, log lines and endpoints, and seeded speeds: triton decodes more slowly than fa3.

Run as a program: ``python fake_sglang.py --port 30000 --attention-backend triton``. ``--fail`` ends as SGLang does when
an attention backend cannot be used.
"""

import argparse
import asyncio
import sys
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "load"))
from scheduled_server import Schedule, Server

GAP_S = {"triton": 0.010, "fa3": 0.006}


def say(words: str) -> None:
    print(f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {words}", flush=True)


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--attention-backend", default="fa3")
    options.add_argument("--log-level", default="info")
    options.add_argument("--load-s", type=float, default=0.2)
    chosen = options.parse_args()
    backend = chosen.attention_backend
    say(
        f"server_args=ServerArgs(model_path='/models/small', port={chosen.port}, attention_backend='{backend}', tp_size=1)"
    )
    say("Load weight begin. avail mem=138.51 GB")
    await asyncio.sleep(chosen.load_s)
    if backend not in GAP_S:
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
    await server.serve_forever()


asyncio.run(main())
