"""Entry point for `sdfcli` and `python -m sdfcli`: watches for interrupts before any slow import."""

import sys
from signal import SIGINT, SIGTERM

from sdfcli.runtime import interrupts


def main() -> None:
    """Command line entry point."""
    for number in (SIGINT, SIGTERM):  # neither leaves half-written files
        interrupts.watch(number)
    try:
        from sdfcli.runtime import processes
        from sdfcli.startup import driver

        processes.set_environment()
        driver.wake(sys.argv[1:])
        from sdfcli.cli.app import main as run

        run()
    except KeyboardInterrupt:
        from sdfcli.errors import INTERRUPTED
        from sdfcli.startup import driver

        print("sdfcli: interrupted", file=sys.stderr)
        if "--json" in sys.argv:  # before the command line was parsed
            from sdfcli.cli.output import SCHEMA_VERSION

            line = f'{{"schema_version": {SCHEMA_VERSION}, "error": "interrupted", "exit_code": {INTERRUPTED}}}'
            print(line, flush=True)
        driver.exit_fast(INTERRUPTED)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
