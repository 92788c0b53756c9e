"""`python -m akunu`: the whole command line, with `serve`."""

from __future__ import annotations

import signal
import sys

from ._akunu import command_line


def main() -> int:
    """Runs the command line; its exit status."""
    # The command line has its own way with Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command_line(["akunu", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
