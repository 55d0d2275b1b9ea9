"""Compiles the Python code in a net so that tracebacks and debuggers show its place in the file.

The code objects carry the net's own file name, lines and columns. Tracebacks point into the net,
and a debugger that breaks at a line of the net stops there.

Code may be an expression, a `lambda`, one `def`, or the body of a function. Its value is its return
value or, without a `return`, the value of its last line if this line is an expression.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, Final, TypeAlias

from .diagnostics import NetDiagnostic, Severity
from .model import Inscription, InscriptionKind, Span

PARAMETERS: Final = ("token", "tokens", "binding")
"""Arguments of every inscription: the first token, all tokens, and the tokens by place."""

Function: TypeAlias = Callable[..., Any]
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def check(inscription: Inscription) -> list[NetDiagnostic]:
    """The diagnostics of an inscription, without running it."""
    try:
        tree = _parse(inscription)
        _compile(tree, inscription)
        has_value = _has_value(tree)
    except SyntaxError as error:
        # Python's parser reports lines of the code, but its compiler reports lines of the file.
        has_file_lines = error.filename == inscription.span.file
        return [_syntax_diagnostic(error, inscription, has_file_lines=has_file_lines)]
    except (RecursionError, MemoryError):
        message = "Python cannot read this: it is nested too deeply"
        return [_diagnostic(Severity.ERROR, "python.depth", message, inscription.span)]
    except ValueError as error:
        return [_diagnostic(Severity.ERROR, "python.syntax", str(error), inscription.span)]
    if inscription.kind is InscriptionKind.GUARD and not has_value:
        message = "This guard has no value, which counts as true; end it with `return …`"
        return [_diagnostic(Severity.WARNING, "guard.no_value", message, inscription.span)]
    return []


def build(inscription: Inscription, scope: dict[str, Any]) -> Function:
    """The inscription as a function, with `scope` as its globals.

    Raises `SyntaxError` or `ValueError` if `check` reports an error.
    """
    names: dict[str, Any] = {}
    code = _compile(_parse(inscription), inscription)
    exec(code, scope, names)  # noqa: S102 - a net exists to run its code
    function: Function = names.popitem()[1]
    return function


def first_line(inscription: Inscription) -> int:
    """The line of the file with the code's first effective statement; a debugger stops there."""
    tree = _parse(inscription)
    body = tree.body
    match body:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as function]:
            body = function.body
    statement = next((each for each in body if not _is_constant(each)), body[-1])
    return statement.lineno


def _parse(inscription: Inscription) -> ast.Module:
    tree = ast.parse(inscription.code)
    if not tree.body:
        raise ValueError("There is no code here")
    return _move_to_file(tree, inscription)


def _compile(tree: ast.Module, inscription: Inscription) -> CodeType:
    """Code that defines the inscription's function when it is executed."""
    name = re.sub(r"\W", "_", inscription.id) or "inscription"
    match tree.body:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as function]:
            statement: ast.stmt = _call_with_parameters(function, name)
        case [ast.Expr(ast.Lambda() as function)]:
            statement = _call_with_parameters(function, name)
        case body:
            statement = _wrap_body(body, name, inscription)
    # Line 1 and not the line of the code: a breakpoint there would also stop when the function is
    # defined.
    statement.lineno, statement.col_offset = 1, 0
    module = ast.Module([statement], [])
    ast.fix_missing_locations(module)
    return compile(module, inscription.span.file, "exec", dont_inherit=True)


def _wrap_body(body: Sequence[ast.stmt], name: str, inscription: Inscription) -> ast.stmt:
    body = list(body)
    if isinstance(body[-1], ast.Expr) and not _returns(body):
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    kind = ast.AsyncFunctionDef if inscription.is_async else ast.FunctionDef
    arguments = ast.arguments([], [ast.arg(each) for each in PARAMETERS], None, [], [], None, [])
    made = kind(name, arguments, body, [])
    return ast.copy_location(made, body[0])


def _call_with_parameters(function: _Scope, name: str) -> ast.stmt:
    """A function `name` that calls `function` with the `PARAMETERS` it takes, by name or in order.

    The arguments are chosen before the run, because a trial call that fails would run the code
    twice.
    """
    parameters = [arg.arg for arg in function.args.posonlyargs + function.args.args]
    required = len(parameters) - len(function.args.defaults)
    by_name = bool(parameters) and all(arg in PARAMETERS for arg in parameters)
    names = parameters if by_name else list(PARAMETERS[: min(required, len(PARAMETERS))])
    passed: list[ast.expr] = [ast.Name(arg, ast.Load()) for arg in names]
    arguments = ast.arguments([], [ast.arg(each) for each in PARAMETERS], None, [], [], None, [])
    body: list[ast.stmt]
    if isinstance(function, ast.Lambda):
        body = [ast.Return(ast.Call(function, passed, []))]
    else:
        call = ast.Call(ast.Name(function.name, ast.Load()), passed, [])
        body = [function, ast.Return(call)]
    for node in body:
        ast.copy_location(node, function)
    return ast.copy_location(ast.FunctionDef(name, arguments, body, []), function)


def _move_to_file(tree: ast.Module, inscription: Inscription) -> ast.Module:
    """`tree` with the lines and columns of the file."""
    down, right = inscription.span.line - 1, inscription.span.column - 1
    for node in ast.walk(tree):
        for name in ("lineno", "end_lineno"):
            line = getattr(node, name, None)
            if line is not None:
                setattr(node, name, line + down if inscription.lines_match_file else down + 1)
        for name in ("col_offset", "end_col_offset"):
            column = getattr(node, name, None)
            if column is not None:
                setattr(node, name, column + right if inscription.lines_match_file else right)
    return tree


def _returns(body: Sequence[ast.AST]) -> bool:
    """Whether `body` has a `return` or `yield`, apart from nested scopes."""
    to_visit = list(body)
    while to_visit:
        node = to_visit.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _SCOPES):
            to_visit.extend(ast.iter_child_nodes(node))
    return False


def _has_value(tree: ast.Module) -> bool:
    match tree.body:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as function]:
            return _returns(function.body)
        case body:
            return isinstance(body[-1], ast.Expr) or _returns(body)


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _syntax_diagnostic(
    error: SyntaxError, inscription: Inscription, *, has_file_lines: bool
) -> NetDiagnostic:
    code_span = inscription.span
    line, column = error.lineno or 1, max(error.offset or 1, 1)
    if not inscription.lines_match_file:
        line, column = code_span.line, code_span.column
    elif not has_file_lines:
        line, column = line + code_span.line - 1, column + code_span.column - 1
    error_span = Span(code_span.file, line, column, line, column + 1)
    return _diagnostic(
        Severity.ERROR, "python.syntax", f"Not valid Python: {error.msg}", error_span
    )


def _diagnostic(severity: Severity, code: str, message: str, span: Span) -> NetDiagnostic:
    return NetDiagnostic(severity, code, message, span)


def is_awaitable(value: object) -> bool:
    return inspect.isawaitable(value)


def arguments(tokens: Sequence[Any], binding: Mapping[Any, Any]) -> tuple[Any, ...]:
    """The values of `PARAMETERS`."""
    return (tokens[0] if tokens else None, list(tokens), dict(binding))
