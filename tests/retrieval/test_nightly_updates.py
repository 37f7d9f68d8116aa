"""An index of a folder and its vectors, updated again and again and killed, equal those that are made anew.

``NIGHTS=250 pytest -m process tests/retrieval/test_nightly_updates.py -s`` runs a thousand updates, in an hour.
"""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path

import pytest

from accidents import Dying
from nightly_updates import build, change_files, check_whole, open_index, read_rankings

NIGHTS = int(os.environ.get("NIGHTS", "12"))
EVERY = 50  # updates after which everything is made anew, to compare


@pytest.fixture(scope="module")
def dying():
    process = Dying(Path(__file__).parent.parent / "nightly_updates.py")
    yield process
    process.close()


@pytest.mark.parametrize(
    ("nights", "seed"),
    [(6, 0), *(pytest.param(NIGHTS, seed, marks=pytest.mark.process) for seed in range(1, 5))],
)
def test_updates_at_random_and_kills_end_in_the_rankings_of_an_index_made_anew(dying, tmp_path, nights, seed):
    dice = random.Random(seed)
    folder, steps, killed, lacked = tmp_path, {"update": 300, "merge": 300}, 0, 0
    (folder / "docs").mkdir()
    for _ in range(8):
        change_files(folder / "docs", dice)
    build(folder)
    for night in range(1, nights + 1):
        for _ in range(dice.choice([0, 1, 1, 2, 5])):
            change_files(folder / "docs", dice)
        for change in ["update", *(["merge"] if dice.random() < 0.1 else [])]:
            while dice.random() < 0.4:
                death = dying.change(change, folder, at=dice.randrange(1, steps[change] + 20))
                if death.status == -signal.SIGKILL:
                    killed += 1
                    lacked += check_whole(open_index(folder / "idx")) > 0
            said = dying.change(change, folder).said
            steps[change] = max(int(re.fullmatch(r"done after (\d+)", said)[1]), 9 * steps[change] // 10)
        if night % EVERY == 0 or night == nights:
            index, anew = open_index(folder / "idx"), build(folder, "anew")
            assert sorted(doc.full_text for doc in index.docs.values()) == sorted(
                doc.full_text for doc in anew.docs.values()
            )
            assert read_rankings(index) == read_rankings(anew)
            assert index.info()["exact copies"] == anew.info()["exact copies"]
            index.dense("letters").vectors.verify()
            print(f"night {night}: {killed} kills so far")
    assert dying.change("merge", folder).said.startswith("done")
    pipelines = ("dense(letters)", "bm25", "hybrid")
    assert read_rankings(open_index(folder / "idx"), pipelines) == read_rankings(anew, pipelines)
    print(f"{nights} nights, {killed} kills, after {lacked} of them vectors lacked documents")
