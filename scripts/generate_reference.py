"""Write the generated parts of the documentation from the code; with `--check` only say whether they are current.

A page holds regions between `<!-- generated: NAME -->` and `<!-- end of generated -->`; everything else in it is
written by hand. `docs/reference/openapi.json` is generated whole.
"""

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from antiphon.agents.acp.options import AcpOptions
from antiphon.agents.catalogue import ADAPTERS, CONFIGURED, SAMPLES, build
from antiphon.agents.claude.options import ClaudeOptions
from antiphon.agents.codex.options import CodexOptions
from antiphon.agents.command.options import CommandOptions
from antiphon.agents.local.options import LocalOptions
from antiphon.agents.openai.options import McpServer, OpenAIOptions
from antiphon.agents.pi.options import PiOptions
from antiphon.cli.exits import exit_code
from antiphon.cli.grammar import Command, Option
from antiphon.cli.helping import ENVIRONMENT, usage
from antiphon.cli.table import COMMANDS, GLOBALS
from antiphon.client import ApiError, Client
from antiphon.config import HostTable
from antiphon.core.events import EVENTS, Event
from antiphon.core.table import NEW, TRANSITIONS
from antiphon.host.settings import AgentSettings
from antiphon.http.openapi import document
from antiphon.http.problems import STATUSES, TITLES
from antiphon.ports.agent import Capabilities
from antiphon.webhooks.settings import WebhooksTable

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REGION = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def prose(kind: type) -> str:
    """The docstring that a class has itself, on one line."""
    return " ".join(inspect.cleandoc(kind.__dict__.get("__doc__") or "").split())


def events() -> str:
    """Every type of event with what its data holds."""

    def data(kind: type[Event]) -> str:
        fields = [field for field in msgspec.structs.fields(kind) if field.name not in ("turn_id", "message_id")]
        return ", ".join(f"`{field.encode_name}`" + ("" if field.required else "?") for field in fields)

    rows = [(f"`{name}`", data(kind), prose(kind)) for name, kind in EVENTS.items()]
    return (
        table(("type", "data", ""), rows)
        + "\n\nA question mark: the field is there only where it has something to say."
    )


def errors() -> str:
    """Every stable code with its HTTP status and the exit code of the command line."""
    rows = [
        (f"`{code}`", status, exit_code(ApiError.of(status, {"code": code})), TITLES[code])
        for code, status in STATUSES.items()
    ]
    return table(("code", "status", "exit", "means"), rows)


def commands() -> str:
    """Every command with what it takes, and what all of them take."""
    everywhere = table(("before or after every command", ""), map(option_row, GLOBALS))
    environment = table(("environment", ""), [(f"`{name}`", meaning) for name, meaning in ENVIRONMENT])
    return "\n\n".join([everywhere, environment, *map(command_section, COMMANDS)])


def command_section(command: Command) -> str:
    """The section of one command."""
    taken = [(f"`{argument.name}`", argument.help) for argument in command.arguments]
    taken += [option_row(option) for option in command.options]
    parts = [
        f"### {command.name.removeprefix('antiphon ')}",
        f"```text\n{usage(command)}\n```",
        command.summary,
        command.about,
        table(("", ""), taken) if taken else "",
        "\n".join(["```sh", *command.examples, "```"]) if command.examples else "",
    ]
    return "\n\n".join(part for part in parts if part)


def option_row(option: Option) -> tuple[str, str]:
    """An option and what it does, with the values that it takes."""
    names = ", ".join(f"`{name} {option.value}`".replace(" `", "`") for name in (option.short, option.name) if name)
    choices = f" One of {', '.join(f'`{choice}`' for choice in option.choices)}." if option.choices else ""
    return names, option.help + choices


def states() -> str:
    """One Mermaid diagram for each machine of the table of transitions."""
    parts: list[str] = []
    for machine in dict.fromkeys(transition.machine for transition in TRANSITIONS):
        moves = [transition for transition in TRANSITIONS if transition.machine == machine]
        left = {move.source for move in moves}
        lines = [f"    {node(move.source)} --> {move.target} : {label(move.cause)}" for move in moves]
        ends = [f"    {end} --> [*]" for end in dict.fromkeys(move.target for move in moves) if end not in left]
        title = "An agent's process" if machine == "agent" else f"A {machine}"
        parts.append("\n".join([f"### {title}", "", "```mermaid", "stateDiagram-v2", *lines, *ends, "```"]))
    return "\n\n".join(parts)


def node(state: str) -> str:
    """A state's name in Mermaid."""
    return "[*]" if state == NEW else state


def label(cause: str) -> str:
    """A cause as the label of an arrow: a colon would end it."""
    event, _, outcome = cause.partition(":")
    return f"{event} ({outcome})" if outcome else event


def settings() -> str:
    """Every setting of the configuration file with its default."""
    kinds = {"`[host]`": HostTable, "`[webhooks]`": WebhooksTable}
    return "\n\n".join(table((head, "default", "means"), attributes(kind)) for head, kind in kinds.items())


