"""Change one thing in the source at a time, and see whether a test notices.

::

    python scripts/mutants.py draw mutants.json   # 100 mutants over all packages, by a seed
    python scripts/mutants.py reach mutants.json  # run every test once: which changed lines does it reach?
    python scripts/mutants.py run mutants.json    # each mutant against the tests that reach its line

A mutant is one changed operator, comparison, constant or returned value. It is noticed if a test fails.
Mutants are named by their function and the text of their line, so that two versions of the tests can be
compared on the same mutants although lines have moved.

``reach`` writes ``mutants.reach.json``: the tests run over a copy of the source in which each statement that
a mutant changes notes the test that reaches it, also in processes that the test starts. Statements outside of
functions, and those that numba compiles, cannot note anything: their mutants run the tests that reach any
function of their file or, if none of it could, those of their package. ``run`` writes
``mutants.results.json`` and continues after the mutants that it has. The tests of a mutant run the fastest
first; if they do not end in ``--seconds``, that is said instead.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "telerank"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


class Mutant(NamedTuple):
    """Where a change is: the ``nth`` of those of one ``kind`` in a line of a function of a file."""

    file: str
    scope: str
    line: str
    kind: str
    nth: int


class Change(NamedTuple):
    """A node of the tree, and the value that a field of it gets."""

    node: Any
    field: str
    value: Any


def find_changes(file: Path, source: Path) -> tuple[ast.Module, dict[Mutant, Change]]:
    """All mutants of a file within functions, and how each is made in the tree."""
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    found: dict[Mutant, Change] = {}
    counts: Counter[tuple[str, str, str]] = Counter()

    def visit(node: Any, scope: str) -> None:
        child: Any
        for child in ast.iter_child_nodes(node):
            if scope and (change := change_of(child)) is not None:
                kind = f"{type(child).__name__} {ast.unparse(child)[:40]}"
                key = scope, lines[child.lineno - 1].strip(), kind
                found[Mutant(str(file.relative_to(source)), *key, counts[key])] = change
                counts[key] += 1
            is_scope = isinstance(child, (*FUNCTIONS, ast.ClassDef))
            visit(child, f"{scope}.{child.name}".lstrip(".") if is_scope else scope)

    visit(tree, "")
    return tree, found


def change_of(node: ast.AST) -> Change | None:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in OPERATORS:
            return Change(node, "op", OPERATORS[type(op)]())
        case ast.Compare(ops=[op, *others]) if type(op) in OPERATORS:
            return Change(node, "ops", [OPERATORS[type(op)](), *others])
        case ast.Constant(value=bool(value)):
            return Change(node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            return Change(node, "value", value + 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            return Change(node, "value", ast.Constant(None))
    return None


def package_of(file: Path) -> str:
    return file.parts[0] if len(file.parts) > 1 else ""


def draw(count: int, seed: int) -> list[Mutant]:
    """``count`` mutants by chance, from the packages in turn, so that each has some."""
    packages: defaultdict[str, list[Mutant]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        if mutants := find_changes(file, SOURCE)[1]:
            packages[package_of(file.relative_to(SOURCE))] += mutants
    chance, drawn = random.Random(seed), dict[Mutant, None]()
    while len(drawn) < count:
        for name in chance.sample(sorted(packages), len(packages)):
            drawn[chance.choice(packages[name])] = None
    return list(drawn)[:count]


NOTE = """
import os
noted = set()
def note(number):
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if test and (number, test) not in noted:
        noted.add((number, test))
        with open(os.environ["TELERANK_REACH"], "a") as file:
            file.write(f'reached\\t{number}\\t{test}\\n')
