"""What replicas of a router change in the calculus: their nodes deliver safely, and three nodes need causal order."""

from __future__ import annotations

import msgspec
from tests.harness.compositions import domain, group

from isthmus.protocols.routing.calculus.model import Composition, Igp, RouterSpec
from isthmus.protocols.routing.calculus.semantics import Guarantee, decide


def causal(composition: Composition) -> Guarantee:
    return decide(composition, composition.domains, "inter").of("causal")


def with_replicas(composition: Composition, replicas: int) -> Composition:
    routers = tuple(msgspec.structs.replace(router, replicas=replicas) for router in composition.routers)
    return msgspec.structs.replace(composition, routers=routers)


def test_a_member_has_its_own_messages_late_where_a_router_has_replicas() -> None:
    """r0 turns a message of A round in I; what B answers may be in I, at r0, before r0's own copy is safe."""
    groups = (group("A", "fifo", 2), group("B", "fifo", 1))
    routers = (RouterSpec("r0", ("A", "I")), RouterSpec("r1", ("B", "I")))
    paired = Composition("paired", groups, routers, (domain("AB", "hierarchical"),), (Igp("I", "fifo"),))
    assert causal(paired).holds
    assert not causal(with_replicas(paired, 2)).holds


def test_replicas_in_three_nodes_need_causal_ones() -> None:
    groups = tuple(group(name, kind, 1) for name, kind in (("A", "causal"), ("B", "causal"), ("C", "fifo")))
    joined = Composition(
        "joined", groups, (RouterSpec("r", ("A", "B", "C")),), (domain("ABC", flows="A>BC, B>C, C>B"),)
    )
    assert causal(joined).holds
    assert causal(with_replicas(joined, 2)).rule == "replicas"
