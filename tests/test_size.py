"""Small files, small functions, few parameters; each exception has its reason and may only go."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import PurePosixPath

from source_files import check_offences, source_files

LINES_OF_A_FILE, LINES_OF_A_BODY, PARAMETERS, FILES_OF_A_FOLDER = 500, 40, 6, 16

LONG_BODIES: dict[str, str] = {}
MANY_PARAMETERS = {
    "sparse/kernel.py:_collect": "numba counts references whenever an array is taken out of a tuple",
    "retrieval/index.py:add": "they are the options of `telerank index add`",
}
"""Commands and the functions below them are not counted: their parameters are options."""


def functions():
    """Each function with its name and its place."""
    for file in source_files():
        for node in file.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{file.name}:{node.name}", file.at(node.lineno), node


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return body[-1].end_lineno - body[0].lineno + 1


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    bound = node.args.args[:1] != [] and node.args.args[0].arg in ("self", "cls")
    return len(node.args.args) + len(node.args.kwonlyargs) - bound


def check_sizes(sizes: list[tuple[str, str, int]], most: int, exceptions: dict[str, str], what: str) -> None:
    large = {name for name, _, size in sizes if size > most}
    offences = [f"{at}: {size}" for name, at, size in sizes if size > most and name not in exceptions]
    offences += [f"{name}: is no exception any more" for name in exceptions.keys() - large]
    check_offences(offences, f"at most {most} {what}")


def test_files_are_small():
    sizes = [(file.name, file.name, len(file.text.splitlines())) for file in source_files()]
    check_sizes(sizes, LINES_OF_A_FILE, {}, "lines in a file")


def test_functions_are_small():
    sizes = [(name, at, body_lines(node)) for name, at, node in functions()]
    check_sizes(sizes, LINES_OF_A_BODY, LONG_BODIES, "lines in a body")


def test_functions_have_few_parameters():
    counted = [row for row in functions() if not row[0].startswith(("cli/", "verbs/"))]
    sizes = [(name, at, parameters(node)) for name, at, node in counted]
    check_sizes(sizes, PARAMETERS, MANY_PARAMETERS, "parameters")


def test_folders_are_small():
    folders = Counter(str(PurePosixPath(file.name).parent) for file in source_files())
    check_sizes([(name, name, count) for name, count in folders.items()], FILES_OF_A_FOLDER, {}, "files")
