"""Live groups with keys: all that works in clear works sealed, and who has no key gets no byte."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.harness.live_groups import join
from tests.harness.ports import free_ports
from tests.unit.live.test_live_membership import NAMES, NETWORK, Site, alike, each_sends, eventually, run, three

from isthmus import ClockPlan, ClockState, SiteConfig
from isthmus.core.errors import InputError, LocalError
from isthmus.core.message import SiteId
from isthmus.live.net.framing import GREET, HELLO, MESSAGES, head
from isthmus.live.node.plans import AgreedPlan
from isthmus.live.seal.key_file import write_key_file
from isthmus.live.seal.keys import CLUSTER, IDENTITY, SITE, KeyLine
from isthmus.live.seal.noise import public_of
from isthmus.live.seal.wire import GREET_BYTES, start
from isthmus.scenario.clocks import TimeService
from isthmus.scenario.model import Agreed

OLD, NEW = (KeyLine(CLUSTER, letter * 32, "") for letter in (b"o", b"n"))


def key_file(folder: Path, *lines: KeyLine) -> Path:
    path = folder / "cluster.key"
    write_key_file(path, lines or [OLD], replace=True)
    return path


def identities(folder: Path) -> dict[str, Path]:
    """An identity file for each site; their public keys go into the key file."""
    private = {name: name.encode().ljust(32, b"*") for name in NAMES}
    key_file(folder, OLD, *[KeyLine(SITE, public_of(key), name) for name, key in private.items()])
    for name, key in private.items():
        write_key_file(folder / name, [KeyLine(IDENTITY, key, name)])
    return {name: folder / name for name in NAMES}


def test_a_sealed_site_dies_and_comes_back_with_the_state(tmp_path: Path) -> None:
    keys = key_file(tmp_path)

    async def program() -> None:
        ports, sites = await three(keys=keys)
        await each_sends(sites, "before", 10)
        await alike(sites, 30)
        sites[0].die()
        for site in sites[1:]:
            await site.until(NAMES[1:])
        await each_sends(sites[1:], "without", 10)
        await alike(sites[1:], 50)
        back = await Site(NAMES[0], ports, keys=keys).start()
        await back.until(NAMES)
        await alike([back, *sites[1:]], 50)
        await each_sends([back, *sites[1:]], "after", 5)
        await alike([back, *sites[1:]], 65)
        assert {one.phase for one in back.group.sessions()} == {"open"}
        for site in (back, *sites[1:]):
            site.die()

    run(program)


def test_sites_with_identities_form_a_group_and_one_without_its_own_is_not_heard(tmp_path: Path) -> None:
    files = identities(tmp_path)

    async def program() -> None:
        ports = free_ports(NAMES)
        sites = [Site(name, ports, keys=tmp_path / "cluster.key", identity=files[name]) for name in NAMES]
        for site in sites:
            await site.start()
        for site in sites:
            await site.until(NAMES)
        await each_sends(sites, "word", 5)
        await alike(sites, 15)
        sites[2].die()
        for site in sites[:2]:
            await site.until(NAMES[:2])
        write_key_file(tmp_path / "own", [KeyLine(IDENTITY, b"another".ljust(32, b"*"), NAMES[2])])
        impostor = await Site(NAMES[2], ports, keys=tmp_path / "cluster.key", identity=tmp_path / "own").start()
        seal = sites[0].group.runtime.joined().socket.seal
        assert seal is not None
        await eventually(lambda: seal.dropped["forged"] >= 3)
        assert sorted(sites[0].group.members) == NAMES[:2] and not impostor.group.members
        for site in (impostor, *sites[:2]):
            site.die()

    run(program)


def test_keys_rotate_in_three_steps_under_load_and_with_a_restart(tmp_path: Path) -> None:
    async def program() -> None:
        ports, sites = await three(keys=key_file(tmp_path, OLD))
        count = 0
        for step in ([OLD, NEW], [NEW, OLD], [NEW]):
            key_file(tmp_path, *step)
            for site in sites:
                site.group.reload_keys()
                await each_sends(sites, str(step), 5)
                count += 15
            if step == [NEW, OLD]:
                await alike(sites, count)
                sites[2].die()
                for site in sites[:2]:
                    await site.until(NAMES[:2])
                sites[2] = await Site(NAMES[2], ports, keys=tmp_path / "cluster.key").start()
                await sites[2].until(NAMES)
            last = {site.group.sessions()[0].key for site in sites}
            await eventually(lambda: len({one.key for site in sites for one in site.group.sessions()}) == 1)
        await alike(sites, count)
        assert len(last) == 1
        for site in sites:
            assert not site.gaps or site is sites[2]
            site.die()

    run(program)


def test_a_stranger_gets_no_byte_and_changes_nothing(tmp_path: Path) -> None:
    async def program() -> None:
        ports, sites = await three(keys=key_file(tmp_path))
        stranger, noise = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), Random(1)
        stranger.setblocking(False)
        runtime, view = sites[0].group.runtime, sites[0].group.view
        peers = runtime.joined().site.peers
        probes = [head(SiteId(1), peers.life, peers.token, kind) + bytes(8) for kind in (MESSAGES, HELLO)]
        seal = runtime.joined().socket.seal
        assert seal is not None
        probes.append(start(GREET, 1, seal.keys.cluster[0].id).ljust(GREET_BYTES, b"\0"))
        probes += [noise.randbytes(noise.randrange(1400)) for _ in range(200)]
        before = runtime.joined().socket.stranger_count
        for probe in probes:
            stranger.sendto(probe, ("127.0.0.1", ports[NAMES[0]]))
        await eventually(lambda: runtime.joined().socket.stranger_count == before + len(probes))
        await each_sends(sites, "word", 3)
        await alike(sites, 9)
        with pytest.raises(BlockingIOError):
            stranger.recv(2000)
        assert sites[0].group.view == view
        stranger.close()
        for site in sites:
            site.die()

    run(program)


def test_a_site_at_another_address_is_named_and_not_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "isthmus.live")

    async def program() -> None:
        ports, moved = free_ports(NAMES), free_ports(NAMES)
        here = await Site(NAMES[0], ports, keys=key_file(tmp_path)).start()
        there = await Site(NAMES[1], ports | {NAMES[1]: moved[NAMES[1]]}, keys=key_file(tmp_path)).start()
        text = f"site {NAMES[1]} greets from 127.0.0.1:{moved[NAMES[1]]}, which is not its address here"
        await eventually(lambda: text in caplog.text)
        seal = there.group.runtime.joined().socket.seal
        assert seal is not None and not any(seal.dropped.values())
        assert not there.group.sessions()[0].life
        here.die()
        there.die()

    run(program)


@pytest.mark.parametrize("theirs", ["clear", "other key"])
def test_sites_that_do_not_understand_each_other_say_why(
    theirs: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "isthmus.live")
    (tmp_path / "other").mkdir()

    async def program() -> None:
        ports = free_ports(NAMES)
        here = Site(NAMES[0], ports, keys=key_file(tmp_path))
        there = Site(NAMES[1], ports, keys=key_file(tmp_path / "other", NEW) if theirs == "other key" else None)
        await here.start()
        await there.start()
        wanted = {
            "clear": ["sends in clear, here datagrams are sealed", "seals its datagrams, here there is no key"],
            "other key": ["greets with a key that is not in the key file here"],
        }[theirs]
        await eventually(lambda: all(text in caplog.text for text in wanted))
        assert not here.group.members and not there.group.members
        here.die()
        there.die()

    run(program)


def test_a_sealed_site_whose_program_blocks_is_not_taken_for_dead(tmp_path: Path) -> None:
    """Each heartbeat that the thread repeats is sealed anew: as bytes, all but the first would be replays."""

    async def program() -> None:
        suspected: list[str] = []
        plan = AgreedPlan(Agreed())

        def note(name: str, on: bool) -> None:
            suspected.extend([name] * on)

        ports = free_ports(NAMES)
        sites = [Site(name, ports, plan, keys=key_file(tmp_path), on_suspicion=note) for name in NAMES]
        for site in sites:
            await site.start()
        for site in sites:
            await site.until(NAMES)
        seals = [site.group.runtime.joined().socket.seal for site in sites]
        suspected.clear()
        before = [sum(seal.dropped.values()) for seal in seals if seal is not None]
        time.sleep(1.0)  # all three share this loop; the threads stand in for it
        await asyncio.sleep(0.3)
        assert [sum(seal.dropped.values()) for seal in seals if seal is not None] == before
        for site in sites:
            site.die()

    run(program)


def test_the_clocks_of_sealed_sites_are_kept(tmp_path: Path) -> None:
    service = TimeService(period_ms=200.0, window_ms=50.0, agreement_ms=100.0)

    async def program() -> None:
        config: dict[str, Any] = {"keys": key_file(tmp_path), "clocks": ClockPlan(service=service)}
        _, sites = await three(**config)
        for site in sites:
            await eventually(lambda site=site: site.group.clock_status().rounds > 2)  # type: ignore[misc]
        assert sites[0].group.clock().state in (ClockState.FREE_RUNNING, ClockState.SYNCHRONISED)
        for site in sites:
            site.die()

    run(program)


def refusal_of(build: Callable[[], Any]) -> str:
    async def program() -> None:
        await build()

    with pytest.raises(InputError) as caught:
        asyncio.run(program())
    return str(caught.value)


def test_off_the_loopback_a_site_without_a_key_does_not_start(tmp_path: Path) -> None:
    where: dict[str, Any] = {name: ("0.0.0.0", 7_000 + number) for number, name in enumerate(NAMES)}
    where |= {name: ("127.0.0.1", 7_000 + number) for number, name in enumerate(NAMES) if number}
    told = refusal_of(lambda: join(NETWORK, NAMES[0], where, membership="static"))
    assert "listens at 0.0.0.0" in told and "isthmus keys init" in told and "insecure=True" in told

    async def opens(**options: Any) -> None:
        ports = free_ports(NAMES)
        here: dict[str, Any] = {NAMES[0]: ("0.0.0.0", ports[NAMES[0]])}
        group = await join(NETWORK, NAMES[0], ports | here, membership="static", **options)
        await group.close()

    asyncio.run(opens(insecure=True))
    asyncio.run(opens(keys=key_file(tmp_path)))


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    path.chmod(0o640)
    told = refusal_of(lambda: join(NETWORK, NAMES[0], free_ports(NAMES), keys=path))
    assert "that others may read (-rw-r-----)" in told and f"chmod 600 {path}" in told


def test_an_identity_of_another_site_or_without_keys_is_refused(tmp_path: Path) -> None:
    files = identities(tmp_path)
    told = refusal_of(
        lambda: join(NETWORK, NAMES[0], free_ports(NAMES), keys=tmp_path / "cluster.key", identity=files[NAMES[1]])
    )
    assert f"that of site {NAMES[1]}" in told
    assert "without keys" in refusal_of(lambda: join(NETWORK, NAMES[0], free_ports(NAMES), identity=files[NAMES[0]]))


def test_a_site_in_clear_has_no_keys_to_reload() -> None:
    async def program() -> None:
        group = await join(NETWORK, NAMES[0], free_ports(NAMES), membership="static")
        assert group.sessions() == []
        with pytest.raises(LocalError, match="without keys"):
            group.reload_keys()
        await group.close()

    run(program)


def test_keys_are_no_part_of_what_a_configuration_shows(tmp_path: Path) -> None:
    assert "oooo" not in repr(SiteConfig(keys=key_file(tmp_path)))
