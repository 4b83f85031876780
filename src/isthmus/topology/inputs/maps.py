"""A backbone map (GraphML with coordinates, read by networkx) as a topology.

Each node becomes a cluster, each edge a WAN link whose delay is the great-circle distance at 200 km per millisecond, at
least 0.1 ms. Gaps of the map are repaired, each with a note: a node without coordinates is placed at the mean of its
neighbours or dropped; of a map in pieces the largest is kept; equal labels get a number.
"""

from __future__ import annotations

import warnings
from math import asin, cos, isfinite, radians, sin, sqrt
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from networkx import NetworkXError
from networkx.readwrite.graphml import GraphMLReader

from isthmus.core.errors import InputError
from isthmus.topology.delay import Constant
from isthmus.topology.graph import components
from isthmus.topology.model import Channel, Topology, WanLink
from isthmus.topology.shapes import of_equal_clusters, unique_names

KM_PER_MS = 200.0
LEAST_MS = 0.1
EARTH_KM = 6371.0
Place = tuple[float, float]  # latitude, longitude in degrees


class MapNode(NamedTuple):
    """A node of the map as drawn."""

    key: str
    label: str
    place: Place | None


class ImportedTopology(NamedTuple):
    """An imported topology, with notes of what was repaired or assumed."""

    topology: Topology
    notes: tuple[str, ...]


def load_map(path: Path, sites: int = 3, lan: Channel | None = None) -> ImportedTopology:
    """The topology of a GraphML map: a cluster of `sites` sites for each node."""
    nodes, edges = read_graphml(path)
    notes: list[str] = []
    places = locate(nodes, edges, notes)
    kept = [node for node in nodes if node.key in places]
    number = {node.key: index for index, node in enumerate(kept)}
    pairs = sorted({low_high(number[a], number[b]) for a, b in edges if a in number and b in number and a != b})
    if not kept:
        raise InputError(str(path), "", "no node with Latitude and Longitude", "a map with coordinates")
    parts = components(len(kept), pairs)
    largest = max(parts, key=len)
    if len(parts) > 1:
        lost = [kept[index].label for part in parts if part is not largest for index in part]
        notes.append(f"the map is in {len(parts)} pieces: kept the largest and dropped {', '.join(lost)}")
    names = unique_names([kept[index].label for index in largest], sites)
    for name, index in zip(names, largest, strict=True):
        if name != kept[index].label:
            notes.append(f"a second node has the label {kept[index].label}: renamed to {name}")
    at = {index: place for place, index in enumerate(largest)}
    spots = [places[kept[index].key] for index in largest]
    links = []
    for a, b in pairs:
        if a in at and b in at:
            channel = Channel(Constant(fibre_ms(spots[at[a]], spots[at[b]])))
            links.append(WanLink(at[a], at[b], channel, channel))
    lans = [lan or Channel(Constant(LEAST_MS))] * len(names)
    return ImportedTopology(of_equal_clusters(path.stem, names, sites, lans, tuple(links), spots), tuple(notes))