"""


def add_notes(tree: ast.Module, numbers: dict[int, int]) -> None:
    """Before each statement that holds a mutant's node, a call that notes its number and the test.

    ``numbers`` are by the identity of the node. All functions note what stands where nothing can be noted.
    """
    left, bodies = dict(numbers), []

    def visit(block: list[Any], is_noted: bool) -> None:
        for statement in list(block):
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                runs = isinstance(statement, FUNCTIONS) and not is_compiled(statement)
                bodies.extend([statement.body] if runs else [])
                visit(statement.body, runs)
                continue
            for inner in list(ast.walk(statement)):
                for name in ("body", "orelse", "finalbody"):
                    if isinstance(getattr(inner, name, None), list):
                        visit(getattr(inner, name), is_noted)
            held = [left.pop(id(node), None) for node in ast.walk(statement) if is_noted]
            at = block.index(statement)
            block[at:at] = [call_note(number) for number in held if number is not None]

    visit(tree.body, False)
    for body in bodies:
        is_documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        body[is_documented:is_documented] = [call_note(number) for number in left.values()]


def is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        name in ast.unparse(each) for each in function.decorator_list for name in ("compiled", "intrinsic")
    )


def call_note(number: int) -> ast.stmt:
    return ast.parse(f"__import__('telerank_reach').note({number})").body[0]


def reach(mutants: list[Mutant], target: Path, processes: int) -> None:
    """Write which tests reach each mutant, and the seconds of every test that passes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = shutil.copytree(
            SOURCE, folder / "src" / "telerank", ignore=shutil.ignore_patterns("__pycache__")
        )
        (folder / "src" / "telerank_reach.py").write_text(NOTE, encoding="utf-8")
        for file in sorted({mutant.file for mutant in mutants}):
            tree, changes = find_changes(copy / file, copy)
            numbers = {id(changes[each].node): i for i, each in enumerate(mutants) if each in changes}
            if "from numba" not in (copy / file).read_text(encoding="utf-8"):  # its functions are compiled
                add_notes(tree, numbers)
            (copy / file).write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
        paths = [str(folder / "src"), str(Path(__file__).parent)]
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(paths), "TELERANK_REACH": str(folder / "notes"),
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "-p", Path(__file__).stem, "-n", str(processes)]
        subprocess.run([*command, "--dist", "worksteal"], cwd=ROOT, env=environment, check=False)
        rows = [row.split("\t") for row in (folder / "notes").read_text(encoding="utf-8").splitlines()]
    seconds = {test: float(value) for kind, test, value in rows if kind == "passed"}
    failed = {test for kind, test, _ in rows if kind == "failed"}
    seconds = {test: value for test, value in seconds.items() if test not in failed}
    print(
        f"{len(seconds):,} tests passed; {len(failed)} failed and are left out: {', '.join(sorted(failed))}"
    )
    of_file = defaultdict(set)
    for test in seconds:
        of_file[test.split("::")[0]].add(test)
    tests: list[set[str]] = [set() for _ in mutants]
    for kind, number, name in rows:
        if kind == "reached":
            test, phase = name.rsplit(" ", 1)
            # what a fixture reaches is reached by each test of the file that may use it
            tests[int(number)] |= of_file[test.split("::")[0]] if phase == "(setup)" else {test}
    target.write_text(
        json.dumps({"seconds": seconds, "tests": [sorted(each) for each in tests]}), encoding="utf-8"
    )


@pytest.hookimpl
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what a test takes: this module is pytest's plugin of :func:`reach`."""
    if "PYTEST_XDIST_WORKER" in os.environ and (report.when == "call" or report.failed):
        with Path(os.environ["TELERANK_REACH"]).open("a", encoding="utf-8") as file:
            file.write(f"{report.outcome}\t{report.nodeid}\t{report.duration:.3f}\n")


def run(mutants: list[Mutant], reached: Path, target: Path, processes: int, seconds: float) -> None:
    known = json.loads(reached.read_text(encoding="utf-8"))
    results = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(processes) as executor:
        folders: Queue[Path] = Queue()
        for i in range(processes):
            folders.put(Path(name) / str(i))
            shutil.copytree(SOURCE, Path(name) / str(i) / "src" / "telerank")

        def try_mutant(number: int) -> None:
            mutant, folder = mutants[number], folders.get()
            package = f"tests/{package_of(Path(mutant.file))}"
            tests = known["tests"][number] or [test for test in known["seconds"] if test.startswith(package)]
            tests = sorted(tests, key=lambda test: known["seconds"].get(test, 0))
            result = try_change(mutant, folder, [test for test in tests if test in known["seconds"]], seconds)
            folders.put(folder)
            results[str(number)] = {**mutant._asdict(), "tests": len(tests), "result": result}
            target.write_text(json.dumps(results, indent=1), encoding="utf-8")
            print(f"{number:3d} {len(tests):5d} tests {mutant.file} {mutant.line!r}: {result}", flush=True)

        list(executor.map(try_mutant, (i for i in range(len(mutants)) if str(i) not in results)))
    for result, count in Counter(each["result"].split(":")[0] for each in results.values()).items():
        print(f"{result}: {count}")


def try_change(mutant: Mutant, folder: Path, tests: list[str], seconds: float) -> str:
    """Run the tests over the changed copy in a folder, and change it back."""
    file = folder / "src" / "telerank" / mutant.file
    tree, changes = find_changes(file, folder / "src" / "telerank")
    if (change := changes.get(mutant)) is None:
        return "gone"
    if not tests:
        return "reached by no test"
    setattr(change.node, change.field, change.value)
    file.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
    names = folder / "tests"
    names.write_text("\n".join(tests), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(folder / "numba")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", f"@{names}"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            status = None
        finally:
            shutil.copy2(SOURCE / mutant.file, file)
        output.seek(0)
        failed = [row for row in output.read().splitlines() if row.startswith(("FAILED", "ERROR"))]
    if status is None:
        return f"no end in {seconds:g} s"
    if status:
        return "noticed: " + (failed or ["ERROR of pytest"])[0].split(" - ")[0]
    return "survived"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("draw", "reach", "run"))
    parser.add_argument("file", type=Path, help="the mutants, a file of JSON")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=300, help="for the tests of one mutant")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    if given.verb == "draw":
        given.file.write_text(json.dumps(draw(given.count, given.seed), indent=1), encoding="utf-8")
        return
    mutants = [Mutant(*mutant) for mutant in json.loads(given.file.read_text(encoding="utf-8"))]
    reached = given.file.with_suffix(".reach.json")
    if given.verb == "reach":
        reach(mutants, reached, given.processes)
    else:
        run(mutants, reached, given.file.with_suffix(".results.json"), given.processes, given.seconds)


if __name__ == "__main__":
    main()
