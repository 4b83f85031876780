"""Pictures of networks: the same bytes each time, nothing outside the frame, labels apart."""

from pathlib import Path

import numpy as np
import pytest

from isthmus.report.pictures.layout import best_box, inside, overlap, place
from isthmus.report.pictures.network import save_network
from isthmus.report.pictures.roles import elsewhere, role_text
from isthmus.stacks.roles.prediction import RoleAssignment
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import SHAPES, shape

LAN, WAN = Channel(Constant(1)), Channel(Constant(50))


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_network_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    net = shape("random", 9, 2, LAN, WAN)
    for name in ("one", "other"):
        save_network(net, tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"other.{kind}").read_bytes()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 3, 8, 30])
def test_discs_lie_inside_the_frame_and_apart(name: str, count: int) -> None:
    points = place(shape(name, count, 1, LAN, WAN))
    assert abs(points[:, 0]).max() <= 0.81 and abs(points[:, 1]).max() <= 0.51
    gaps = [float(((points[a] - points[b]) ** 2).sum()) ** 0.5 for a in range(count) for b in range(a)]
    assert all(gap > 0.05 for gap in gaps)


def test_boxes_and_lines() -> None:
    assert overlap((0, 0, 2, 2), (1, 1, 3, 3)) == 1
    assert overlap((0, 0, 1, 1), (1, 0, 2, 1)) == 0
    assert inside((0, 0, 1, 1), np.array([(-1, 0.5, 2, 0.5)])) == pytest.approx(1)
    assert inside((0, 0, 1, 1), np.array([(-1, 2, 2, 2)])) == 0
    assert inside((0, 0, 1, 1), np.array([(0, 0, 2, 2), (0.5, -1, 0.5, 3)])) == pytest.approx(1 + 2**0.5)
    below = best_box((0, 0), (0.2, 0.05), 0.1, [], np.empty((0, 4)))
    above = best_box((0, 0), (0.2, 0.05), 0.1, [below], np.empty((0, 4)))
    assert below[3] < 0 < above[1]


@pytest.mark.parametrize("sites", [1, 3, 30])
def test_roles_are_drawn_in_and_the_bytes_repeat(sites: int, tmp_path: Path) -> None:
    net = shape("mesh", 3, sites, LAN, WAN)
    roles = RoleAssignment(tuple(0 if number < 2 * sites else 2 * sites for number in range(3 * sites)))
    for name in ("one", "other"):
        save_network(net, tmp_path / f"{name}.svg", roles=roles)
    save_network(net, tmp_path / "plain.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()
    assert (tmp_path / "one.svg").read_bytes() != (tmp_path / "plain.svg").read_bytes()


def test_arrows_lead_to_sequencers_elsewhere_and_labels_name_who_is_active() -> None:
    net = shape("mesh", 3, 2, LAN, WAN)
    roles = RoleAssignment((0, 0, 0, 0, 4, 5))
    assert elsewhere(net, roles) == {(1, 0)}
    assert [role_text(net, roles, number) for number in range(3)] == ["active: c0-0", "", "all active"]
    assert role_text(shape("mesh", 1, 6, LAN, WAN), RoleAssignment((0, 1, 2, 3, 0, 0)), 0) == "4 of 6 active"
