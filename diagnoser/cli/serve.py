"""`diagnose serve`: the web page and the REST API."""

import argparse
import os
import secrets
import sys

from diagnoser.cli.output import fail

PROGRAM = "diagnose serve"


def run(arguments: list[str]) -> int:
    """Exit code 0: stopped by Ctrl-C; 2: wrong call, or the port cannot be taken."""
    options = argparse.ArgumentParser(
        prog=PROGRAM,
        description="A page to paste and drop logs into, and a REST API (GET /api/openapi.json). Only this machine "
        "reaches it unless another address is named, which needs a token.",
        allow_abbrev=False,
    )
    options.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1")
    options.add_argument("--port", type=int, default=8734, help="default: 8734; 0 takes a free one")
    options.add_argument(
        "--token", help="what visitors must know (default: $DIAGNOSER_TOKEN; made up where one is needed)"
    )
    options.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a further name of this server"
    )
    options.add_argument(
        "--max-mib", type=int, default=100, metavar="N", help="the largest request (default: 100)"
    )
    chosen = options.parse_args(arguments)
    try:
        import uvicorn

        from diagnoser.serve.app import application
    except ImportError as error:
        return fail(f"{error.name} is not installed; pip install 'diagnoser[web]'", PROGRAM)
    from diagnoser.serve.limits import MIB, Door, Limits, is_loopback

    token = chosen.token or os.environ.get("DIAGNOSER_TOKEN")
    if token is None and not is_loopback(chosen.bind):
        token = secrets.token_urlsafe(24)
        print(f"token: {token}", file=sys.stderr)
    names = {
        "127.0.0.1",
        "localhost",
        "::1",
        chosen.bind.lower(),
        *(name.lower() for name in chosen.allow_host),
    }
    app = application(Door(token, frozenset(names)), Limits(bytes=max(1, chosen.max_mib) * MIB))
    config = uvicorn.Config(
        app,
        host=chosen.bind,
        port=chosen.port,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=15,
    )
    try:
        socket = config.bind_socket()
    except SystemExit:
        return fail(f"{chosen.bind}:{chosen.port} cannot be taken; choose another --port", PROGRAM)
    shown = f"[{chosen.bind}]" if ":" in chosen.bind else chosen.bind
    print(f"http://{shown}:{socket.getsockname()[1]}/  (Ctrl-C ends it)", file=sys.stderr, flush=True)
    uvicorn.Server(config).run(sockets=[socket])
    return 0
