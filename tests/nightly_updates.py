"""A folder of files that changes at random, and what follows it: an index and its vectors (see :mod:`accidents`)."""

from __future__ import annotations

import random
import shutil
import tempfile
import warnings
from pathlib import Path

import telerank as tr
from accidents import serve
from small_vectors import Letters
from telerank.errors import MissingVectors

WORDS = [f"{letter}{other}a{number}" for letter in "bcdfg" for other in "lmnrs" for number in range(8)]
QUERIES = ("bla0 cma1", "dna2 fra3 gsa4", "bsa5", "zzz")


def change_files(folder: Path, dice: random.Random) -> str:
    """Add, edit, rename, copy or delete a file of the folder; what was done."""
    files = sorted(folder.rglob("*.md"))
    new = folder / dice.choice(["", "sub"]) / f"{dice.choice(WORDS)}-{dice.randrange(10**6)}.md"
    new.parent.mkdir(exist_ok=True)
    chosen = dice.choice(files) if files else None
    what = dice.choice(["add", "edit", "edit", "rename", "copy", "delete"])
    if chosen is None or len(files) < 4 or (what == "add" and len(files) < 30):
        new.write_text(_text(dice))
        return "add"
    if what == "rename":
        chosen.rename(new)
    elif what == "copy" and len(files) < 30:
        shutil.copy(chosen, new)
    elif what == "delete" or len(files) >= 30:
        chosen.unlink()
    else:
        paragraphs = chosen.read_text().split("\n\n")
        paragraphs[dice.randrange(len(paragraphs))] += f" {dice.choice(WORDS)}"
        chosen.write_text("\n\n".join(paragraphs))
    return what


def _text(dice: random.Random) -> str:
    """A few sections of a file, some of them longer than a passage."""
    sections = []
    for _ in range(dice.randrange(1, 4)):
        words = " ".join(dice.choices(WORDS, k=dice.choice([3, 8, 40, 250])))
        sections.append(f"# {dice.choice(WORDS)}\n\n{words}.")
    return "\n\n".join(sections)


def build(folder: Path, name: str = "idx") -> tr.Index:
    """An index of the files, and vectors, made anew."""
    index = tr.index(folder / "docs", folder / name, workers=1, overwrite=True, progress=False)
    index.encode(Letters(), name="letters", progress=False, overwrite=True)
    return index


def open_index(folder: Path) -> tr.Index:
    """An index whose model is known: none of the hub has its name."""
    index = tr.open(folder)
    index._encoders["letters"] = Letters()
    return index


def update(folder: Path) -> None:
    open_index(folder / "idx").update(folder / "docs", workers=1, progress=False)


def merge(folder: Path) -> None:
    open_index(folder / "idx").merge(progress=False)


def read_rankings(index: tr.Index, pipelines: tuple[str, ...] = ("dense(letters)",)) -> list[object]:
    """The texts and scores of rankings, in their order but for texts of equal scores."""
    stages = {"dense(letters)": index.dense("letters"), "bm25": index.bm25()}
    stages["hybrid"] = 0.5 * tr.minmax(stages["bm25"] % 50) + tr.minmax(stages["dense(letters)"] % 1000)
    return [
        sorted(((score, index[docno].full_text) for docno, score in stages[name].search(query)), reverse=True)
        for name in pipelines
        for query in QUERIES
    ]


def check_whole(index: tr.Index) -> int:
    """After a kill: what is there can be searched, and a warning counts what lacks; how many lack."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rankings = read_rankings(index)
        vectors = index.dense("letters").vectors
    assert all(len(ranking) == len(vectors) for ranking in rankings)
    assert len(vectors) + vectors.lacking == len(index)
    lacks = [warning for warning in caught if issubclass(warning.category, MissingVectors)]
    assert bool(lacks) == bool(vectors.lacking)
    return vectors.lacking


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as warm:  # the children start with everything loaded
        (Path(warm) / "docs").mkdir()
        for text in ("one", "two three", "four"):
            (Path(warm) / "docs" / f"{text[:3]}.md").write_text(text)
            (build if text == "one" else update)(Path(warm))
        merge(Path(warm))
        read_rankings(open_index(Path(warm) / "idx"), ("hybrid",))
    serve({"update": update, "merge": merge})
