"""Uniform agreement: what any life delivered in a view, also one that crashed, all who go on from that view have too.

A life *goes on* from a view if it installs another one after it, or is up and in the settled last view at the end.
"""

from __future__ import annotations

from isthmus.judge.history import GroupHistory, Life
from isthmus.judge.properties.agreement import disagreement, stretches
from isthmus.judge.properties.finding import Finding
from isthmus.judge.witness import LACKS

Stretch = tuple[Life, int | None, set[int]]  # a life, where it goes on to, what it delivered in the view


def uniform_agreement(group: GroupHistory) -> Finding:
    """What any life delivered in a view is delivered in it by all who go on from there, as far as it is for them."""
    finding = Finding(group.cut or LACKS["uniform-agreement"])
    by_view: dict[int, list[Stretch]] = {}
    for life, view, onward, delivered in stretches(group):
        by_view.setdefault(view, []).append((life, onward, delivered))
    for view, there in sorted(by_view.items()):
        compare(group, view, there, finding)
    return finding


def compare(group: GroupHistory, view: int, there: list[Stretch], finding: Finding) -> None:
    """Find what some delivered in a view and others, which went on from it, did not."""
    going = [stretch for stretch in there if stretch[1] is not None]
    others = [stretch for stretch in there if stretch[1] is None and stretch[2]]
    if len(going) + len(others) < 2 or not going:
        return
    finding.evidence_count += sum(len(delivered) for _, _, delivered in (*going, *others))
    union = set().union(*(delivered for _, _, delivered in (*going, *others)))
    for message in sorted(union - going[0][2].intersection(*(delivered for _, _, delivered in going))):
        if group.submitted[message] is None:
            continue
        having = next(life for life, _, delivered in (*going, *others) if message in delivered)
        for life, onward, delivered in going:
            if message not in delivered and onward is not None and group.addresses(message, life.process):
                finding.violate(disagreement(group, message, view, onward, having, life, "unshared"))
