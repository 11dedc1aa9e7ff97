"""An MCP server for tests, on stdin and stdout, without the MCP library: `python mcp_lab.py [FAULT]`.

Its tools: `touch` makes a file, `say` gives back a text, `spawn` leaves a process behind, `hang` never answers and
ignores SIGTERM, `die` ends it, `fail` fails. FAULT: `silent` answers nothing at all; `early` ends at once; `loud`
floods stderr and says lines that are nonsense before each answer; `split` says every byte in a write of its own.
Protocol: MCP 2025-06-18.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = ("touch", "say", "spawn", "hang", "die", "fail", "environment")


def call(name: str, text: str) -> tuple[str, bool]:
    match name:
        case "touch":
            Path(text).touch()
            return f"touched {text}", False
        case "say":
            return text, False
        case "spawn":
            stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
            child = subprocess.Popen([sys.executable, "-S", "-c", stubborn], start_new_session=True)
            return f"{child.pid} {os.getpid()}", False
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(300)
        case "die":
            os._exit(3)
        case "environment":
            return json.dumps(dict(os.environ)), False
        case _:
            return f"it failed: {text}", True


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            info = {"name": "lab", "version": "0"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            tools = [{"name": name, "description": f"to {name}", "inputSchema": TEXT} for name in TOOLS]
            return {"result": {"tools": tools}}
        case "tools/call":
            params = request["params"]
            text, failed = call(params["name"], (params.get("arguments") or {}).get("text", ""))
            return {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}
        case method:
            return {"error": {"code": -32601, "message": f"no method {method}"}}


def write(data: bytes) -> None:
    for piece in [data[place : place + 1] for place in range(len(data))] if FAULT == "split" else [data]:
        os.write(1, piece)


def main() -> None:
    if FAULT == "early":
        sys.exit("this server does not want to be")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request or "method" not in request or FAULT == "silent":
            continue
        if FAULT == "loud":
            os.write(2, b"noise " * 20_000)
            os.write(1, b"not JSON\n\xff\xfe\n\n{}\n")
        write(
            json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request)}, ensure_ascii=False).encode() + b"\n"
        )


if __name__ == "__main__":
    main()
