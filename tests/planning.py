"""Settings to plan for, as the studies have them; drawn before anything was measured."""

from isthmus.studies.instances import KINDS, NINE, Kind, drawn, nine, topology_of, workloads_of

__all__ = ["KINDS", "NINE", "Kind", "drawn", "nine", "topology_of", "workloads_of"]
