"""Every command of antiphon, in the order in which help shows them."""

from antiphon.cli.errands import MESSAGE_WEBHOOK, SCHEDULES, WEBHOOKS
from antiphon.cli.grammar import Argument, Command, Group, Option
from antiphon.cli.upkeep import STORES

WHEN_BUSY = ("refuse", "queue", "steer", "collect", "interrupt", "rollback")
STATUSES = ("starting", "idle", "running", "asking", "stalled", "errored", "dormant", "stopped")

GLOBALS = (
    Option("--url", "The host's address; never starts one. Default: $ANTIPHON_URL.", "URL"),
    Option("--data-dir", "The host's data directory. Default: $ANTIPHON_DATA_DIR.", "DIR", completes="dir"),
    Option("--token", "The token to show; better in $ANTIPHON_TOKEN, where `ps` does not see it.", "TOKEN"),
    Option("--no-start", "Don't start a host when none runs.", kind="flag"),
    Option("--json", "Print JSON.", kind="flag"),
    Option("--no-color", "Print without colour, as $NO_COLOR does.", kind="flag"),
    Option("--quiet", "Print no notes on stderr, only answers and errors.", kind="flag", short="-q"),
    Option("--version", "Print the version.", kind="flag"),
    Option("--help", "Print help.", kind="flag", short="-h"),
)

GROUPS = (
    Group("session", "Sessions: start them, talk to them, look after them."),
    Group("message", "Messages: read their receipts, wait for them, change or withdraw what waits."),
    Group("turn", "Turns: look at one, wait for it, cancel it."),
    Group("permission", "What agents ask a person."),
    Group("webhook", "Who is told when messages and sessions end."),
    Group("schedule", "Messages that are sent again and again."),
    Group("agent", "The agents that the host can run."),
    Group("host", "The hosts that share a store, and which of them own sessions."),
    Group("store", "Where sessions are kept, as a whole."),
    Group("token", "Tokens for other clients."),
)

_REF = Argument("REF", "The session, by its key or its id (ses_…).", completes="session")
_MESSAGE = Argument("ID", "The message's id (msg_…).")
_TURN = Argument("ID", "The turn's id (turn_…).")
_PERMISSION = Argument("ID", "The permission request's id, from `antiphon permission list`.")
_AGENT = Option("--agent", "The agent that answers, from `antiphon agent list`.", "NAME", completes="agent")
_CWD = Option("--cwd", "The directory in which the agent works. Default: this one.", "DIR", completes="dir")
_MODEL = Option("--model", "The model, in the agent's own words.", "M")
_TITLE = Option("--title", "A title for people.", "T")
_LABEL = Option("--label", "A label; may be given again.", "NAME=VALUE", many=True)
_SETTING = Option("--setting", "A setting, its value as JSON; may be given again.", "NAME=VALUE", many=True)
_BUSY = Option("--when-busy", "What a message does while a turn runs.", "MODE", choices=WHEN_BUSY)
_TIMEOUT = Option("--timeout", "Stop waiting after so long; the turn goes on. Exit code 6.", "SECONDS", "seconds")
_LIMIT = Option("--limit", "Show so many. Default: 50.", "N", "whole")
_ALL = Option("--all", "Show all of them.", kind="flag")
_NOTE = Option("--note", "A word to the agent.", "TEXT")
_CHOICE = Option("--option", "One of the options that the agent offers, by its id.", "ID")

EXIT_CODES = (
    (0, "done; for a message: answered"),
    (1, "the turn failed, or an error with no number of its own"),
    (2, "bad usage"),
    (3, "refused: busy, queue full, draining, key in use"),
    (4, "no such session, message or turn"),
    (5, "no host reached"),
    (6, "the wait ended first; the turn goes on; the receipt's id is printed on stderr"),
    (7, "cancelled, interrupted or withdrawn"),
    (8, "not allowed (token, scope)"),
    (9, "agent check --fault-lab: nothing can be said about this agent, as it says nothing on demand"),
)

