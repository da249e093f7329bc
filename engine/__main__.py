"""`python -m engine serve|bench|openapi …`: argument parsing and dispatch, nothing else.

`api` and `core` are the children that `serve` starts, `grammar` is one of the core's; they take their settings from
the control socket.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys

from engine.config import ConfigError
from engine.flags import FlagParser, add_flags, check_files, config_of, dashed, unknown_flag


def main() -> int:
    parser = FlagParser(prog="python -m engine")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve one model over HTTP", allow_abbrev=False)
    add_flags(serve)
    for name in ("api", "core", "grammar"):
        commands.add_parser(name).add_argument("--control-fd", type=int, required=True)
    commands.add_parser("openapi", help="print the description of its HTTP API (OpenAPI 3)")
    bench = commands.add_parser(
        "bench", help="measure a server: bench serve|peer|offline|soak --help", add_help=False
    )
    bench.add_argument("rest", nargs=argparse.REMAINDER)
    given = sys.argv[1:]
    arguments, unknown = parser.parse_known_args(dashed(given) if given[:1] == ["serve"] else given)
    if unknown:
        serve.error(unknown_flag(serve, unknown[0]))
    logging.basicConfig(
        level=logging.INFO,
        format=f"%(asctime)s {arguments.command}[%(process)d] %(levelname)s %(name)s: %(message)s",
    )
    if arguments.command == "serve":
        return _serve(arguments)
    if arguments.command == "bench":
        return _bench(arguments.rest)
    if arguments.command == "openapi":
        from engine.server.routes import describe

        sys.stdout.write(describe())
        return 0
    control = socket.socket(fileno=arguments.control_fd)
    if arguments.command == "api":
        from engine.server.api_process import main as api_main

        return api_main(control)
    if arguments.command == "grammar":
        from engine.grammar.compile_process import main as grammar_main

        return grammar_main(control)
    from engine.core_process import main as core_main

    status = core_main(control)
    logging.shutdown()
    # Taking torch and Triton apart object by object takes over a second, and they report what is left as leaks.
    os._exit(status)


def _bench(rest: list[str]) -> int:
    if rest[:1] == ["offline"]:
        from engine.bench.offline import main as offline_main

        return offline_main(rest[1:])
    if rest[:1] == ["peer"]:
        from engine.bench.peer import main as peer_main

        return peer_main(rest[1:])
    if rest[:1] == ["soak"]:
        from engine.bench.soak import main as soak_main

        return soak_main(rest[1:])
    from engine.bench.serve import main as serve_main

    return serve_main(rest)


def _serve(arguments: argparse.Namespace) -> int:
    from engine.process import serve

    try:
        config = config_of(arguments)
        check_files(config)
        for note in arguments.vllm_notes:
            logging.getLogger(__name__).info("%s", note)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return serve(config)


if __name__ == "__main__":
    sys.exit(main())
