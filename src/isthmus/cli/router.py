"""`isthmus router`: run one router of a composition, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Literal

import click

from isthmus.cli.options import HELP, PATH, quiet_option
from isthmus.core.errors import InputError
from isthmus.live.api.site import Site
from isthmus.live.node.plans import AgreedPlan, MembershipChoice, SiteConfig
from isthmus.protocols.routing.options import PACK_MAX, RouterOptions


@click.command(context_settings=HELP)
@click.argument("composition", type=PATH, metavar="COMPOSITION.toml")
@click.argument("name")
@click.option("--topology", type=PATH, required=True, help="Network with a site for each process and router.")
@click.option("--address", "addresses", multiple=True, metavar="SITE=HOST:PORT", help="Where a site listens.")
@click.option(
    "--state", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the records from which this router rejoins after a restart.",
)  # fmt: skip
@click.option("--static", is_flag=True, help="Static membership: no view agreement.")
@click.option("--keys", type=PATH, help="Key file of the cluster: datagrams are sealed.")
@click.option("--identity", type=PATH, help="Identity file of this router, where sites have identities.")
@click.option("--insecure", is_flag=True, help="Listen off the loopback without keys.")
@click.option(
    "--pack-max", type=click.IntRange(1, PACK_MAX), default=1, show_default=True, help="Messages forwarded as one."
)
@click.option(
    "--routes",
    type=click.Choice(["static", "recomputed"]),
    default="static",
    show_default=True,
    help="recomputed: find other routes when a router or an IGP fails. Equal at all sites.",
)
@quiet_option
def command(
    composition: Path,
    name: str,
    topology: Path,
    addresses: tuple[str, ...],
    state: Path | None,
    static: bool,
    keys: Path | None,
    identity: Path | None,
    insecure: bool,
    pack_max: int,
    routes: Literal["static", "recomputed"],
    quiet: bool,
) -> None:
    """Run a router of a composition: it forwards messages between the groups that it joins, until Ctrl-C.

    NAME is a router of the composition and a site of the topology; for a router with replicas, one replica (NAME-0).
    Processes join with the same composition from Python. Prints each view that it installs. `isthmus live` runs a whole
    scenario with its routers instead.

    Exit code 0: stopped; 2: bad input, or the other sites refuse this router.

    \b
    Examples:
      isthmus router composition.toml lisbon-router --topology network.toml
      isthmus router composition.toml lisbon-router-0 --topology network.toml --state state/ --keys cluster.key
      isthmus router composition.toml r --topology network.toml --address r=127.0.0.1:7400 --address a-0=127.0.0.1:7401
    """
    if static and state is not None:
        raise InputError("--state", "", f"{str(state)!r} with --static", "no --state with --static")
    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, format="%(message)s")
    agreed = None if state is None else AgreedPlan(folder=state)
    membership: MembershipChoice = "static" if static else agreed
    config = SiteConfig(
        router=RouterOptions(pack_max=pack_max, routes=routes),
        membership=membership,
        keys=keys,
        identity=identity,
        insecure=insecure,
    )
    asyncio.run(run(topology, name, composition, dict(map(address_of, addresses)), config))


def address_of(text: str) -> tuple[str, str]:
    name, equals, where = text.partition("=")
    if not equals or not name or not where:
        raise InputError("--address", "", repr(text), "SITE=HOST:PORT")
    return name, where


async def run(topology: Path, name: str, composition: Path, where: dict[str, str], config: SiteConfig) -> None:
    """Run until a signal arrives or the other sites refuse this router; then leave."""
    try:
        router = Site(topology, name, composition=composition, addresses=dict(where), config=config)
    except InputError as error:
        if error.source == "addresses":  # the parameter in Python
            raise InputError("--address", error.key, error.found, error.expected) from None
        raise
    if not router.nodes:
        routes = router.runtime.routes
        assert routes is not None
        names = ", ".join(router.runtime.topology.sites[one].name for one in sorted(routes.router_of))
        raise InputError("NAME", "", repr(name), f"a router of the composition: {names}")
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with router:
        click.echo(f"{name} joins {', '.join(router.nodes)}; Ctrl-C stops it")
        ends = [asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(router.closed())]
        done, waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        for task in done:
            task.result()
    click.echo(f"{name} has left")
