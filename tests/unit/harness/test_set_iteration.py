"""The reader of set iterations: what it must see, and what it must let pass."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from tests.harness.set_iteration import found_in, gather


def found(text: str) -> list[int]:
    tree = ast.parse(dedent(text))
    return found_in(tree, gather([tree]))


SEEN = {
    "a display": "for x in {1, 2}: pass",
    "a comprehension of a set": "[x for x in {y for y in z}]",
    "a call": "for x in set(y): pass",
    "a frozen one": "for x in frozenset(y): pass",
    "a name": "s = set()\nfor x in s: pass",
    "an annotated name": "s: set[int] = f()\nfor x in s: pass",
    "a name that may be none": "s: set[int] | None = f()\nfor x in s or (): pass",
    "a parameter": "def f(s: set[int]):\n    for x in s: pass",
    "a quoted annotation": "def f(s: 'frozenset[int]'):\n    for x in s: pass",
    "an operator": "for x in a & {1}: pass",
    "keys": "for x in a.keys() - b.keys(): pass",
    "a method": "for x in a.union(b): pass",
    "a copy": "s = {1}\nfor x in s.copy(): pass",
    "a choice": "s = {1} if a else {2}\nlist(s)",
    "a list": "list({1})",
    "a tuple": "tuple(set(a))",
    "a dict": "dict.fromkeys({1})",
    "a map": "list(map(f, set(a)))",
    "an enumeration": "sorted(enumerate(set(a)))",
    "a star": "f(*{1, 2})",
    "a star in a list": "[*set(a), 1]",
    "unpacking": "a, b = {1, 2}",
    "the first": "next(iter({1}))",
    "any element": "s = {1}\ns.pop()",
    "yield from": "def f():\n    yield from {1}",
    "a draw": "random.choice(set(a))",
    "joined": "','.join({'a'})",
    "an alias": "s = {1}\nt = s\nfor x in t: pass",
    "a walrus": "if (s := set(a)):\n    for x in s: pass",
    "a function that says so": "def f() -> set[int]: ...\nfor x in f(): pass",
    "a function that returns two": "def f() -> tuple[set[int], int]: ...\na, b = f()\nfor x in a: pass",
    "a nested function": "def f():\n    s = set()\n    def g():\n        for x in s: pass",
    "several at once": "a, b = set(), 1\nfor x in a: pass",
}


@pytest.mark.parametrize("text", SEEN.values(), ids=SEEN.keys())
def test_seen(text: str) -> None:
    assert found(text)


def test_attributes_are_seen_over_all_methods_and_by_their_class() -> None:
    text = """
        class A:
            def __init__(self, given):
                self.s = set(given)
                self.t: set[int] = f()
            def g(self):
                for x in self.s: pass
                return [x for x in self.t]
        class B:
            def __init__(self):
                self.a = A(())
            def h(self, other: A):
                for x in self.a.s: pass
                a = self.a
                for x in a.t: pass
                for x in other.s: pass
        """
    assert found(text) == [7, 8, 13, 15, 16]


PASSED = {
    "sorted": "for x in sorted({1}): pass",
    "the least": "min(set(a))",
    "the number": "len({1})",
    "of a comprehension": "sorted(x + 1 for x in {1})",
    "of a list of one": "max([f(x) for x in set(a)], default=0)",
    "mapped": "sorted(map(f, set(a)))",
    "whether any": "any(x > 1 for x in s | {1})",
    "another set": "{f(x) for x in {1}}",
    "a set of it": "frozenset(x for x in {1})",
    "a set with it": "{*s, *{1}}",
    "membership": "s = {1}\n1 in s",
    "comparison": "set(a) <= set(b)",
    "change": "s = set()\ns.add(1)\ns.update({2})\ns.discard(3)",
    "a dict": "for x in {1: 2}: pass",
    "numbers": "for x in range(a - b): pass",
    "dicts joined": "for x in a | b: pass",
    "the view itself": "for x in a.keys(): pass",
    "the other of two": "def f() -> tuple[set[int], list[int]]: ...\na, b = f()\nfor x in b: pass",
    "another name": "s = {1}\ndef f(s):\n    for x in s: pass",
    "another attribute": "class A:\n    def f(self):\n        self.s = [1]\n        for x in self.s: pass",
    "the last of a list": "s = []\ns.pop()",
    "a key of a dict": "s = {}\ns.pop(1)",
}


@pytest.mark.parametrize("text", PASSED.values(), ids=PASSED.keys())
def test_passed(text: str) -> None:
    assert not found(text)