class MapReader(GraphMLReader):  # type: ignore[misc]
    """networkx's reader, made strict about ids; names of attributes in lower case, their values as text."""

    def __init__(self, path: Path, namespace: str) -> None:
        super().__init__()
        self.path = str(path)
        self.NS_GRAPHML = namespace  # maps are found with the current one, with an older one and without any

    def find_graphml_keys(self, graph_element: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        for key in graph_element.findall(f"{{{self.NS_GRAPHML}}}key"):
            key.set("attr.type", "string")
            key.set("attr.name", key.get("attr.name", "").lower())
        found: tuple[dict[str, Any], dict[str, Any]] = super().find_graphml_keys(graph_element)
        return found

    def add_node(self, G: Any, node_xml: Any, graphml_keys: Any, defaults: Any) -> None:  # noqa: N803
        if (key := node_xml.get("id", "")) in G:
            raise InputError(self.path, f"node {key}", "a second node of this id", "unique ids")
        super().add_node(G, node_xml, graphml_keys, defaults)

    def add_edge(self, G: Any, edge_element: Any, graphml_keys: Any) -> None:  # noqa: N803
        ends = edge_element.get("source", ""), edge_element.get("target", "")
        for end in ends:
            if end not in G:
                raise InputError(self.path, f"edge {ends[0]} to {ends[1]}", f"the end {end!r}", "the id of a node")
        super().add_edge(G, edge_element, graphml_keys)


def read_graphml(path: Path) -> tuple[list[MapNode], list[tuple[str, str]]]:
    try:
        text = path.read_bytes()
        namespace, _, element = ElementTree.fromstring(text).tag.rpartition("}")
        if element != "graphml":
            raise InputError(str(path), "", f"the element <{element}>", "a <graphml> element")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ports, which a map does not need
            graphs = list(MapReader(path, namespace[1:])(string=text))
    except FileNotFoundError:
        raise InputError(str(path), "", "no such file", "the path of a GraphML file") from None
    except OSError as error:
        raise InputError(str(path), "", error.strerror or "an error", "the path of a GraphML file") from None
    except ElementTree.ParseError as error:
        raise InputError(str(path), "", f"a syntax error ({error})", "GraphML") from None
    except NetworkXError as error:
        raise InputError(str(path), "", f"an unsupported map ({str(error).rstrip('.')})", "plain GraphML") from None
    nodes = []
    for key, data in (entry for graph in graphs for entry in graph.nodes(data=True)):
        attributes = {name: str(value or "").strip() for name, value in data.items()}
        nodes.append(MapNode(key, attributes.get("label") or key, read_place(attributes, path, key)))
    return nodes, [(a, b) for graph in graphs for a, b in graph.edges()]


def read_place(data: dict[str, str], path: Path, key: str) -> Place | None:
    texts = data.get("latitude", ""), data.get("longitude", "")
    if not all(texts):
        return None
    try:
        latitude, longitude = map(float, texts)
    except ValueError:
        raise InputError(str(path), f"node {key}", f"the coordinates {', '.join(texts)}", "degrees") from None
    if not (isfinite(latitude) and isfinite(longitude)):
        return None
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise InputError(
            str(path),
            f"node {key}",
            f"the coordinates {', '.join(texts)}",
            "a latitude within 90 and a longitude within 180 degrees",
        )
    return latitude, longitude


def locate(nodes: list[MapNode], edges: list[tuple[str, str]], notes: list[str]) -> dict[str, Place]:
    """The coordinates of every node that has some or whose neighbours have."""
    places = {node.key: node.place for node in nodes if node.place is not None}
    missing = [node for node in nodes if node.place is None]
    while missing:
        found = {}
        for node in missing:
            near = {a if b == node.key else b for a, b in edges if node.key in (a, b)}
            spots = [places[key] for key in sorted(near) if key in places]
            if spots:
                found[node.key] = (sum(p[0] for p in spots) / len(spots), sum(p[1] for p in spots) / len(spots))
                notes.append(f"{node.label} has no coordinates: placed at the mean of its neighbours")
        if not found:
            break
        places |= found
        missing = [node for node in missing if node.key not in found]
    notes += [f"{node.label} has no coordinates and no neighbour with coordinates: dropped" for node in missing]
    return places


def fibre_ms(here: Place, there: Place) -> float:
    """The one-way delay of a fibre along the great circle, to a microsecond."""
    (lat1, lon1), (lat2, lon2) = (tuple(map(radians, place)) for place in (here, there))
    chord = sin((lat2 - lat1) / 2) ** 2 + cos(lat1) * cos(lat2) * sin((lon2 - lon1) / 2) ** 2
    return max(LEAST_MS, round(2 * EARTH_KM * asin(sqrt(min(1.0, chord))) / KM_PER_MS, 3))


def low_high(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
