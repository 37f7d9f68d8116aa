"""Change one thing in the source at a time, and see whether a test notices.

::

    python scripts/mutants.py reach                      # run every test: which lines does it reach?
    python scripts/mutants.py draw mutants.json          # 100 mutants over all packages, by a seed
    python scripts/mutants.py run mutants.json out.json  # each against the tests that reach its line

A mutant is one changed operator, comparison, constant or returned value. It is noticed if a test fails, or
takes ten times as long. Mutants are named by their function and the text of their line, so that two versions
of the tests can be compared on the same mutants although lines have moved.

Needs ``coverage`` beside the extra ``test``. Code that numba compiles is not traced: its mutants run the
tests that reach any line of their file. ``run`` continues after the mutants that ``out.json`` has.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "telerank"
REACH = ROOT / "build" / "reach"
TIMES = REACH / "times.tsv"

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

    def visit(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            change = change_of(child) if scope else None
            if change is not None:
                key = (
                    scope,
                    lines[child.lineno - 1].strip(),
                    f"{type(child).__name__} {ast.unparse(child)[:40]}",
                )  # type: ignore[attr-defined]
                found[Mutant(str(file.relative_to(source)), *key, counts[key])] = change
                counts[key] += 1
            is_scope = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            visit(child, f"{scope}.{child.name}".lstrip(".") if is_scope else scope)  # type: ignore[attr-defined]

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


def draw(count: int, seed: int) -> list[Mutant]:
    """``count`` mutants by chance, from the packages in turn, so that each has some."""
    packages: defaultdict[str, list[Mutant]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        if mutants := find_changes(file, SOURCE)[1]:
            packages[file.relative_to(SOURCE).parts[0]] += mutants
    chance, drawn = random.Random(seed), dict.fromkeys(())
    while len(drawn) < count:
        for name in chance.sample(sorted(packages), len(packages)):
            drawn[chance.choice(packages[name])] = None
    return list(drawn)[:count]


def reach() -> None:
    """Record in ``build/reach`` which lines each test reaches, in processes that it starts, too."""
    shutil.rmtree(REACH, ignore_errors=True)
    REACH.mkdir(parents=True)
    settings = REACH / "settings"
    settings.write_text(
        f"[run]\nsource = {SOURCE}\ndata_file = {REACH}/coverage\nparallel = true\npatch = subprocess\n"
        "sigterm = true\ndisable_warnings = no-data-collected\ncontext = ${TELERANK_TEST-}\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "COVERAGE_RCFILE": str(settings)}
    coverage = [sys.executable, "-m", "coverage"]
    tests = ["run", f"--rcfile={settings}", "-m", "pytest", "-q", "-p", Path(__file__).stem]
    subprocess.run([*coverage, *tests], cwd=ROOT, env=environment, check=False)
    subprocess.run([*coverage, "combine", f"--rcfile={settings}", "-q", str(REACH)], cwd=ROOT, check=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record what one test reaches: this module is pytest's plugin of :func:`reach`."""
    import coverage

    current, begin = coverage.Coverage.current(), os.times()
    if current is not None:
        current.switch_context(item.nodeid)
    os.environ["TELERANK_TEST"] = item.nodeid  # the context of the processes that it starts
    result = yield
    seconds = sum(os.times()[:4]) - sum(begin[:4])
    with TIMES.open("a", encoding="utf-8") as file:
        file.write(f"{item.nodeid}\t{seconds:.3f}\n")
    return result


class ReachedLines:
    """Which tests reach a line, and their processor time."""

    def __init__(self) -> None:
        import coverage

        self._data = coverage.CoverageData(str(REACH / "coverage"))
        self._data.read()
        rows = (row.rsplit("\t", 1) for row in TIMES.read_text(encoding="utf-8").splitlines())
        self.seconds = {test: float(seconds) for test, seconds in rows}

    def tests(self, file: str, line: int) -> list[str]:
        """The tests that reach the line, the fastest first."""
        reached = self._data.contexts_by_lineno(str(SOURCE / file))
        tests = set(reached.get(line, ())) & self.seconds.keys() or set().union(*reached.values())
        return sorted(tests & self.seconds.keys(), key=self.seconds.__getitem__)


def run(mutants: list[Mutant], target: Path, processes: int) -> None:
    reached = ReachedLines()
    results = json.loads(target.read_text(encoding="utf-8")) if target.exists() else []
    for mutant in mutants[len(results) :]:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "src" / "telerank"
            shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
            tree, changes = find_changes(copy / mutant.file, copy)
            tests, result = [], "gone"
            if (change := changes.get(mutant)) is not None:
                tests = reached.tests(mutant.file, change.node.lineno)
                setattr(change.node, change.field, change.value)
                (copy / mutant.file).write_text(
                    ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8"
                )
                seconds = sum(map(reached.seconds.__getitem__, tests))
                result = verdict(tests, Path(folder), seconds, processes) if tests else "reached by no test"
        results.append({**mutant._asdict(), "tests": len(tests), "result": result})
        target.write_text(json.dumps(results, indent=1), encoding="utf-8")
        print(f"{len(results):3d} {len(tests):5d} tests {mutant.file} {mutant.line!r}: {result}", flush=True)
    for result, count in Counter(each["result"].split(":")[0] for each in results).items():
        print(f"{result}: {count}")


def verdict(tests: list[str], folder: Path, seconds: float, processes: int) -> str:
    names = folder / "tests"
    names.write_text("\n".join(tests), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(folder / "numba")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", f"@{names}"]
    command += ["-n", str(processes)] if processes > 1 and seconds > 60 else []
    limit = 120 + 10 * seconds
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return "noticed: no end"
    failed = [row for row in ran.stdout.splitlines() if row.startswith(("FAILED", "ERROR"))]
    return "noticed: " + (failed or ["ERROR of pytest"])[0].split(" - ")[0] if ran.returncode else "survived"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("reach", "draw", "run"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1, help="processes of pytest")
    given = parser.parse_args()
    if given.verb == "reach":
        reach()
    elif given.verb == "draw":
        given.files[0].write_text(json.dumps(draw(given.count, given.seed), indent=1), encoding="utf-8")
    else:
        mutants = json.loads(given.files[0].read_text(encoding="utf-8"))
        run([Mutant(*mutant) for mutant in mutants], given.files[1], given.processes)


if __name__ == "__main__":
    main()
