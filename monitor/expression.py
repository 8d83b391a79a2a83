"""The small language of `when`: which rows failed, written over the columns of the log.

``coalesce(arr_delay, dep_delay) >= 60``, ``status in ("timeout", "refused")``,
``http_status >= 500 and not is_null(error)``. The grammar is Python's, the meaning is SQL's: a
comparison with a missing value is neither true nor false, and `or` and `and` are decided by
whichever side is enough. Nothing but the listed forms gets past the compiler, so a configuration
can be taken from a stranger.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # pyarrow costs 0.3 s; reading a configuration needs none of it
    import pyarrow as pa

MAX_LENGTH = 2000
"""Characters in one expression."""

EXACT = 2**53
"""Whole numbers beyond are not all told apart by float64."""


class Kind(Enum):
    """How an expression reads a column."""

    NUMBER = "number"
    TEXT = "text"
    """A word for none is missing."""
    WRITTEN = "written"
    """As it stands there, to be compared with a text: ``-`` is ``-``, only blank is missing."""
    FLAG = "flag"


Columns = Callable[[str, Kind], "pa.Array"]
"""Hands out a column by name as float64, string or bool; missing values are null."""

_Node = Callable[[Columns], Any]


class ExpressionError(ValueError):
    """An expression that cannot be understood.

    Attributes:
        position: 1-based column of the offending part.
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position})")
        self.position = position


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    columns: Mapping[str, frozenset[Kind]]
    """Every column it reads, and how: known before the first row arrives."""
    texts: Mapping[str, frozenset[str]]
    """The texts that a column is compared with."""
    _root: _Node

    def __call__(self, columns: Columns) -> pa.Array:
        """One bool per row; null where missing values leave the answer open."""
        return self._root(columns)


