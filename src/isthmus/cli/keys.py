"""`isthmus keys`: the key files of sealed sites."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
from rich.table import Table

from isthmus.cli.console import print_whole, wide_console
from isthmus.cli.options import HELP, PATH
from isthmus.core.errors import InputError
from isthmus.live.seal.key_file import read_key_file, write_key_file
from isthmus.live.seal.keys import CLUSTER, IDENTITY, KEY_BYTES, SITE, KeyLine, cluster_key

STEPS = ("add", "promote", "remove")


@click.group(context_settings=HELP)
def command() -> None:
    """Create and change the key files with which sites seal what they send.

    All sites of a network have the same key file. Copy it over a channel that you trust; who has it can read and write
    everything, and in the mode `key` also pass for any site.

    \b
    Examples:
      isthmus keys init cluster.key
      isthmus keys show cluster.key
      isthmus keys rotate cluster.key --step add
      isthmus keys identity cluster.key paris-0 -o paris-0.identity
    """


def fresh_key() -> KeyLine:
    return KeyLine(CLUSTER, os.urandom(KEY_BYTES), time.strftime("made %Y-%m-%d %H:%M:%S UTC", time.gmtime()))


@command.command("init", context_settings=HELP)
@click.argument("path", type=PATH, metavar="FILE")
def init_command(path: Path) -> None:
    """Create a key file with one new key.

    \b
    Examples:
      isthmus keys init cluster.key
    """
    write_key_file(path, [fresh_key()])
    click.echo(f"wrote {path}: copy it to every site; start them with keys={str(path)!r}")


@command.command("show", context_settings=HELP)
@click.argument("path", type=PATH, metavar="FILE")
def show_command(path: Path) -> None:
    """Show the keys and sites of a file, never a secret.

    Keys have the ids that `sessions()` shows.

    \b
    Examples:
      isthmus keys show cluster.key
    """
    lines = read_key_file(path)
    mode = "identity" if any(line.kind == SITE for line in lines) else "key"
    console, table = wide_console(), Table(title=f"mode {mode}", title_justify="left")
    for column in ("", "id", "comment"):
        table.add_column(column)
    keys = [line for line in lines if line.kind == CLUSTER]
    for number, line in enumerate(keys):
        table.add_row("greets" if number == 0 else "accepted", cluster_key(line.key, "", mode).id.hex(), line.text)
    for line in lines:
        if line.kind == SITE:
            table.add_row("site", line.key.hex()[:16], line.text)
        elif line.kind == IDENTITY:
            table.add_row("private", "", line.text)
    print_whole(console, table)


@command.command("rotate", context_settings=HELP)
@click.argument("path", type=PATH, metavar="FILE")
@click.option("--step", type=click.Choice(STEPS), required=True, help="add a new key; promote it; remove the old one.")
def rotate_command(path: Path, step: str) -> None:
    """Change the cluster key in three steps, while all sites run.

    After each step copy the file to every site and have all of them read it again, before the next one: after `add`
    they accept the new key, after `promote` they greet with it, and once every site's sessions show it, `remove` ends
    the old one. In fewer steps datagrams are lost.

    \b
    Examples:
      isthmus keys rotate cluster.key --step add
      isthmus keys rotate cluster.key --step promote
      isthmus keys rotate cluster.key --step remove
    """
    lines = read_key_file(path)
    keys, rest = [line for line in lines if line.kind == CLUSTER], [line for line in lines if line.kind != CLUSTER]
    wanted = 1 if step == "add" else 2
    if len(keys) != wanted:
        raise InputError(str(path), "", f"{len(keys)} cluster keys", f"{wanted}, for the step {step}")
    keys = {"add": [*keys, fresh_key()], "promote": keys[::-1], "remove": keys[:1]}[step]
    write_key_file(path, [*keys, *rest], replace=True)
    done = {"add": "the new key is accepted", "promote": "the new key greets", "remove": "the old key is gone"}[step]
    click.echo(f"{path}: {done}; copy it to every site, and have each read it again (reload_keys)")


@command.command("identity", context_settings=HELP)
@click.argument("path", type=PATH, metavar="FILE")
@click.argument("site")
@click.option("-o", "--output", type=PATH, help="File for the private key. [SITE.identity]")
def identity_command(path: Path, site: str, output: Path | None) -> None:
    """Create the identity of a site.

    Its public key goes into the cluster's key file. With identities no site can pass for another, even though all have
    the cluster key. Every site needs one; the private key belongs on that site alone.

    \b
    Examples:
      isthmus keys identity cluster.key paris-0
      isthmus keys identity cluster.key tokyo-0 -o /secure/tokyo-0.identity
    """
    from isthmus.live.seal.noise import public_of

    site = site.strip()
    if not site or len(site.splitlines()) > 1:
        raise InputError(str(path), "", f"the site {site!r}", "its name in the topology, as one line")
    lines, private = read_key_file(path), os.urandom(KEY_BYTES)
    own = output or Path(f"{site}.identity")
    write_key_file(own, [KeyLine(IDENTITY, private, site)])
    kept = [line for line in lines if (line.kind, line.text) != (SITE, site)]
    write_key_file(path, [*kept, KeyLine(SITE, public_of(private), site)], replace=True)
    click.echo(f"wrote {own}, for {site} alone; copy {path} to every site")
