"""Where code iterates over a set: its order depends on hashes, and so would what follows from it.

Types are read off the text, without running it. An expression is a set where it is made as one (a display, a
comprehension, `set()`, an operator or a method that returns one), where a name or an attribute was assigned or
annotated as one, or where a function says that it returns one. Attributes of other objects count where their class is
known: from a call of the class, or from an annotation.

Harmless is what does not depend on the order: `sorted`, `min`, `len` and the like, directly or over a comprehension, a
comprehension that makes a set, and the methods of sets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAKERS = ("set", "frozenset")
METHODS = ("union", "intersection", "difference", "symmetric_difference")  # which return sets
VIEWS = ("keys", "items")  # of dicts: with an operator between them they make sets
OPERATORS = ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub
HARMLESS = (*MAKERS, "sorted", "min", "max", "len", "sum", "any", "all", "bool", "isinstance")
HARMLESS_METHODS = (*METHODS, "isdisjoint", "issubset", "issuperset", "update", "difference_update")
LAZY = ("map", "filter", "list", "tuple")  # harmless within what is harmless
ITERATING = (*LAZY, "iter", "enumerate", "zip", "deque", "dict", "reversed", "next", "chain", "islice", "groupby")
ITERATING_METHODS = ("fromkeys", "extend", "join", "choice", "choices", "sample", "shuffle", "from_iterable")


class Known(NamedTuple):
    """What all files together say of classes and functions."""

    attributes: dict[str, set[str]]  # class -> its attributes that are sets
    returning: set[str]  # functions and methods that return a set
    tuples: dict[str, list[bool]]  # those that return a tuple: which of its elements are sets
    classes: set[str]


class Scope:
    """The names of a file, a class or a function that are sets, or objects of a known class."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.sets: set[str] = set()  # names, and attributes as "self.x"
        self.objects: dict[str, str] = {}  # name or attribute -> class
        self.others: set[str] = set()  # names that hide an outer one

    def holds(self, name: str) -> bool:
        if name in self.sets or name in self.others:
            return name in self.sets
        return self.outer is not None and self.outer.holds(name)

    def class_of(self, name: str) -> str | None:
        return self.objects.get(name) or (self.outer.class_of(name) if self.outer is not None else None)


def gather(trees: Iterable[ast.Module]) -> Known:
    """What all files together say."""
    known = Known({}, set(), {}, set())
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                known.classes.add(node.name)
                finder = Finder(known)
                finder.learn_class(node, Scope())
                known.attributes[node.name] = {name.removeprefix("self.") for name in finder.scope.sets}
            elif isinstance(node, ast.FunctionDef) and node.returns is not None:
                if is_set_annotation(node.returns):
                    known.returning.add(node.name)
                elif any(sets := sets_of_tuple(node.returns)):
                    known.tuples[node.name] = sets
    return known


def found_in(tree: ast.Module, known: Known) -> list[int]:
    """The lines of a file that iterate over a set."""
    finder = Finder(known)
    finder.visit_scope(tree, Scope())
    return sorted(finder.lines)


