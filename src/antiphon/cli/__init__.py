"""The command line: a client of the HTTP door that prints answers to stdout and everything else to stderr."""


def main() -> int:
    """Run the command line of this process and return its exit code, or end the process with it at once.

    A command has nothing to put away: its output is flushed, and its connections end with it. Taking the interpreter
    apart would be a tenth of its time. A host, and whatever else has loaded the composition, ends in order.
    """
    import os  # noqa: PLC0415  importing the package must cost nothing
    import sys  # noqa: PLC0415

    from antiphon.cli.garbage import collect_seldom  # noqa: PLC0415

    try:
        collect_seldom()
        from antiphon.cli.program import run  # noqa: PLC0415

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the program could say anything about it
        code = 130
    if "antiphon.main" not in sys.modules:
        os._exit(code)
    return code
