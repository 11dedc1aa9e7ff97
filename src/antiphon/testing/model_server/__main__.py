"""`python -m antiphon.testing.model_server`: one model server, until it is interrupted."""

import argparse
import asyncio
import sys

from antiphon.testing.model_server.server import ModelServer


async def serve(port: int) -> None:
    """Print where it listens, then serve for ever."""
    async with ModelServer(port=port) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> int:
    """Parse the arguments and serve."""
    parser = argparse.ArgumentParser(prog="python -m antiphon.testing.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="where to listen on 127.0.0.1; a free port by default")
    arguments = parser.parse_args()
    try:
        asyncio.run(serve(arguments.port))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
