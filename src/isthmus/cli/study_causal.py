"""`isthmus study causal`: sizes of timestamps and histories at any number of LANs and hosts."""

from __future__ import annotations

from typing import get_args

import click
from rich.console import Console
from rich.table import Table

from isthmus.cli.console import new_table, print_whole, wide_console
from isthmus.cli.options import json_option, print_json
from isthmus.core.errors import InputError
from isthmus.studies.causal.setup import NESTED, NODES, PARTICIPANTS, RULES, Traffic
from isthmus.studies.causal.sizes import DEFAULT_RULES, CausalSizes, SizeSpread, causal_sizes

HOSTS = 8
ON_NODES = NODES * (PARTICIPANTS + 1)  # sites of a LAN's nodes


@click.command("causal")
@click.option("--lans", type=click.IntRange(2, 100), default=3, show_default=True, help="LANs in the ring.")
@click.option("--hosts", type=click.IntRange(2, 200), help="Hosts on each LAN. [8; where they are nested, always 10]")
@click.option(
    "--traffic",
    type=click.Choice(get_args(Traffic)),
    default="groups",
    show_default=True,
    help="Destinations of messages: below.",
)
@click.option(
    "--rules",
    type=click.Choice(list(RULES)),
    metavar="RULES",
    multiple=True,
    default=DEFAULT_RULES,
    help="Below; repeatable.",
)
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs per row.")
@json_option
def causal_command(
    lans: int, hosts: int | None, traffic: Traffic, rules: tuple[str, ...], seeds: int, as_json: bool
) -> None:
    """Measure timestamps and histories of causal order at any number of LANs and hosts, without Spark.

    The set-up is that of the study causal-separators: LANs in a ring, each with two gateways besides its hosts; each
    host sends 30 messages, 80 % of them to its own LAN. Timestamps are those of messages to the first LAN, as first
    sent, and the history that of its first host, both after 40 % of the time of sending: mean, 95th percentile and
    maximum, over the runs of all seeds.

    \b
    Traffic:
      groups   to all hosts of the LAN; to half of it and half of the next
      subsets  each host to five sets of its own, of half a LAN: four inside its LAN, one over all LANs
      drawn    the same, with a set drawn for each message
      nested   participants on nodes of LANs, ten sites per LAN: to the node, the LAN, a node of the next LAN
      regions  the same with half of the LANs in a region

    \b
    Rules, by default the first four and "all":
      "literal", "literal, R9"      those of the paper, without separators and with
      "symmetric", "symmetric, R9"  also: an entry covers known messages before it
      "R9 anywhere"                 also: R9 by any process; "R9 anywhere, remainder": by the sites not yet informed
      "all"                         also: forgetting; the default of a stack; "all but" symmetric, anywhere, ...
      "all, masks"                  sets as masks; "all, not extended": without the sites informed; "all, forced"
      "R1 to R4", "R1 to R8"        without pruning, and with, over causal-history
      "vector", "matrix"            causal-vector and causal-matrix, of the hosts alone

    \b
    Examples:
      isthmus study causal --lans 12 --hosts 16
      isthmus study causal --lans 6 --hosts 24 --traffic drawn --rules all --rules "all but R9" --seeds 3
      isthmus study causal --rules matrix --rules vector --rules "all, masks"
    """
    usual = ON_NODES if traffic in NESTED else HOSTS
    if traffic in NESTED and hosts not in (None, ON_NODES):
        raise InputError("study causal", "--hosts", str(hosts), f"{ON_NODES}, where traffic is {traffic}")
    hosts = hosts or usual
    console = wide_console()
    found = []
    for name in rules:
        with Console(stderr=True).status(f"simulating {lans} x {hosts}, {name}"):
            found.append(causal_sizes(lans, hosts, name, range(1, seeds + 1), traffic))
    if as_json:
        print_json({"lans": lans, "hosts": hosts, "traffic": traffic, "seeds": seeds, "sizes": found})
        return
    print_whole(console, sizes_table(f"{lans} LANs of {hosts} hosts, {traffic}: mean / p95 / max", found))


def sizes_table(title: str, found: list[CausalSizes]) -> Table:
    numbers = ("messages", "timestamp, entries", "timestamp, bytes", "history, entries")
    table = new_table("rules", *numbers, title=title, right=numbers)
    for one in found:
        table.add_row(
            one.rules,
            f"{one.messages:,}",
            spread_text(one.entries),
            spread_text(one.stamp_bytes),
            spread_text(one.history),
        )
    return table


def spread_text(spread: SizeSpread | None) -> str:
    return "-" if spread is None else f"{spread.mean:,.1f} / {spread.p95:,g} / {spread.most:,g}"
