"""The command line: a client of the HTTP door that prints answers to stdout and everything else to stderr."""


def main() -> int:
    """Run the command line of this process and return its exit code."""
    import sys  # noqa: PLC0415

    from antiphon.cli.program import run  # noqa: PLC0415  importing the package must cost nothing

    return run(sys.argv[1:])
