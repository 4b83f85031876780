"""Trace rows of participant groups: each is a separate group, nested in a site group, so that every check applies.

A VIEW row names the sites that host members; SUBMIT and DELIVER rows name messages by the site of their sender and by
the label that begins their payload, which retransmissions share. The number of the group is a digest of its name, of
the site group and of its *era*: where no member kept the state of the site group, participant views are numbered from
the start again, and belong to a different group.

The origin of such a VIEW row is the site group, which identifies the group as nested (judge/arrange.py).
"""

from __future__ import annotations

import zlib

from isthmus.core.layer import Finality, Kind
from isthmus.core.message import GroupId
from isthmus.protocols.participants.wire import ParticipantView, Speech, hosts_of
from isthmus.scenario.participants.model import LABEL_BYTES
from isthmus.scenario.participants.traffic import ParticipantEvent, SentMessage
from isthmus.trace.log import SiteLog, digest_of
from isthmus.trace.schema import COUNTER_BITS, NONE

FIRST_PARTICIPANT_GROUP = 1 << 30  # numbers of participant groups start here


def participant_group(within: GroupId, name: str, era: int) -> int:
    """Return the number of a participant group in a trace."""
    return FIRST_PARTICIPANT_GROUP | zlib.crc32(f"{within}/{era}/{name}".encode()) % FIRST_PARTICIPANT_GROUP


def message_number(payload: bytes) -> int:
    """Return the number of a message, from its label."""
    incarnation, count = map(int, payload[:LABEL_BYTES].split(b"."))
    return incarnation << COUNTER_BITS | count


class ParticipantTrace:
    """A writer of the participant events of one site into its trace."""

    __slots__ = ("log",)

    def __init__(self, log: SiteLog) -> None:
        self.log = log

    def write(self, note: ParticipantEvent, time_ns: int) -> None:
        log, what = self.log, note.what
        if log.sink is None or (isinstance(what, Speech) and what.finality is not Finality.FINAL):
            return  # guesses of one message come again, as its sender repeats it
        group = participant_group(note.within, what.group, note.era)
        message: tuple[int, int, int]
        if isinstance(what, ParticipantView):
            hosts = hosts_of(what.members)
            if note.site not in hosts:
                return  # sites outside the view get no VIEW row, as for site groups
            log.views[group] = what.number
            kind, message, size, value = Kind.VIEW, (note.within, NONE, NONE), 0, what.number
        else:
            said = isinstance(what, SentMessage)
            kind, hosts, size = Kind.SUBMIT if said else Kind.DELIVER, (), len(what.payload)
            value = digest_of(what.payload)
            message = (group, what.sender.site, message_number(what.payload))
        log.local += 1
        place = (log.run, log.process, log.local, time_ns, kind)
        log.sink.append((*place, *message, group, log.views.get(group, NONE), hosts or None, size, 0, value, 0))