COMMANDS = (
    Command(
        ("serve",),
        "Run the host.",
        "host:serve",
        options=(
            Option("--host", "The address to listen on. Default: 127.0.0.1.", "H"),
            Option("--port", "The port to listen on; 0 takes a free one.", "N", "whole"),
            Option("--store", "Where sessions are kept. Default: $ANTIPHON_STORE, else the data directory.", "URL"),
            Option(
                "--config", "The configuration. Default: antiphon.toml in the data directory.", "FILE", completes="file"
            ),
            Option("--log-level", "How much to log.", "LEVEL", choices=("debug", "info", "warning", "error")),
        ),
        about="""\
Serves one data directory until it gets SIGTERM or Ctrl-C. Other commands find it through ready.json there. They also
start one in the background when none runs, so you need this only to choose its address, store or configuration.""",
        examples=(
            "antiphon serve",
            "antiphon serve --port 7411 --data-dir ~/agents",
            "antiphon serve --store postgresql://db/antiphon",
        ),
    ),
    Command(
        ("session", "start"),
        "Start a session.",
        "session:start",
        (Argument("KEY", "A stable name of your choice, such as telegram:42.", optional=True),),
        (
            _AGENT,
            _CWD,
            _MODEL,
            _TITLE,
            _LABEL,
            _BUSY,
            _SETTING,
            Option(
                "--if-exists",
                "What to do when the key is in use: fail (exit code 3), or return that session.",
                "WHAT",
                choices=("error", "return"),
            ),
        ),
        about="Prints the session's key, or its id where it has none.",
        examples=(
            "antiphon session start telegram:42 --agent claude --cwd ~/project",
            "antiphon session start --agent echo --json",
        ),
    ),
    Command(
        ("session", "message"),
        "Send a message and print the answer.",
        "sending:message",
        (_REF, Argument("TEXT", "The message; `-`, or nothing, reads it from stdin.", optional=True)),
        (
            _BUSY,
            _TIMEOUT,
            Option("--no-wait", "Print the message's id as soon as it is accepted.", kind="flag"),
            Option("--stream", "Print the answer as it is said.", kind="flag"),
            Option(
                "--idempotency-key", "The same key and text are the same message, however often they are sent.", "K"
            ),
            Option("--deadline", "Fail it unless it has ended so long after it was accepted.", "SECONDS", "seconds"),
            Option("--deadline-waiting", "Fail it when it has waited so long for its turn.", "SECONDS", "seconds"),
            Option("--deadline-running", "Stop its turn, and fail it, after so long.", "SECONDS", "seconds"),
            Option("--sender", "For whom it is sent; `collect` keeps senders apart.", "NAME"),
            _AGENT._replace(help="Start a session with this agent when the key has none."),
            _CWD._replace(help="Where the agent of a session that is started works. Default: here."),
            _MODEL._replace(help="The model of a session that is started."),
            Option(
                "--file", "A file for the agent to look at; may be given again.", "PATH", many=True, completes="file"
            ),
        ),
        about="""\
The answer, and nothing else, goes to stdout. Without --timeout this waits for the end. Ctrl-C ends the waiting, not the
turn: it prints the message's id, which `antiphon message wait` takes. One line ending at the end of stdin is dropped.
Write -- before a text that begins with a dash.""",
        examples=(
            "antiphon session message telegram:42 'What did I ask?' --agent claude",
            "git diff | antiphon session message review - --agent codex --stream",
            "antiphon session message telegram:42 'Never mind' --when-busy interrupt",
            "antiphon session message nightly 'Run the tests' --no-wait",
        ),
    ),
    Command(
        ("session", "list"),
        "List sessions, newest activity first.",
        "session:list_",
        options=(
            Option("--status", "Only in this status; may be given again.", "STATUS", choices=STATUSES, many=True),
            _AGENT._replace(help="Only with this agent."),
            _LABEL._replace(help="Only with this label; may be given again."),
            Option("--search", "Only with this in the key or title.", "TEXT"),
            _LIMIT,
            _ALL,
            Option("--refs", "Print only what names each session, a line each.", kind="flag"),
        ),
        about="""\
For people, those that need one come first: who asks, who is stalled, whose last turn failed. --json, --refs and
--status keep to the order of activity.""",
        examples=(
            "antiphon session list",
            "antiphon session list --status running --status asking",
            "antiphon session list --json --all",
        ),
    ),
    Command(
        ("session", "show"), "Show a session.", "session:show", (_REF,), examples=("antiphon session show telegram:42",)
    ),
    Command(
        ("session", "watch"),
        "Follow a session's events.",
        "watching:watch",
        (_REF,),
        (
            Option("--after", "Begin after this cursor.", "CURSOR"),
            Option("--from-now", "Begin with what happens from now on.", kind="flag"),
            Option(
                "--types",
                "Only events of these types, such as turn.text,permission.*; may be given again.",
                "TYPES",
                many=True,
            ),
        ),
        about="""\
Begins with the session's first event and goes on until Ctrl-C, or until the session is deleted; restarts of the host
cost nothing and repeat nothing. With --json each line is an event. What reads it, such as head, may leave.""",
        examples=(
            "antiphon session watch telegram:42",
            "antiphon session watch telegram:42 --from-now --types permission.requested,turn.ended --json",
        ),
    ),
    Command(
        ("session", "attach"),
        "Look at a session on the whole terminal, and write to it.",
        "looking:attach",
        (_REF,),
        (_BUSY._replace(help="What a message does while a turn runs, to begin with; F2 changes it."),),
        about="""\
Shows the conversation as it goes on, what waits, and what the agent asks. Enter sends, Ctrl+J begins a line, Esc
cancels the running turn, Ctrl+B leads to the board. Leaving, with Ctrl+Q, ends nothing else.""",
        examples=("antiphon session attach telegram:42", "antiphon session attach telegram:42 --when-busy steer"),
    ),
    Command(
        ("session", "transcript"),
        "Print the conversation.",
        "session:transcript",
        (_REF,),
        (Option("--generation", "An earlier transcript, from before a clear.", "N", "whole"),),
        examples=("antiphon session transcript telegram:42",),
    ),
    Command(
        ("session", "queue"),
        "Show what waits, or reorder it.",
        "session:queue",
        (_REF, Argument("ID", "The ids of all that waits, in their new order.", optional=True, many=True)),
        (Option("--cancel", "Cancel all that waits; the running turn goes on.", kind="flag"),),
        examples=("antiphon session queue telegram:42", "antiphon session queue telegram:42 msg_2 msg_1"),
    ),
    Command(
        ("session", "pause"),
        "Let no turn start; what runs goes on, what comes waits.",
        "session:pause",
        (_REF,),
        about="It stays so, also after a restart of the host, until `antiphon session continue`.",
        examples=("antiphon session pause telegram:42",),
    ),
    Command(
        ("session", "continue"),
        "Let a paused queue go on.",
        "session:continue_",
        (_REF,),
        examples=("antiphon session continue telegram:42",),
    ),
    Command(
        ("session", "turns"),
        "List a session's turns, oldest first.",
        "session:turns",
        (_REF,),
        examples=("antiphon session turns telegram:42",),
    ),
    Command(
        ("session", "stop"),
        "Cancel what runs and refuse what comes.",
        "session:stop",
        (_REF,),
        about="What waits stays queued until `antiphon session resume`.",
        examples=("antiphon session stop telegram:42",),
    ),
    Command(
        ("session", "resume"),
        "Bring back a stopped session, or wake a dormant one.",
        "session:resume",
        (_REF,),
        examples=("antiphon session resume telegram:42",),
    ),
    Command(
        ("session", "clear"),
        "Begin a new transcript.",
        "session:clear",
        (_REF,),
        about="Cancels the running turn; what waits runs in the new generation.",
        examples=("antiphon session clear telegram:42",),
    ),
    Command(
        ("session", "rename"),
        "Give a session a title.",
        "session:rename",
        (_REF, Argument("TITLE", "The new title; an empty one takes it away.")),
        about="The key stays: it is what others find the session by.",
        examples=("antiphon session rename telegram:42 'Holiday plans'",),
    ),
    Command(
        ("session", "set"),
        "Change a session's model, labels, directory or settings.",
        "session:set_",
        (_REF,),
        (
            _MODEL,
            _CWD._replace(help="The directory in which the agent works."),
            _TITLE,
            _BUSY,
            _LABEL._replace(help="A label; an empty value takes it away; may be given again."),
            _SETTING._replace(help="A setting, its value as JSON; null takes it away; may be given again."),
            Option("--if-match", "Only if the session still has this revision.", "N", "whole"),
        ),
        examples=(
            "antiphon session set telegram:42 --model opus --label team=a",
            "antiphon session set telegram:42 --setting stall_after_s=600",
        ),
    ),
    Command(
        ("session", "delete"),
        "Delete a session and its history.",
        "session:delete",
        (_REF,),
        about="What runs or waits in it ends as cancelled. Keep a copy with `antiphon session export`.",
        examples=("antiphon session delete telegram:42",),
    ),
    Command(
        ("session", "fork"),
        "Begin a session where a turn of another one ended.",
        "session:fork",
        (_REF, Argument("KEY", "A name for the new session.", optional=True)),
        (Option("--turn", "The turn, by its id. Default: the last one that completed.", "ID"), _TITLE),
        about="It has the transcript until then, and its agent remembers it. Prints what names it.",
        examples=("antiphon session fork telegram:42 experiment", "antiphon session fork telegram:42 --turn turn_…"),
    ),
    Command(
        ("session", "export"),
        "Write a session with its whole history to a file.",
        "session:export",
        (_REF,),
        (Option("--output", "The file. Default: stdout.", "FILE", short="-o", completes="file"),),
        examples=("antiphon session export telegram:42 -o telegram-42.json",),
    ),
    Command(
        ("session", "import"),
        "Make a session from an export.",
        "session:import_",
        (Argument("FILE", "The file; `-` reads stdin.", completes="file"),),
        about="The session gets a new id, and its key where that is free. Prints what names it.",
        examples=("antiphon session import telegram-42.json",),
    ),
    Command(
        ("message", "show"),
        "Show a message's receipt.",
        "message:show",
        (_MESSAGE,),
        examples=("antiphon message show msg_…",),
    ),
    Command(
        ("message", "wait"),
        "Wait for a message's end and print the answer.",
        "message:wait",
        (_MESSAGE,),
        (_TIMEOUT,),
        about="Exit codes are those of `antiphon session message`.",
        examples=("antiphon message wait msg_… --timeout 60",),
    ),
    Command(
        ("message", "edit"),
        "Change a message that waits.",
        "message:edit",
        (_MESSAGE, Argument("TEXT", "The new text; `-` reads it from stdin.", optional=True)),
        (_BUSY,),
        examples=("antiphon message edit msg_… 'Better words'", "antiphon message edit msg_… --when-busy steer"),
    ),
    Command(
        ("message", "withdraw"),
        "Take back a message that waits.",
        "message:withdraw",
        (_MESSAGE,),
        examples=("antiphon message withdraw msg_…",),
    ),
    Command(
        ("message", "cancel"),
        "Cancel a message that waits or runs.",
        "message:cancel",
        (_MESSAGE,),
        about="""\
Returns once its agent has stopped. A turn that answers other messages, too, goes on for them.""",
        examples=("antiphon message cancel msg_…",),
    ),
    MESSAGE_WEBHOOK,
    Command(("turn", "show"), "Show a turn.", "turn:show", (_TURN,), examples=("antiphon turn show turn_…",)),
    Command(
        ("turn", "wait"),
        "Wait for a turn's end and print the answer.",
        "turn:wait",
        (_TURN,),
        (_TIMEOUT,),
        examples=("antiphon turn wait turn_…",),
    ),
    Command(
        ("turn", "cancel"),
        "Cancel that turn and no other.",
        "turn:cancel",
        (_TURN,),
        (Option("--queue", "Cancel all that waits in its session, too.", kind="flag"),),
        about="Returns once the agent has stopped.",
        examples=("antiphon turn cancel turn_…", "antiphon turn cancel turn_… --queue"),
    ),
    Command(
        ("permission", "list"),
        "List what agents ask.",
        "permission:list_",
        options=(
            Option("--session", "Only of this session.", "REF", completes="session"),
            Option(
                "--state",
                "Which requests. Default: pending.",
                "STATE",
                choices=("pending", "allowed", "denied", "expired", "all"),
            ),
        ),
        examples=("antiphon permission list", "antiphon permission list --session telegram:42 --state all"),
    ),
    Command(
        ("permission", "allow"),
        "Allow what an agent asks.",
        "permission:allow",
        (_PERMISSION,),
        (_CHOICE, _NOTE),
        examples=("antiphon permission allow perm_…",),
    ),
    Command(
        ("permission", "deny"),
        "Deny what an agent asks.",
        "permission:deny",
        (_PERMISSION,),
        (_CHOICE, _NOTE),
        examples=("antiphon permission deny perm_… --note 'Use the staging database'",),
    ),
    *WEBHOOKS,
    *SCHEDULES,
    Command(
        ("agent", "list"),
        "List the agents, and whether the host can run them.",
        "agent:list_",
        options=(Option("--names", "Print only the names, a line each.", kind="flag"),),
        examples=("antiphon agent list",),
    ),
    Command(
        ("agent", "check"),
        "Say what an agent lacks, and try it out.",
        "agent:check",
        (Argument("NAME", "The agent; without it, all of them are looked at.", optional=True, completes="agent"),),
        (
            Option("--no-turn", "Only look what is missing; ask the agent nothing.", kind="flag"),
            Option("--timeout", "How long its answer may take. Default: 120.", "SECONDS", "seconds"),
            Option("--loopback", "Try it against a model server on this machine: no key, no network.", kind="flag"),
            Option("--fault-lab", "Put it through the contract suite of agents, on this machine.", kind="flag"),
            Option("--only", "Of the contract suite, only the tests whose names hold this.", "WORDS"),
            Option("--config", "The configuration, for --loopback and --fault-lab.", "FILE", completes="file"),
        ),
        about="""\
With NAME the host runs one real turn with it, in a session that is deleted afterwards; the exit code is 1 when it can't
run or does not answer. With --loopback, two turns of which the second knows the first, a cancel and a resume must go
right, and nothing may be left running. --fault-lab needs `pip install 'antiphon[testing]'`, and takes minutes with a
large program; the exit code is 9 for an agent whose answers can't be known beforehand, such as `local`. NAME may be an
adapter of yours, as module:class. Both run the agent as this machine's configuration has it, without the host.""",
        examples=(
            "antiphon agent check codex",
            "antiphon agent check codex --loopback",
            "antiphon agent check --fault-lab my_agent:MyAgent",
            "antiphon agent check --fault-lab codex --only cancel",
        ),
    ),
    Command(
        ("host", "list"),
        "List the hosts that share the store, and how many sessions each owns.",
        "hosts:list_",
        about="A host that was here within the last day is listed as `away`.",
        examples=("antiphon host list", "antiphon host list --json"),
    ),
    Command(
        ("host", "drain"),
        "Have others take over all sessions of a host.",
        "hosts:drain",
        (Argument("NAME", "The host, from `antiphon host list`.", completes="host"),),
        (
            Option("--undo", "Let it own sessions again.", kind="flag"),
            Option("--no-wait", "Don't wait until it owns none any more.", kind="flag"),
            Option("--timeout", "Stop waiting after so long. Default: 300. Exit code 6.", "SECONDS", "seconds"),
        ),
        about="""\
A session is handed over as soon as no turn runs in it. The host goes on answering requests, and takes no session up
until --undo, also after a restart. Sessions that a label `host` binds to it wait until then.""",
        examples=("antiphon host drain alpha", "antiphon host drain alpha --undo"),
    ),
    Command(
        ("status",),
        "Show how the host is.",
        "host:status",
        about="And which sessions need a person: who asks, who is stalled, whose last turn failed.",
        examples=("antiphon status", "antiphon status --no-start --json"),
    ),
    Command(
        ("open",),
        "Open the page in a browser, signed in.",
        "opening:open_",
        (Argument("REF", "A session to show, by its key or its id.", optional=True, completes="session"),),
        (Option("--print", "Print the link instead, for a browser on another machine.", kind="flag"),),
        about="""\
The link works once, within a minute. The browser then stays signed in for 30 days, or until `antiphon token revoke`
ends that. Where no browser can be opened, the link is printed.""",
        examples=("antiphon open", "antiphon open telegram:42", "antiphon open --print"),
    ),
    Command(
        ("board",),
        "Look at all sessions on the whole terminal, those first that need somebody.",
        "looking:board",
        options=(
            _AGENT._replace(help="Only with this agent, to begin with."),
            _LABEL._replace(help="Only with this label, to begin with; may be given again."),
            Option("--search", "Only with these words in key, title, agent or model, to begin with.", "TEXT"),
        ),
        about="""\
Live. Enter opens a session, / filters, Esc shows all again, Ctrl+Q leaves. A dot marks what was answered since you last
looked.""",
        examples=("antiphon board", "antiphon board --agent claude --label team=a"),
    ),
    Command(
        ("config",),
        "Check the configuration and show it.",
        "config:config",
        options=(
            Option("--config", "The file. Default: antiphon.toml in the data directory.", "FILE", completes="file"),
        ),
        about="""\
Shows what the host of this data directory would start with: what differs from the defaults, and every agent. The exit
code is 1 when it can't be used. Settings may also come from the environment: ANTIPHON__HOST__MAX_AGENTS=16 says what
`max_agents = 16` in [host] would.""",
        examples=("antiphon config", "antiphon config --config ./antiphon.toml --json"),
    ),
    Command(
        ("doctor",),
        "Look for what is wrong and say what to do.",
        "doctor:doctor",
        options=(
            Option("--repair", "Mend in the store what its journal can tell, after keeping a copy of it.", kind="flag"),
        ),
        about="""\
Looks at the data directory, ready.json, the host, its agents, and at everything in the store. Starts nothing, and
without --repair changes nothing. The exit code is 1 when something is wrong.""",
        examples=("antiphon doctor", "antiphon doctor --repair"),
    ),
    *STORES,
    Command(
        ("token", "create"),
        "Make a token and print it.",
        "token:create",
        (Argument("NAME", "What it is for."),),
        (
            Option(
                "--scope",
                "What it allows: everything, or only to look. Default: full.",
                "SCOPE",
                choices=("full", "read"),
            ),
        ),
        about="The token is printed this once, alone on stdout.",
        examples=("antiphon token create telegram-bridge", "antiphon token create dashboard --scope read"),
    ),
    Command(
        ("token", "list"), "List the tokens, without their secrets.", "token:list_", examples=("antiphon token list",)
    ),
    Command(
        ("token", "revoke"),
        "Revoke a token.",
        "token:revoke",
        (Argument("ID", "The token's id, from `antiphon token list`."),),
        examples=("antiphon token revoke tok_…",),
    ),
    Command(
        ("completion",),
        "Print a shell's completion script.",
        "completion:completion",
        (Argument("SHELL", "bash, zsh or fish.", choices=("bash", "zsh", "fish")),),
        examples=(
            'eval "$(antiphon completion bash)"',
            "antiphon completion zsh > ~/.zfunc/_antiphon",
            "antiphon completion fish > ~/.config/fish/completions/antiphon.fish",
        ),
    ),
)
