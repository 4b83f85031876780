"""The verdict on what participants are promised, and their figures, from the history of all participants of a run.

Judged are, from the events of all sites (scenario/participants/traffic.py) and the lives that are up at the end; a
crashed site is held to the site views that it survived:

- views: view k of a group has the same members everywhere; a site that hosts members installs consecutive views;
- synchrony: sites that host members of view k and install k+1, or are up at the end, deliver the same messages in k;
  over a total order in the same order;
- integrity: a participant's messages come once, from a member, to a site that hosts members, in order where promised;
- validity: a message sent at a site that is up is delivered there;
- guesses: what is tentative at a site is not delivered there yet, and is delivered or revoked in the end, while the
  site hosts members.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from isthmus.core.layer import Finality
from isthmus.judge.verdict import Verdict
from isthmus.protocols.participants.wire import Participant, ParticipantView, Speech
from isthmus.scenario.model import GroupOfRun
from isthmus.scenario.participants.model import LABEL_BYTES
from isthmus.scenario.participants.traffic import ParticipantEvent, SentMessage
from isthmus.stacks.registry import STACKS

PARTICIPANTS = "participants"  # the name of the property
Life = tuple[int, int]  # a site and its incarnation
Labelled = tuple[Participant, bytes]  # a message: its sender and its payload, which begins with a unique label
ByView = dict[int, list[Labelled]]  # by view number, the messages delivered in it, in order


class ParticipantFigures(msgspec.Struct, frozen=True):
    """One participant group at the end of a run."""

    group: str
    view: int
    members: tuple[str, ...]  # participant@site
    active: bool
    unmet: tuple[str, ...]  # conditions that do not hold
    sent: int
    delivered: int


def participant_verdict(group: GroupOfRun, events: Sequence[ParticipantEvent], up: Iterable[Life]) -> Verdict:
    """The verdict on the participants of one site group, by what its stack promises."""
    found = ParticipantHistory(events, up).violations(STACKS[group.stack.name].properties)
    if not found:
        return Verdict(PARTICIPANTS, "valid", len(events), 0, "", group.id)
    return Verdict(PARTICIPANTS, "violated", len(events), len(found), found[0], group.id)


def participant_figures(events: Iterable[ParticipantEvent], names: Sequence[str]) -> tuple[ParticipantFigures, ...]:
    """The figures of every participant group; `names` are those of the sites."""
    last: dict[str, ParticipantView] = {}
    counts: Counter[tuple[str, type]] = Counter()
    for event in events:
        what = event.what
        if not is_guess(what):
            counts[what.group, type(what)] += 1
        if isinstance(what, ParticipantView) and what.number >= last.get(what.group, what).number:
            last[what.group] = what
    return tuple(
        ParticipantFigures(
            group=name,
            view=view.number,
            members=tuple(f"{member.name}@{names[member.site]}" for member in view.members),
            active=view.active,
            unmet=view.unmet,
            sent=counts[name, SentMessage],
            delivered=counts[name, Speech],
        )
        for name, view in sorted(last.items())
    )


def is_guess(what: object) -> bool:
    """Whether something is a tentative message or the revocation of one."""
    return isinstance(what, Speech) and what.finality is not Finality.FINAL


class ParticipantHistory:
    """What participants sent and saw, by group and by life of a site."""

    def __init__(self, events: Sequence[ParticipantEvent], up: Iterable[Life]) -> None:
        self.up = {*up}  # at the end
        last: dict[Life, int] = {}  # the last site view in which something happened to participants
        for event in events:
            life = (event.site, event.incarnation)
            last[life] = max(last.get(life, 0), event.view_id)
        self.views: dict[str, dict[int, tuple[Participant, ...]]] = defaultdict(dict)
        self.by_view: dict[tuple[str, Life], ByView] = {}
        self.sent: dict[tuple[str, Life], list[Labelled]] = defaultdict(list)
        self.delivered: dict[tuple[str, Life], list[Labelled]] = defaultdict(list)
        self.guesses: dict[tuple[str, Life], dict[Labelled, None]] = defaultdict(dict)  # neither final nor revoked
        self.found: list[str] = []
        for event in events:
            life = (event.site, event.incarnation)
            if life in self.up or event.view_id < last[life]:  # of a crashed site, not its last site view
                self.add(life, event)

    def add(self, life: Life, event: ParticipantEvent) -> None:
        what = event.what
        group = f"{what.group} since site view {event.era}"  # a site group without state numbers views anew
        if isinstance(what, SentMessage):
            self.sent[group, life].append((what.sender, what.payload))
        elif isinstance(what, ParticipantView):
            self.add_view(group, life, what)
        elif is_guess(what):
            self.add_guess(group, life, what)
        else:
            self.add_delivery(group, life, what)

    def add_view(self, group: str, life: Life, view: ParticipantView) -> None:
        known = self.views[group].setdefault(view.number, view.members)
        if known != view.members:
            self.found.append(f"view {view.number} of {group} has two memberships: {known} and {view.members}")
        by_view = self.by_view.setdefault((group, life), {})
        if by_view:
            last = max(by_view)
            hosted = any(member.site == life[0] for member in self.views[group][last])
            if view.number <= last or (hosted and view.number != last + 1):
                self.found.append(f"site {life} goes from view {last} of {group} to {view.number}")
        by_view[view.number] = []

    def add_delivery(self, group: str, life: Life, speech: Speech) -> None:
        by_view = self.by_view.get((group, life), {})
        number = max(by_view, default=0)
        members = self.views[group].get(number, ())
        if number != speech.view_number or all(member.site != life[0] for member in members):
            self.found.append(f"site {life} delivers {speech.sender} in view {number} of {group}, but hosts no member")
            return
        if speech.sender not in members:
            self.found.append(f"site {life} delivers {speech.sender}, no member of view {number} of {group}")
        by_view[number].append((speech.sender, speech.payload))
        self.delivered[group, life].append((speech.sender, speech.payload))
        self.guesses[group, life].pop((speech.sender, speech.payload), None)

    def add_guess(self, group: str, life: Life, speech: Speech) -> None:
        guesses, message = self.guesses[group, life], (speech.sender, speech.payload)
        if speech.finality is Finality.REVOKED:
            known = message in guesses
            guesses.pop(message, None)
        else:
            known = message not in guesses and message not in self.delivered.get((group, life), ())
            guesses[message] = None
        if not known:
            kind = speech.finality.name.lower()
            self.found.append(f"site {life} is told of {speech.sender} in {group} as {kind}, at the wrong time")

    def violations(self, promised: Sequence[str]) -> list[str]:
        self.check_synchrony("total" in promised)
        self.check_senders("fifo" in promised)
        self.check_losses()
        return self.found

    def check_synchrony(self, total: bool) -> None:
        """Check that all hosts of a view that closed it, or are up at the end, delivered the same in it."""
        first: dict[tuple[str, int], tuple[Life, list[Labelled]]] = {}
        for (group, life), by_view in self.by_view.items():
            for number, messages in by_view.items():
                hosted = any(member.site == life[0] for member in self.views[group][number])
                if not hosted or not (number + 1 in by_view or life in self.up):
                    continue
                mine = messages if total else sorted(messages)
                other, theirs = first.setdefault((group, number), (life, mine))
                if mine != theirs:
                    self.found.append(
                        f"sites {other} and {life} delivered {len(theirs)} and {len(mine)} messages in view {number} "
                        f"of {group}, not the same"
                    )

    def check_senders(self, fifo: bool) -> None:
        """Check that each sender's messages come once, and in order where the stack keeps it."""
        for (group, life), messages in self.delivered.items():
            if len({*messages}) < len(messages):
                self.found.append(f"site {life} delivers a message of {group} twice")
            last: dict[tuple[Participant, int], int] = {}
            for sender, payload in messages:
                incarnation, number = map(int, payload[:LABEL_BYTES].split(b"."))
                if fifo and number <= last.get((sender, incarnation), 0):
                    self.found.append(f"site {life} delivers {sender} of {group} out of order: {number}")
                last[sender, incarnation] = number

    def check_losses(self) -> None:
        """Check that what was sent at a site that is up is delivered there."""
        for (group, life), messages in self.sent.items():
            if life in self.up:
                back = {*self.delivered.get((group, life), [])}
                lost = [one for one in messages if one not in back]
                if lost:
                    self.found.append(f"{len(lost)} messages of site {life} to {group} are lost")
        for (group, life), guesses in self.guesses.items():
            view = self.views[group][max(self.by_view[group, life])]
            if guesses and life in self.up and any(member.site == life[0] for member in view):
                self.found.append(f"{len(guesses)} guesses at site {life} in {group} are neither final nor revoked")