def is_set_annotation(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = ast.parse(node.value, mode="eval").body
    if isinstance(node, ast.BinOp):  # set[int] | None
        return is_set_annotation(node.left) or is_set_annotation(node.right)
    named = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(named, ast.Name) and named.id in (*MAKERS, "Set", "AbstractSet", "MutableSet")


def sets_of_tuple(node: ast.expr) -> list[bool]:
    """For each element of an annotated tuple, whether it is a set."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "tuple":
        return [is_set_annotation(one) for one in getattr(node.slice, "elts", [])]
    return []


def path_of(node: ast.expr) -> str:
    """A name or a chain of attributes as text; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = path_of(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


class Finder:
    """Walks through one file, scope by scope."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.scope = Scope()
        self.lines: set[int] = set()

    # Scopes

    def visit_scope(self, node: ast.AST, scope: Scope) -> None:
        outer, self.scope = self.scope, scope
        for _ in range(2):  # a name may be assigned from one that is learnt further down
            for inner in self.own_nodes(node):
                self.learn(inner)
        for inner in self.own_nodes(node):
            self.check(inner)
            if isinstance(inner, ast.ClassDef):
                self.learn_class(inner, Scope(scope))
                self.visit_methods(inner, self.scope)
                self.scope = scope
            elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                self.visit_function(inner, scope)
        self.scope = outer

    def own_nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes of a scope, down to the heads of scopes within it."""
        heads = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        for inner in ast.iter_child_nodes(node):
            yield inner
            if not isinstance(inner, heads):
                yield from self.own_nodes(inner)

    def learn_class(self, node: ast.ClassDef, scope: Scope) -> None:
        """Gather the attributes of a class, over all of its methods; its scope is left open."""
        self.scope = scope
        for inner in node.body:
            if isinstance(inner, ast.AnnAssign):
                target = ast.Attribute(ast.Name("self"), path_of(inner.target))
                self.learn(ast.AnnAssign(target, inner.annotation, simple=0))
        for _ in range(2):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    inner_scope, self.scope = self.scope, Scope(scope)
                    self.learn_arguments(method)
                    for statement in self.own_nodes(method):
                        self.learn(statement)
                    for name in [name for name in self.scope.sets if name.startswith("self.")]:
                        scope.sets.add(name)
                    for name, kind in self.scope.objects.items():
                        if name.startswith("self."):
                            scope.objects[name] = kind
                    self.scope = inner_scope

    def visit_methods(self, node: ast.ClassDef, scope: Scope) -> None:
        for method in node.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                self.visit_function(method, scope)

    def visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, outer: Scope) -> None:
        scope = Scope(outer)
        before, self.scope = self.scope, scope
        self.learn_arguments(node)
        self.scope = before
        self.visit_scope(node, scope)

    def learn_arguments(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self.scope.others.add(argument.arg)
            if argument.annotation is not None:
                self.learn(ast.AnnAssign(ast.Name(argument.arg), argument.annotation, simple=1))

    # What is what

    def learn(self, node: ast.AST) -> None:
        """Take in an assignment."""
        if isinstance(node, ast.AnnAssign):
            path, kind = path_of(node.target), path_of(node.annotation)
            if is_set_annotation(node.annotation):
                self.scope.sets.add(path)
            elif kind in self.known.classes:
                self.scope.objects[path] = kind
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self.learn_pair(target, node.value)
        elif isinstance(node, ast.NamedExpr):
            self.learn_pair(node.target, node.value)

    def learn_pair(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            if isinstance(value, ast.Tuple):
                for one, given in zip(target.elts, value.elts, strict=False):
                    self.learn_pair(one, given)
            elif isinstance(value, ast.Call):
                sets = self.known.tuples.get(path_of(value.func).rpartition(".")[2], [])
                self.scope.sets.update(path_of(one) for one, is_set in zip(target.elts, sets, strict=False) if is_set)
            return
        path = path_of(target)
        if not path:
            return
        if self.is_set(value):
            self.scope.sets.add(path)
        elif isinstance(value, ast.Call) and path_of(value.func) in self.known.classes:
            self.scope.objects[path] = path_of(value.func)
        elif (kind := self.scope.class_of(path_of(value))) is not None:
            self.scope.objects[path] = kind

    def is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                return (
                    called.attr in METHODS
                    or called.attr in self.known.returning
                    or (called.attr == "copy" and self.is_set(called.value))
                )
            return isinstance(called, ast.Name) and called.id in (*MAKERS, *self.known.returning)
        if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS):
            return any(self.is_set(side) or is_view(side) for side in (node.left, node.right))
        if isinstance(node, ast.IfExp):
            return self.is_set(node.body) or self.is_set(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(map(self.is_set, node.values))
        if isinstance(node, ast.NamedExpr):
            return self.is_set(node.value)
        return self.is_known(node)

    def is_known(self, node: ast.expr) -> bool:
        """Whether a name or an attribute was said to be a set."""
        path = path_of(node)
        if path and self.scope.holds(path):
            return True
        if isinstance(node, ast.Attribute):
            kind = self.scope.class_of(path_of(node.value))
            return kind is not None and node.attr in self.known.attributes.get(kind, ())
        return False

    # What iterates

    def check(self, node: ast.AST) -> None:
        for iterated in self.iterated(node):
            if self.is_set(iterated):
                self.lines.add(iterated.lineno)

    def iterated(self, node: ast.AST) -> list[ast.expr]:
        """What a node iterates over, in an order that matters."""
        if isinstance(node, ast.For | ast.AsyncFor):
            return [node.iter]
        if isinstance(node, ast.YieldFrom | ast.Starred):
            return [] if getattr(node, "harmless", False) else [node.value]
        if isinstance(node, ast.Assign) and any(isinstance(target, ast.Tuple) for target in node.targets):
            return [node.value]
        if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            return [] if getattr(node, "harmless", False) else [loop.iter for loop in node.generators]
        if isinstance(node, ast.Set):
            spare(node.elts)
        if isinstance(node, ast.Call):
            return self.iterated_by_call(node)
        return []

    def iterated_by_call(self, node: ast.Call) -> list[ast.expr]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in HARMLESS or method in HARMLESS_METHODS:
            spare(node.args)
            return []
        if getattr(node, "harmless", False) and name in LAZY:
            spare(node.args)
            return []
        if method == "pop" and not node.args and isinstance(node.func, ast.Attribute):
            return [node.func.value]  # any element of a set
        return node.args if name in ITERATING or method in ITERATING_METHODS else []


def spare(arguments: Iterable[ast.expr]) -> None:
    """Note that an order within arguments does not matter; they are looked at after what holds them."""
    for argument in arguments:
        argument.harmless = True  # type: ignore[attr-defined]


def is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS
