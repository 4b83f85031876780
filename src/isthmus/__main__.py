"""`python -m isthmus`, and the command `isthmus`."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line; Ctrl-C is no error, not even while the modules are loaded."""
    try:
        from isthmus.cli.main import main

        main()
    except KeyboardInterrupt:
        print("\nisthmus: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
