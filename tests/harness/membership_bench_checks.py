"""What must hold of all that the sites of a bench installed and handed up, whatever the schedule.

- A view has one successor, for memberships as for the stacks above them.
- Lives that go from a view to the next together have handed up the same messages in it, each as far as they are for it.
- A message is handed up once, in the view that it was sent in, and in its sender's order. One before it may be missing
  only where it went to some members: others may have handed up what follows.
- A life that goes on has handed up what it sent itself.
- Without files, where the state is never lost, whoever is in a view has the state of those that were there before.
- Where delivery is safe, what any life handed up, even one that crashed or was cut off, all who go on have.
"""

from __future__ import annotations

from itertools import pairwise

from tests.harness.membership_bench import Bench, Site

from isthmus.core.layer import View
from isthmus.core.message import SiteId

Name = tuple[SiteId, int]  # sender and number of a message


def wrong(bench: Bench) -> list[str]:
    """What is wrong with a bench so far, a sentence each."""
    return [*bench.refused[:1], *rival_views(bench), *unequal(bench), *misplaced(bench), *ignorant(bench)]


def rival_views(bench: Bench) -> list[str]:
    known: dict[int, View] = {}
    return [
        f"view {view.view_id} is {known[view.view_id].lives()} and {view.lives()}"
        for life in bench.lives
        for view in (*life.entered, *life.top.views)
        if view.view_id and known.setdefault(view.view_id, view) != view
    ]


def unequal(bench: Bench) -> list[str]:
    """What was handed up by one in a view and not by another that went on from there."""
    found = []
    in_view: dict[int, dict[Name, Site]] = {}  # what was handed up that others must have, too, and by whom
    closed: dict[tuple[int, int], list[tuple[Site, list[Name]]]] = {}
    for life in bench.lives:
        views = life.top.views
        for view, after, delivered in zip(views, [*views[1:], None][: len(views)], life.top.delivered, strict=True):
            if after is not None:
                closed.setdefault((view.view_id, after.view_id), []).append((life, delivered))
            if bench.safe and not bench.files:
                in_view.setdefault(view.view_id, {}).update(dict.fromkeys(delivered, life))
    for (view_id, _), group in sorted(closed.items(), key=lambda one: one[0]):
        common = dict(in_view.get(view_id, {}))
        common |= {name: life for life, delivered in group for name in delivered}
        for life, delivered in group:
            own = [name for name, sent in bench.sent.items() if sent[:2] == ((life.site, life.incarnation), view_id)]
            for name in (*sorted(common), *own):
                targets = bench.sent[name].targets
                if name not in delivered and (not targets or life.site in targets):
                    by = common.get(name, life).site
                    found.append(f"message {name} of view {view_id}, known to site {by}, is not at site {life.site}")
    return found


def misplaced(bench: Bench) -> list[str]:
    """What was handed up twice, in another view than it was sent in, or before what it follows."""
    found = []
    for life in bench.lives:
        for view, delivered in zip(life.top.views, life.top.delivered, strict=True):
            where = f"at site {life.site} in view {view.view_id}"
            found += [f"message {name} comes twice {where}" for name in delivered if delivered.count(name) > 1][:1]
            found += [
                f"message {name} of view {bench.sent[name].view_id} is handed up {where}"
                for name in delivered
                if bench.sent[name].view_id != view.view_id
            ]
            for sender in view.members:
                numbers = [number for origin, number in delivered if origin == sender]
                found += [f"{sender}:{b} after {sender}:{a} {where}" for a, b in pairwise(numbers) if b < a]
                skipped = [
                    name
                    for name, sent in bench.sent.items()
                    if name[0] == sender and sent.view_id == view.view_id and not sent.targets
                    if numbers and name[1] < max(numbers) and name[1] not in numbers
                ]
                found += [f"message {name} is left out {where}" for name in skipped[:1]]
    return found


def ignorant(bench: Bench) -> list[str]:
    """Who is in a view and knows nothing of what was before."""
    lives = [life for life in bench.lives if life.top.views and not life.top.told and not (bench.files or bench.forgot)]
    return [f"site {life.site} is in view {life.top.views[0].view_id} without the state" for life in lives]
