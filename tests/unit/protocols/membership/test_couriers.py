"""How the words of a change of view travel between LANs, and which parcels are refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.membership.couriers import Couriers, Parcel, Parcels
from isthmus.protocols.membership.wire import Here, Prepare

LANS = (0, 0, 1, 1, 1)


def sites(*numbers: int) -> Targets:
    return tuple(SiteId(number) for number in numbers)


def prepare(round_: int = 1, author: int = 0) -> Prepare:
    return Prepare(0, 0, 1, (round_, SiteId(author), 0))


class Post:
    """Couriers at one site of two LANs, and what they do."""

    def __init__(self, site: int) -> None:
        self.sent: list[tuple[Targets, Message]] = []
        self.given: list[tuple[SiteId, Message]] = []
        self.layer = Couriers(LANS)
        self.layer.host = SimpleNamespace(site=SiteId(site), set_timer=lambda *_: None)  # type: ignore[assignment]
        self.layer.above = SimpleNamespace(suspect=lambda *_: None)  # type: ignore[assignment]
        self.layer.send = lambda targets, message: self.sent.append((targets, message))
        routes = {Prepare: lambda source, word: self.given.append((source, word))}
        self.layer.stack = SimpleNamespace(routes=routes)  # type: ignore[assignment]
        self.layer.install(View(1, sites(0, 1, 2, 3, 4)))


def test_an_agent_sends_one_parcel_to_each_remote_lan() -> None:
    post = Post(0)
    post.layer.carry(sites(1, 2, 3, 4), prepare())
    assert post.sent == [(sites(1), prepare())]
    post.layer.timer(0)
    assert post.sent[1:] == [(sites(2), Parcels((Parcel(SiteId(0), sites(2, 3, 4), prepare()),)))]


def test_others_give_their_words_to_the_agent_of_their_lan() -> None:
    post = Post(1)
    post.layer.carry(sites(2, 3), prepare(author=1))
    assert post.sent == [(sites(0), Parcels((Parcel(SiteId(1), sites(2, 3), prepare(author=1)),)))]
    post.layer.suspect(SiteId(0), True)
    post.layer.carry(sites(2, 3), prepare(2, author=1))
    post.layer.timer(0)
    assert post.sent[1:] == [(sites(2), Parcels((Parcel(SiteId(1), sites(2, 3), prepare(2, author=1)),)))]


def test_what_is_said_again_goes_straight() -> None:
    post = Post(0)
    post.layer.carry(sites(2, 3), prepare())
    post.layer.carry(sites(2, 3), prepare())
    assert post.sent == [(sites(2, 3), prepare())]


def test_a_remote_agent_passes_a_word_on_inside() -> None:
    post = Post(2)
    post.layer.on_parcels(SiteId(0), Parcels((Parcel(SiteId(1), sites(2, 3, 4), prepare(author=1)),)))
    assert post.given == [(SiteId(1), prepare(author=1))]
    assert post.sent == [(sites(3, 4), Parcels((Parcel(SiteId(1), (), prepare(author=1)),)))]


@pytest.mark.parametrize(
    "parcel",
    [
        Parcel(SiteId(0), (), Here(0, 0, 1, True)),  # no word of a change of view
        Parcel(SiteId(2), (), prepare(author=2)),  # our own, from another
        Parcel(SiteId(1), sites(0), prepare(author=1)),  # to another LAN, and not from its author
        Parcel(SiteId(9), (), prepare(author=9)),  # nobody's
    ],
)
def test_bad_parcels_are_refused(parcel: Parcel[Message]) -> None:
    post = Post(2)
    with pytest.raises(RemoteError):
        post.layer.on_parcels(SiteId(3), Parcels((parcel,)))
    assert post.given == [] and post.sent == []