def compile_expression(text: str) -> Expression:
    """Compile `text`.

    Raises:
        ExpressionError: naming the position and what is allowed instead.

    >>> sorted(compile_expression("coalesce(arr_delay, dep_delay) >= 60").columns)
    ['arr_delay', 'dep_delay']
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", MAX_LENGTH)
    flat = text.replace("\r", " ").replace("\n", " ").replace("\t", " ")
    indent = len(flat) - len(flat.lstrip())
    if not flat.strip():
        raise ExpressionError("empty; write a condition such as `status >= 500`", 1)
    try:
        tree = ast.parse(flat.strip(), mode="eval")
    except SyntaxError as error:
        message = f"not an expression: {error.msg}"
        if "=" in flat and not any(sign in flat for sign in ("==", "<=", ">=", "!=")):
            message += "; equality is written `==`"
        raise ExpressionError(message, (error.offset or len(flat.strip())) + indent) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"not an expression: {error}", 1) from None
    compiler = _Compiler(indent)
    try:
        root = compiler.compile(tree.body, Kind.FLAG)
    except RecursionError:
        raise ExpressionError("nested too deeply", 1) from None
    if not compiler.columns:
        raise ExpressionError("reads no column, so it would be the same for every row", 1)
    columns = {name: frozenset(kinds) for name, kinds in compiler.columns.items()}
    texts = {name: frozenset(found) for name, found in compiler.texts.items()}
    return Expression(text, columns, texts, root)


_ARITHMETIC = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
_COMPARISON = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
_ALLOWED = "comparisons, and/or/not, in, arithmetic, coalesce(), is_null(), col()"


class _Compiler:
    """Turns a syntax tree into closures over pyarrow's kernels, and notes the columns."""

    def __init__(self, indent: int) -> None:
        self.indent = indent
        self.columns: dict[str, set[Kind]] = {}
        self.texts: dict[str, set[str]] = {}

    def fail(self, node: ast.AST, message: str) -> ExpressionError:
        return ExpressionError(message, getattr(node, "col_offset", 0) + 1 + self.indent)

    def kind(self, node: ast.expr) -> Kind | None:
        """What a part is by itself; None for columns, which are read as their context asks."""
        match node:
            case ast.Constant(value=bool()):
                return Kind.FLAG
            case ast.Constant(value=int() | float()):
                return Kind.NUMBER
            case ast.Constant(value=str()):
                return Kind.TEXT
            case ast.Name(id="true" | "false"):
                return Kind.FLAG
            case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                return Kind.NUMBER
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp():
                return Kind.FLAG
            case ast.Call(func=ast.Name(id="is_null")):
                return Kind.FLAG
            case ast.Call(func=ast.Name(id="coalesce"), args=args):
                return next((k for k in map(self.kind, args) if k), None)
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return next((k for k in map(self.kind, items) if k), None)
        return None

    def compile(self, node: ast.expr, want: Kind) -> _Node:
        """`node`, read as `want`."""
        own = self.kind(node)
        if own and own is not want:
            raise self.fail(node, f"a {own.value} stands where a {want.value} is needed")
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return self.literal(node, value, want)
            case ast.Constant(value=None):
                raise self.fail(node, "a comparison with null is never true; write is_null(column)")
            case ast.Name(id=word) if word in _WORDS:
                flag = _WORDS[word]
                if flag is None:
                    raise self.fail(node, "a comparison with null is never true; use is_null(…)")
                return self.literal(node, flag, want)
            case ast.Name(id=name):
                return self.column(name, want)
            case ast.Attribute() if path := _dotted(node):
                return self.column(path, want)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _kernel("invert", self.compile(operand, Kind.FLAG))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _kernel("negate", self.compile(operand, Kind.NUMBER))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.compile(operand, Kind.NUMBER)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
                parts = [self.compile(side, Kind.NUMBER) for side in (left, right)]
                return _kernel(_ARITHMETIC[type(op)], *parts)
            case ast.BoolOp(op=op, values=values):
                # Kleene logic: a missing value must not hide the other side of an `or`.
                name = "and_kleene" if isinstance(op, ast.And) else "or_kleene"
                return _chain(name, [self.compile(value, Kind.FLAG) for value in values])
            case ast.Compare(left=left, ops=ops, comparators=rights):
                pairs = zip([left, *rights[:-1]], ops, rights, strict=True)
                return _chain("and_kleene", [self.comparison(*pair) for pair in pairs])
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(node, name, args, want)
        raise self.fail(node, f"`{ast.unparse(node)}` is not allowed here; allowed are {_ALLOWED}")

    def literal(self, node: ast.expr, value: bool | float | str, want: Kind) -> _Node:
        if want is Kind.NUMBER:
            try:
                number = float(value)
            except OverflowError:
                raise self.fail(node, "number too large") from None
            return lambda columns: number
        return lambda columns: value

    def column(self, name: str, want: Kind) -> _Node:
        self.columns.setdefault(name, set()).add(want)
        return lambda columns: columns(name, want)

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> _Node:
        if isinstance(op, ast.In | ast.NotIn):
            return self.membership(left, op, right)
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None) and not (
                isinstance(right, ast.Name) and right.id == "null"
            ):
                raise self.fail(right, "`is` compares with null only; use ==")
            return self.is_null(left, isinstance(op, ast.Is))
        if type(op) not in _COMPARISON:
            raise self.fail(left, "unknown comparison")
        if isinstance(op, ast.Eq | ast.NotEq):
            # An empty cell is a missing value, so this asks whether there is one.
            for side, other in ((left, right), (right, left)):
                if isinstance(side, ast.Constant) and side.value == "" and not self.kind(other):
                    return self.is_null(other, isinstance(op, ast.Eq))
            if not (self.kind(left) and self.kind(right)):
                left, right = self.exact(left), self.exact(right)
        kinds = [k for k in (self.kind(left), self.kind(right)) if k]
        # Two bare columns: equality compares what is written, order compares amounts.
        default = Kind.TEXT if isinstance(op, ast.Eq | ast.NotEq) else Kind.NUMBER
        want = kinds[0] if kinds else default
        if want is Kind.FLAG and not isinstance(op, ast.Eq | ast.NotEq):
            raise self.fail(left, "true and false have no order; use == or !=")
        for side, other in ((left, right), (right, left)):
            self.note(side, [other])
        sides = [self.side(side, want) for side in (left, right)]
        return _kernel(_COMPARISON[type(op)], *sides)

    def is_null(self, node: ast.expr, yes: bool) -> _Node:
        test = _kernel("is_null", self.compile(node, self.kind(node) or Kind.TEXT))
        return test if yes else _kernel("invert", test)

    def note(self, node: ast.expr, others: Sequence[ast.expr]) -> None:
        """That a column is compared with these, as far as they are texts."""
        match node:
            case ast.Call(func=ast.Name(id="col"), args=[ast.Constant(value=str() as name)]):
                pass
            case _:
                name = _dotted(node) or ""
        for other in others:
            if name and isinstance(other, ast.Constant) and isinstance(other.value, str):
                self.texts.setdefault(name, set()).add(other.value)

    def side(self, node: ast.expr, want: Kind) -> _Node:
        """One side of a comparison: a text is compared with what is written."""
        column = not (self.kind(node) or (isinstance(node, ast.Call) and not _is_col(node)))
        return self.compile(node, Kind.WRITTEN if want is Kind.TEXT and column else want)

    def exact(self, node: ast.expr) -> ast.expr:
        """A whole number that float64 would round, as the text that it has in the log."""
        match node:
            case ast.Constant(value=int() as value) if abs(value) > EXACT:
                return ast.copy_location(ast.Constant(str(value)), node)
        return node

    def membership(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> _Node:
        if isinstance(left, ast.Constant):
            raise self.fail(left, "`in` needs a column on its left")
        if not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
            raise self.fail(right, '`in` needs a list of literals such as ("A", "B")')
        values: list[Any] = []
        elements = [self.exact(item) for item in right.elts]
        if self.kind(left) or {self.kind(item) for item in elements} != {Kind.TEXT}:
            elements = right.elts  # numbers, and one too large among them is rounded
        for item in elements:
            if not isinstance(item, ast.Constant) or not isinstance(item.value, str | int | float):
                raise self.fail(item, "`in` needs literals")
            values.append(item.value)
        kind = self.kind(elements[0])
        if kind is None or any(self.kind(item) is not kind for item in elements):
            raise self.fail(right, "`in` needs literals of one kind")
        if "" in values:
            raise self.fail(right, "an empty cell is missing, so it is in no list; add is_null(…)")
        self.note(left, elements)
        subject = self.side(left, kind)
        if kind is Kind.NUMBER:
            values = [float(value) for value in values]
        negate = isinstance(op, ast.NotIn)

        def run(columns: Columns) -> Any:
            import pyarrow as pa
            import pyarrow.compute as pc

            array = subject(columns)
            found = pc.is_in(array, value_set=pa.array(values, type=array.type))
            if array.null_count:  # as in SQL, a missing value is neither in a list nor outside it
                found = pc.if_else(pc.is_valid(array), found, pa.scalar(None, pa.bool_()))
            return pc.invert(found) if negate else found

        return run

    def call(self, node: ast.expr, name: str, args: list[ast.expr], want: Kind) -> _Node:
        match name, args:
            case "coalesce", [_, _, *_]:
                return _kernel("coalesce", *(self.compile(arg, want) for arg in args))
            case "is_null", [argument]:
                return self.is_null(argument, True)
            case "col", [ast.Constant(value=str() as column)]:
                return self.column(column, want)
            case "coalesce", _:
                raise self.fail(node, "coalesce needs two or more arguments")
            case "is_null", _:
                raise self.fail(node, "is_null needs one argument")
            case "col", _:
                raise self.fail(node, 'col needs one quoted column name: col("my column")')
        raise self.fail(node, f"unknown function `{name}`; allowed are {_ALLOWED}")


def _dotted(node: ast.expr) -> str | None:
    """``http.response.status``: a field within a field."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            return f"{outer}.{name}" if (outer := _dotted(inner)) else None
    return None


def _is_col(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "col"


def _kernel(name: str, *parts: _Node) -> _Node:
    def run(columns: Columns) -> Any:
        import pyarrow.compute as pc

        return pc.call_function(name, [_datum(part(columns)) for part in parts])

    return run


def _chain(name: str, parts: list[_Node]) -> _Node:
    node = parts[0]
    for part in parts[1:]:
        node = _kernel(name, node, part)
    return node


def _datum(value: Any) -> Any:
    import pyarrow as pa

    return pa.scalar(value) if isinstance(value, bool | float | str) else value
