"""Small files, small functions, few parameters; each exception has its reason and may only go."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import telerank

SOURCE = Path(telerank.__file__).parent
LINES_OF_A_FILE, LINES_OF_A_BODY, PARAMETERS, FILES_OF_A_FOLDER = 400, 40, 6, 16

LONG_BODIES: dict[str, str] = {}
MANY_PARAMETERS = {
    "sparse/kernel.py:_collect": "numba counts references whenever an array is taken out of a tuple",
}
"""Commands and the functions below them are not counted: their parameters are options."""


def functions():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(SOURCE)}:{node.name}", node


def body_lines(node: ast.FunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return body[-1].end_lineno - body[0].lineno + 1


def test_files_are_small():
    sizes = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCE.rglob("*.py")}
    assert not {path.name: size for path, size in sizes.items() if size > LINES_OF_A_FILE}


def test_functions_are_small():
    long = {name for name, node in functions() if body_lines(node) > LINES_OF_A_BODY}
    assert long == set(LONG_BODIES)


def test_functions_have_few_parameters():
    many = {
        name
        for name, node in functions()
        if len(node.args.args)
        + len(node.args.kwonlyargs)
        - (node.args.args[:1] != [] and node.args.args[0].arg in ("self", "cls"))
        > PARAMETERS
        and not name.startswith(("cli/", "verbs/"))
    }
    assert many == set(MANY_PARAMETERS)


def test_folders_are_small():
    folders = Counter(path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    assert {folder: count for folder, count in folders.items() if count > FILES_OF_A_FOLDER} == {}
