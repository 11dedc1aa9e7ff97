"""Commands that look after what is kept. They work on stores, not through a host."""

from antiphon.cli.grammar import Argument, Command

_PLACE = "its data directory, or a postgresql:// address."

STORES = (
    Command(
        ("store", "copy"),
        "Copy everything that is kept to another store: SQLite and PostgreSQL, either way.",
        "store:copy",
        (
            Argument("FROM", f"The store that is copied: {_PLACE}", completes="dir"),
            Argument("TO", f"The store that is made: {_PLACE}", completes="dir"),
        ),
        about="""\
No host may run on either. The source is only read; the target must be empty. A copy that is cut short goes on when the
command runs again, and no host opens it before it is whole and was compared with the source. Rows that can't be read
are told; then the exit code is 1. Leave the password out of the address: PGPASSWORD and ~/.pgpass work.""",
        examples=(
            "antiphon store copy ~/.local/share/antiphon postgresql://antiphon@db/antiphon",
            "antiphon store copy postgresql://antiphon@db/antiphon /srv/antiphon --json",
        ),
    ),
)