def options() -> str:
    """Every option of the adapters that have options."""
    kinds = {
        '`adapter = "command"`': CommandOptions,
        '`adapter = "claude"`': ClaudeOptions,
        '`adapter = "codex"`': CodexOptions,
        '`adapter = "acp"`': AcpOptions,
        '`adapter = "openai"`': OpenAIOptions,
        '`adapter = "local"`': LocalOptions,
        "`[agents.NAME.mcp.SERVER]`": McpServer,
        '`adapter = "pi"`': PiOptions,
    }
    return "\n\n".join(table((head, "default", "means"), attributes(kind)) for head, kind in kinds.items())


def matrix() -> str:
    """What each built-in adapter declares that it can do, as it is without further options."""
    names = Capabilities.__struct_fields__
    rows: list[tuple[str, ...]] = []
    for name in sorted((*ADAPTERS, *CONFIGURED)):
        can = build(name, name, dict(SAMPLES.get(name, {}))).capabilities
        rows.append((f"`{name}`", *("yes" if getattr(can, field) else "" for field in names)))
    return table(("adapter", *(f"`{field}`" for field in names)), rows)


def agent_settings() -> str:
    """What every agent may be set to, whatever drives it."""
    return table(("`[agents.NAME]`", "default", "means"), attributes(AgentSettings))


def attributes(kind: type[msgspec.Struct]) -> Iterable[tuple[str, str, str]]:
    """The fields of a table of the configuration: name, default, and what its docstring says."""
    prose = "\n".join(inspect.cleandoc(each.__doc__ or "") for each in kind.__mro__ if issubclass(each, msgspec.Struct))
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n        .*)*)", prose, re.MULTILINE))
    for field in msgspec.structs.fields(kind):
        if field.name != "adapter":
            made = None if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            default = made if field.default is msgspec.NODEFAULT else field.default
            shown = "" if field.required or default is None else f"`{json.dumps(default)}`"
            yield f"`{field.name}`", shown, " ".join(meanings[field.name].split())


def promises() -> str:
    """The tests that hold each promise."""
    manifest = tomllib.loads((ROOT / "tests" / "promises.toml").read_text())
    lines: list[str] = []
    for promise, entry in manifest.items():
        lines.append(f"- **{promise}**")
        lines += [f"  - `{test.removeprefix('tests/')}`" for test in entry["tests"]]
    return "\n".join(lines)


def client() -> str:
    """The methods of the sync client, as they are called, with what their docstrings say."""
    parts: list[str] = []
    for name, method in vars(Client).items():
        function = getattr(method, "__func__", method)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        taken = list(inspect.signature(function).parameters.values())[1:]
        bare = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in taken])
        parts.append(f"### {name}\n\n```text\n{name}{bare}\n```\n\n{as_markdown(inspect.getdoc(function) or '')}")
    return "\n\n".join(parts)


def as_markdown(docstring: str) -> str:
    """A docstring with its sections of names (`Args:` and the like) as lists."""
    lines = [re.sub(r"^(Args|Raises):$", r"**\1**\n", line) for line in docstring.splitlines()]
    named = [re.sub(r"^    ([\w, ]+): ", r"- `\1`: ", line) for line in lines]
    return "\n".join(re.sub(r"^        ", "  ", line) for line in named)


def decisions() -> str:
    """Every decision record by its title."""
    pages = sorted(page for page in (DOCS / "decisions").glob("*.md") if not page.name.startswith("000-"))
    titles = {page: re.sub(r"^#\s*", "", page.read_text().splitlines()[0]) for page in pages}
    return "\n".join(f"- [{title}]({page.name})" for page, title in titles.items())


def openapi() -> str:
    """The OpenAPI document, as `python -m antiphon.http.openapi` prints it."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2).decode() + "\n"


GENERATED: dict[str, Callable[[], str]] = {
    "agent_settings": agent_settings,
    "client": client,
    "commands": commands,
    "decisions": decisions,
    "errors": errors,
    "matrix": matrix,
    "events": events,
    "options": options,
    "promises": promises,
    "settings": settings,
    "states": states,
}


def with_regions(text: str) -> str:
    """A page with its generated regions made anew."""
    return REGION.sub(lambda found: f"{found[1]}\n{GENERATED[found['name']]()}\n\n{found[3]}", text)


def wanted() -> dict[Path, str]:
    """What every page that has generated parts, and every generated file, should hold."""
    pages = {page: page.read_text() for page in sorted(DOCS.rglob("*.md"))}
    made = {page: with_regions(text) for page, text in pages.items() if REGION.search(text)}
    return made | {DOCS / "reference" / "openapi.json": openapi()}


def main() -> int:
    """Write what is not current, or with `--check` name it and return 1."""
    stale = [(page, text) for page, text in wanted().items() if not page.exists() or page.read_text() != text]
    if "--check" in sys.argv[1:]:
        for page, _ in stale:
            print(f"{page.relative_to(ROOT)} is not current: run `make docs`.", file=sys.stderr)
        return bool(stale)
    for page, text in stale:
        page.write_text(text)
        print(f"wrote {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
