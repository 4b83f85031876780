"""Golden scripts for several sites: a story in which the reader decides what the network does.

Problem: what goes wrong in a group goes wrong between sites: a packet that one site has and another lacks, a view that
one has installed already. Idea: the sites of `recording.py` share one clock; what they send waits on channels, one per
pair, until the script delivers, drops or duplicates it. The commands:

    sites 0,1,2 stack=NAME [group=1] [key=value ...]    build a group's stacks, install and resume view 1; for a group
                                                        that is there already everything starts over
    site=2 [group=1] submit "text" [to=0,1]             an application multicasts
    site=2 [group=1] submit "text" groups=0,1           the same to the processes of composed groups
    site=2 group=1 carry 0/1:3 "text"                   it multicasts message 1:3 of group 0, which is another's
    site=2 group=1 forge 0/1:3 "text"                   the same past its own checks, as a faulty site would
    site=2 consume [3]                                  it is done with its oldest unread messages
    site=2 join ann in=orders | leave ann in=orders     a participant at a site joins or leaves a participant group
    site=2 say ann "text" in=orders                     it multicasts to the members
    site=1 crash | site=1 start                         a site stops; it starts again with nothing
    site=1 suspect 2 | site=1 trust 2                   an opinion about another site
    deliver 1->3 [1->2 ...] [all]                       the next packet on each channel arrives, or all of them
    drop 1->3 [all] | duplicate 1->3                    the next packet is lost, or comes once more
    drop only=DelayProbe                                all packets of a type are lost, on all channels
    packets                                             what is on the channels
    advance 5ms                                         time passes; timers fire at all sites, in order
    stabilize [within=10s]                              deliver everything and fire timers until all is settled
    view 2 members=0,2 [group=1]                        flush as an ideal service does, then install at each member
    flush 2 members=0,2 [group=1]                       the flush alone, after which members ...
    site=0 [group=1] install 2                          ... install one by one, and resume
    status                                              the view of each site and what its application has delivered

A line tells the site at which something happened. Timers are left out, and during `stabilize` packets too.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tests.harness.recording import RecordingPort, RecordingSite, message_name, show
from tests.harness.script_blocks import Block, Command, parse_sites, parse_span, run_blocks
from tests.harness.scripts import Rig

from isthmus.core.errors import LocalError
from isthmus.core.layer import Host, View
from isthmus.core.message import ALL, ONLY_GROUP, Author, Carried, Cast, GroupId, Message, SiteId, Targets
from isthmus.protocols.transport.base import Transport, flush
from isthmus.trace.log import identity

STEPS_MAX = 100_000  # packets and timers of one `stabilize`
WITHIN = "10s"


class StoryRig(Rig, Protocol):
    """A stack with the handles that a story pulls besides."""

    history: list[bytes]  # payloads delivered finally

    def multicast(self, payload: bytes, groups: Sequence[GroupId]) -> None: ...
    def carry(self, payload: bytes, author: Author) -> None: ...
    def forge(self, payload: bytes, author: Author) -> None: ...
    def participate(self, verb: str, group: str, words: Sequence[str]) -> None: ...


MakeRig = Callable[[str, Host, Mapping[str, str], Callable[[str], None]], StoryRig]  # name, host, options, note
Channel = tuple[SiteId, SiteId]


class Packet(NamedTuple):
    """A message under way."""

    number: int  # packets are numbered as they are sent
    group: GroupId
    view_id: int
    message: Message


class Group:
    """The group of some sites: its stack, and how far its views have come."""

    def __init__(self, stack: str, options: dict[str, str]) -> None:
        self.stack = stack
        self.options = options
        self.view = View(0, ())  # the one decided last
        self.stayed: list[SiteId] = []  # members of that view that were in the one before
        self.joined: list[SiteId] = []  # and those that were not
        self.state: tuple[bytes, ...] | None = None  # of the first that stayed and has installed it


class StorySite(RecordingSite):
    """A site that tells its effects to a story."""

    def __init__(self, story: Story, site: SiteId, incarnation: int) -> None:
        super().__init__(site, incarnation, story.transmit)
        self.story = story
        self.now_ns = story.now_ns

    def record(self, port: RecordingPort, line: str) -> None:
        group = f" g{port.group}" if len(self.story.groups) > 1 else ""
        self.story.lines.append(f"{self.site}{group}: {line}")

    def record_send(self, port: RecordingPort, targets: Targets, message: Message) -> None:
        if not self.story.quiet:
            self.record(port, f"send [{' '.join(map(str, targets))}] {brief(message, port.group)}")

    def record_timer(self, port: RecordingPort, line: str) -> None:
        """Left out of a story."""


class Story:
    """Runs the commands of one script on sites of its own."""

    def __init__(self, make_rig: MakeRig) -> None:
        self.make_rig = make_rig
        self.lines: list[str] = []
        self.quiet = False  # packets are not told
        self.reset()

    def reset(self) -> None:
        self.now_ns = 0
        self.sent_count = 0
        self.sites: dict[SiteId, StorySite] = {}  # the last incarnation of each
        self.rigs: dict[tuple[SiteId, GroupId], StoryRig] = {}
        self.groups: dict[GroupId, Group] = {}
        self.channels: dict[Channel, deque[Packet]] = {}

    def run(self, blocks: list[Block]) -> list[list[str]]:
        """What each block leads to."""
        return run_blocks(blocks, self.obey, self.drain)

    def drain(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def obey(self, command: Command) -> None:
        verbs: dict[str, Callable[[Command], object]] = {
            "sites": self.build,
            "deliver": self.on_channels,
            "drop": self.on_channels,
            "duplicate": self.on_channels,
            "packets": self.tell_packets,
            "advance": lambda given: self.advance(parse_span(given.word("span of time"))),
            "stabilize": self.stabilize,
            "view": self.change_view,
            "flush": self.flush,
            "status": self.tell_status,
        }
        if "site" in command.options:
            self.at_site(command, SiteId(int(command.options["site"])), group_of(command))
        elif command.verb in verbs:
            verbs[command.verb](command)
        else:
            raise LocalError(f"no such command: {command.verb}")

    # Sites

    def build(self, command: Command) -> None:
        options = dict(command.options)
        group = GroupId(int(options.pop("group", ONLY_GROUP)))
        if group in self.groups:  # another story begins
            self.reset()
        self.groups[group] = made = Group(options.pop("stack"), options)
        members = parse_sites(command.word("list of sites"))
        for site in members:
            if site not in self.sites:
                self.sites[site] = StorySite(self, site, 0)
            self.add_port(site, group)
        made.view, made.joined = View(1, members), list(members)
        for site in members:
            self.enter(site, group)

    def add_port(self, site: SiteId, group: GroupId) -> None:
        owner, given = self.sites[site], self.groups[group]
        port = owner.port(group)
        rig = self.make_rig(given.stack, port, given.options, lambda line: owner.record(port, line))
        port.stack, self.rigs[site, group] = rig.stack, rig

    def at_site(self, command: Command, site: SiteId, group: GroupId) -> None:
        """Carry out a command at one site."""
        verb = command.verb
        if verb == "crash":
            self.sites[site].crash()
            for channel in self.channels:
                if channel[1] == site:
                    self.channels[channel].clear()
        elif verb == "start":
            self.start(site)
        elif verb == "install":
            if int(command.word("number")) != self.groups[group].view.view_id:
                raise LocalError(f"the view to install is {self.groups[group].view.view_id}")
            self.enter(site, group)
        else:
            port, event = self.sites[site].ports[group], self.event(command, self.rigs[site, group])
            try:
                port.run(event)
            except LocalError as error:  # a refusal is an effect too
                port.owner.record(port, f"error {type(error).__name__}: {error}")

    def start(self, site: SiteId) -> None:
        """Start a site, again or for the first time, in the groups that it was in or in all."""
        old = self.sites.get(site)
        if old is not None and old.alive:
            raise LocalError(f"site {site} is up")
        groups = list(self.groups) if old is None else list(old.ports)
        self.sites[site] = StorySite(self, site, 0 if old is None else old.incarnation + 1)
        for group in groups:
            self.add_port(site, group)

    def event(self, command: Command, rig: StoryRig) -> Callable[[], None]:
        verb, words, options = command.verb, command.words, command.options
        if verb == "submit":
            payload = command.word("text").strip('"').encode()
            if "groups" in options:
                groups = [GroupId(number) for number in parse_sites(options["groups"])]
                return lambda: rig.multicast(payload, groups)
            targets = parse_sites(options["to"]) if "to" in options else ALL
            return lambda: rig.submit(payload, targets)
        if verb in ("carry", "forge"):
            name, text = words
            match = re.fullmatch(r"(\d+)/(\d+):(\d+)", name)
            if match is None:
                raise LocalError(f"{name!r} is no message of a group such as 0/1:3")
            author: Author = (GroupId(int(match[1])), SiteId(int(match[2])), int(match[3]))
            act = rig.carry if verb == "carry" else rig.forge
            return lambda: act(text.strip('"').encode(), author)
        if verb == "consume":
            return lambda: rig.consume(int(words[0]) if words else 1)
        if verb in ("suspect", "trust"):
            suspected = SiteId(int(command.word("site")))
            return lambda: rig.stack.layers[-1].suspect(suspected, verb == "suspect")
        if verb in ("join", "leave", "say"):
            return lambda: rig.participate(verb, command.option("in"), words)
        raise LocalError(f"no such command: {verb}")

    # The network

    def transmit(self, port: RecordingPort, target: SiteId, view_id: int, message: Message) -> None:
        """Put a packet on its channel."""
        self.sent_count += 1
        channel = self.channels.setdefault((port.site, target), deque())
        if target not in self.sites or self.sites[target].alive:
            channel.append(Packet(self.sent_count, port.group, view_id, message))

    def on_channels(self, command: Command) -> None:
        """Deliver, drop or duplicate the next packets of channels."""
        if "only" in command.options:
            for ends, channel in self.channels.items():
                kept = [packet for packet in channel if type(packet.message).__name__ != command.options["only"]]
                self.channels[ends] = deque(kept)
        words = [word for word in command.words if word != "all"]
        for source, target in map(parse_channel, words):
            channel = self.channels.get((source, target), deque())
            count = len(channel) if "all" in command.words else 1
            for _ in range(count):
                if not channel:
                    raise LocalError(f"nothing is on the channel {source}->{target}")
                packet = channel[0] if command.verb == "duplicate" else channel.popleft()
                self.lines.append(f"{command.verb} {source}->{target} {brief(packet.message, packet.group)}")
                if command.verb != "drop":
                    self.arrive(source, target, packet)

    def arrive(self, source: SiteId, target: SiteId, packet: Packet) -> None:
        port = self.sites[target].ports.get(packet.group)
        if port is not None:
            port.receive(source, packet.view_id, packet.message)

    def tell_packets(self, _command: Command) -> None:
        for (source, target), channel in sorted(self.channels.items()):
            for packet in channel:
                self.lines.append(f"{source}->{target} {brief(packet.message, packet.group)}")

    # Time

    def up(self) -> list[StorySite]:
        return [site for site in self.sites.values() if site.alive]

    def next_timer(self) -> tuple[int, SiteId] | None:
        """When the next timer of all is due, and where."""
        due = [(due_ns, site.site) for site in self.up() if (due_ns := site.next_due_ns()) is not None]
        return min(due, default=None)

    def set_time(self, now_ns: int) -> None:
        self.now_ns = now_ns
        for site in self.sites.values():
            site.now_ns = now_ns

    def advance(self, delay_ns: int) -> None:
        end_ns = self.now_ns + delay_ns
        while (due := self.next_timer()) is not None and due[0] <= end_ns:
            self.set_time(due[0])
            self.sites[due[1]].fire_next()
        self.set_time(end_ns)

    def stabilize(self, command: Command) -> None:
        """Deliver and fire until nothing is owed; say so where that does not happen."""
        within = command.options.get("within", WITHIN)
        end_ns = self.now_ns + parse_span(within)
        self.quiet = True
        for _ in range(STEPS_MAX):
            waiting = [(channel[0].number, *ends) for ends, channel in self.channels.items() if channel]
            if waiting:
                _, source, target = min(waiting)
                self.arrive(source, target, self.channels[source, target].popleft())
            elif not self.unsettled():
                break
            elif (due := self.next_timer()) is None or due[0] > end_ns:
                self.lines.append(f"not settled after {within}: {', '.join(map(str, self.unsettled()))}")
                break
            else:
                self.advance(due[0] - self.now_ns)
        else:
            self.lines.append(f"not settled after {STEPS_MAX} steps")
        self.quiet = False

    def unsettled(self) -> list[SiteId]:
        """The sites where something submitted is still to be sent, ordered or acknowledged."""
        ports = [port for site in self.up() for port in site.ports.values()]
        return list(dict.fromkeys(port.site for port in ports if not port.stack.layers[0].settled()))

    # Views

    def change_view(self, command: Command) -> None:
        for site in self.flush(command):
            self.enter(site, group_of(command))

    def flush(self, command: Command) -> list[SiteId]:
        """Make what the survivors hold equal and decide the next view; its members, survivors first."""
        group = group_of(command)
        given, members = self.groups[group], parse_sites(command.option("members"))
        ports = {site.site: site.ports[group] for site in self.up() if group in site.ports}
        staying = [port for port in ports.values() if port.stack.view is given.view]
        for port in staying:
            port.run(port.stack.find(Transport).block)
        stayed = [port for port in staying if port.site in members]
        flush(given.view.members, [port.stack.find(Transport) for port in stayed])
        for port in stayed:
            port.freeze()
        incarnations = tuple(ports[site].incarnation for site in members)
        given.view = View(int(command.word("number")), members, incarnations)
        given.stayed, given.state = [port.site for port in stayed], None
        given.joined = [site for site in members if site not in given.stayed]
        return [*given.stayed, *given.joined]

    def enter(self, site: SiteId, group: GroupId) -> None:
        """Have one member install the view, take over the state if it joins, and resume."""
        given, port = self.groups[group], self.sites[site].ports[group]
        joins = site in given.joined
        if joins and given.stayed and given.state is None:
            raise LocalError(f"no member has installed view {given.view.view_id} that could tell site {site} its state")
        port.run(lambda: port.install(given.view))
        state = given.state
        if joins and state is not None:
            port.run(lambda: port.stack.restore(state))
        elif not joins and state is None:
            given.state = port.stack.state()
        port.run(port.resume)

    def tell_status(self, _command: Command) -> None:
        for site in self.up():
            for group, port in site.ports.items():
                told = ", ".join(payload.decode() for payload in self.rigs[site.site, group].history)
                site.record(port, f"view {port.view_id}, delivered {told or 'nothing'}")


def group_of(command: Command) -> GroupId:
    return GroupId(int(command.options.get("group", ONLY_GROUP)))


def parse_channel(text: str) -> Channel:
    match = re.fullmatch(r"(\d+)->(\d+)", text)
    if match is None:
        raise LocalError(f"{text!r} is no channel such as 1->3")
    return SiteId(int(match[1])), SiteId(int(match[2]))


def brief(message: Message, group: GroupId) -> str:
    """A packet for people: messages of the application by their names."""

    def name(cast: Cast) -> str:
        origin, sender, number = identity(cast, group)
        if isinstance(cast, Carried) and cast.body is not None:
            return f"{message_name(sender, number)}={show(cast.body)}"
        return ("" if origin == group else f"g{origin}/") + message_name(sender, number)

    return show(message, name)
