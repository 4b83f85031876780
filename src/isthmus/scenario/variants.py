"""The same scenario over another stack: the semantics of `--stack`.

A stack is given by name, or as a file such as `isthmus plan` writes. A named stack takes over those scenario options
that it supports, by the registry of stacks: token-site takes the sequencer of optimistic, and every stack takes the
transport. Groups with a stack of their own keep it.

In a composition the new stack applies to all groups of processes; IGPs keep theirs. If the domains would then get less
than they require, the change is rejected, with the reason.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue, convert, one_of, read_toml
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.scenario.composition.check import check_wanted
from isthmus.scenario.composition.load import semantics_of_stack
from isthmus.scenario.composition.nodes import nodes_as_groups
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.stacks.registry import STACKS


def stack_named(name: str, like: StackSpec) -> StackSpec:
    """Return a stack by name, with the supported options of another; or the stack described by a file."""
    if name in STACKS:
        kept = {option: getattr(like, option) for option in STACKS[name].options}
        return StackSpec(name=name, **kept)
    if Path(name).is_file():
        return convert(read_toml(Path(name)), StackSpec, name)
    raise InputError("--stack", "", repr(name), f"{one_of(name, STACKS)}, or the path of a stack file")


def with_stack(scenario: Scenario, name: str) -> Scenario:
    """Return the scenario over another stack; raise InputError if the stack does not run there or no group uses it."""
    if scenario.composition is not None:
        return composed_with(scenario, scenario.composition, name)
    if scenario.groups and all(group.stack is not None for group in scenario.groups):
        raise InputError("--stack", name, "groups that all have a stack of their own", "a group without one")
    try:
        return msgspec.structs.replace(scenario, stack=stack_named(name, scenario.stack))
    except BadValue as error:
        raise error.at(f"--stack {name}", "") from None


def composed_with(scenario: Scenario, composition: Composition, name: str) -> Scenario:
    """Return a composed scenario with another stack in all groups of processes."""
    stack, source = stack_named(name, scenario.stack), f"--stack {name}"
    semantics = semantics_of_stack(stack.name)
    groups = [msgspec.structs.replace(group, stack=stack.name, semantics=semantics) for group in composition.groups]
    try:
        made = msgspec.structs.replace(composition, groups=tuple(groups))
        check_wanted(made, source)
        given = [
            msgspec.structs.replace(group, sites=())
            for group in scenario.groups
            if any(group.name == igp.name for igp in composition.igps)
        ]
        nodes = nodes_as_groups(made, given, stack, source)
        return msgspec.structs.replace(scenario, stack=stack, composition=made, groups=nodes)
    except BadValue as error:
        raise error.at(source, "") from None
