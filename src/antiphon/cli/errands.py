"""The commands about webhooks and schedules, which stand in the table of all commands."""

from antiphon.cli.grammar import Argument, Command, Option

_REF = Argument("REF", "The session, by its key or its id (ses_…).", completes="session")
_WEBHOOK = Argument("ID", "The webhook's id (hook_…), from `antiphon webhook list`.", completes="webhook")
_SCHEDULE = Argument("ID", "The schedule's id (sch_…), from `antiphon schedule list`.", completes="schedule")
_URL = Argument("TARGET", "Where to: https://…, or http://… where the host's configuration allows it.")
_LIMIT = Option("--limit", "Show so many. Default: 50.", "N", "whole")
_SECRET = Option(
    "--secret-file",
    "A file with the secret to sign with (whsec_…); `-` reads stdin. Without it one is made.",
    "FILE",
    completes="file",
)
_SESSION = Option("--session", "Only of this session.", "REF", completes="session")

MESSAGE_WEBHOOK = Command(
    ("message", "webhook"),
    "Send a message's receipt on to a URL, once it has ended.",
    "webhook:send_on",
    (Argument("ID", "The message's id (msg_…)."), _URL),
    (_SECRET,),
    about="""\
For an answer whose caller left, be it long ago or still to come. `antiphon webhook deliveries --message ID` shows how
it goes.""",
    examples=("antiphon message webhook msg_… https://example.com/answers",),
)

WEBHOOKS = (
    Command(
        ("webhook", "add"),
        "Have a URL told when messages or sessions end.",
        "webhook:add",
        (_URL,),
        (
            _SESSION,
            Option(
                "--event",
                "What to tell; may be given again. Default: message.ended.",
                "EVENT",
                choices=("message.ended", "session.stopped", "session.deleted"),
                many=True,
            ),
            _SECRET,
            Option("--description", "What it is for.", "TEXT"),
        ),
        about="""\
Deliveries are signed as Standard Webhooks say, and tried for 24 hours. The secret is printed this once. Addresses that
are private or local must be allowed in [webhooks] of the configuration.""",
        examples=(
            "antiphon webhook add https://example.com/hooks/antiphon",
            "antiphon webhook add https://example.com/hooks/antiphon --session telegram:42",
        ),
    ),
    Command(
        ("webhook", "list"),
        "List webhooks, without their secrets.",
        "webhook:list_",
        options=(
            Option(
                "--dead", "List what could not be delivered instead: `webhook deliveries --state dead`.", kind="flag"
            ),
        ),
        examples=("antiphon webhook list", "antiphon webhook list --dead"),
    ),
    Command(
        ("webhook", "deliveries"),
        "List what was told, what is still tried, and what was given up.",
        "webhook:deliveries",
        options=(
            Option("--state", "Only in this state.", "STATE", choices=("pending", "delivered", "dead")),
            Option("--webhook", "Only to this webhook.", "ID", completes="webhook"),
            Option("--message", "Only of this message's end.", "ID"),
            _LIMIT,
        ),
        examples=("antiphon webhook deliveries --state dead", "antiphon webhook deliveries --message msg_…"),
    ),
    Command(
        ("webhook", "retry"),
        "Try again what was given up.",
        "webhook:retry",
        (Argument("ID", "A delivery (evt_…), or a webhook (hook_…) for all of its.", completes="webhook"),),
        about="""\
Deliveries keep their ids, so that a receiver knows what it has seen. A webhook that was disabled, because its receiver
answered 410 Gone, is enabled.""",
        examples=("antiphon webhook retry evt_…", "antiphon webhook retry hook_…"),
    ),
    Command(
        ("webhook", "enable"),
        "Tell a disabled webhook of events again.",
        "webhook:enable",
        (_WEBHOOK,),
        examples=("antiphon webhook enable hook_…",),
    ),
    Command(
        ("webhook", "remove"),
        "Remove a webhook, with what was still to be told to it.",
        "webhook:remove",
        (_WEBHOOK,),
        examples=("antiphon webhook remove hook_…",),
    ),
)

SCHEDULES = (
    Command(
        ("schedule", "add"),
        "Send a message again and again.",
        "schedule:add",
        (_REF, Argument("TEXT", "The message; `-`, or nothing, reads it from stdin.", optional=True)),
        (
            Option("--cron", "When: minute, hour, day of month, month, day of week; or @daily and its like.", "EXPR"),
            Option("--time-zone", "The zone of these times, such as Europe/Berlin. Default: this machine's.", "ZONE"),
            Option(
                "--missed",
                "What becomes of runs at whose time no host was there: none is made up for, or one for all.",
                "WHAT",
                choices=("skip", "run_once"),
            ),
            Option(
                "--overlap",
                "What becomes of a run whose predecessor has not ended: it is skipped, or one may wait.",
                "WHAT",
                choices=("skip", "queue_one"),
            ),
            Option(
                "--when-busy",
                "What the message does while a turn runs.",
                "MODE",
                choices=("refuse", "queue", "steer", "collect", "interrupt", "rollback"),
            ),
            Option("--agent", "Start a session with this agent when the key has none.", "NAME", completes="agent"),
            Option(
                "--cwd", "Where the agent of a session that is started works. Default: here.", "DIR", completes="dir"
            ),
            Option("--model", "The model of a session that is started.", "M"),
        ),
        about="""\
Each run is one message, whatever happens to the host. Without --missed and --overlap, runs are skipped; `antiphon
schedule list` says which and why.""",
        examples=(
            "antiphon schedule add nightly --cron '0 3 * * *' 'Run the tests and report' --agent codex",
            "antiphon schedule add telegram:42 --cron '30 8 * * 1-5' --time-zone Europe/Berlin 'Good morning'",
        ),
    ),
    Command(
        ("schedule", "list"),
        "List schedules, with their next runs and what became of the last.",
        "schedule:list_",
        options=(_SESSION,),
        examples=("antiphon schedule list",),
    ),
    Command(
        ("schedule", "show"),
        "Show a schedule.",
        "schedule:show",
        (_SCHEDULE,),
        examples=("antiphon schedule show sch_…",),
    ),
    Command(
        ("schedule", "pause"),
        "Send nothing until it is resumed.",
        "schedule:pause",
        (_SCHEDULE,),
        examples=("antiphon schedule pause sch_…",),
    ),
    Command(
        ("schedule", "resume"),
        "Go on with the next run.",
        "schedule:resume",
        (_SCHEDULE,),
        about="What passed meanwhile is not made up for.",
        examples=("antiphon schedule resume sch_…",),
    ),
    Command(
        ("schedule", "remove"),
        "Remove a schedule.",
        "schedule:remove",
        (_SCHEDULE,),
        about="What it has sent goes on.",
        examples=("antiphon schedule remove sch_…",),
    ),
)
