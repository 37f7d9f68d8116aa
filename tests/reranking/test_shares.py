"""Two processes re-rank and encode what one would."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch computes in one process alone", allow_module_level=True)

from small_vectors import Letters, docs  # noqa: E402
from telerank.dense.encode import Encoding, encode_documents  # noqa: E402
from telerank.dense.vectors import Vectors  # noqa: E402

pytestmark = pytest.mark.process

TEXTS = [f"{number} bears" for number in range(10)]
WORKER = """
import sys
from types import SimpleNamespace
from torch import distributed
distributed.init_process_group("gloo")
from small_vectors import Letters, docs
from telerank.dense.encode import Encoding
from telerank.training.shares import encode_shares
from telerank.training import shares
from telerank.models.inference import Room
from telerank.types import Query, Ranking

texts = [f"{number} bears" for number in range(10)]
for _ in range(2):  # the second time the vectors are there
    vectors = encode_shares(docs(texts), sys.argv[1], Letters(), encoding=Encoding(shard=4))
    assert [len(shard) for shard in vectors.shards] == [4, 4, 2]

counts = SimpleNamespace()
scored = []

class Reversed:
    scorer = SimpleNamespace(counts=counts)

    def __call__(self, stream):
        for ranking in stream:
            scored.append(ranking.query.qid)
            counts.pairs += len(ranking)
            yield Ranking.ranked(ranking.query, ranking.docnos, [-score for score in ranking.scores])

shares._ROUND = 2
for count in (0, 1, 7, 8):
    counts.pairs, counts.cut, counts.cut_pairs = 0, 1, 2
    room = Reversed.scorer.room = Room(None if count == 8 else 500 + 100 * distributed.get_rank())
    scored.clear()
    rankings = [Ranking.ranked(Query(f"q{n}", "x"), ("a", "b"), [2.0, 1.0]) for n in range(count)]
    both = list(shares.rerank_shares(Reversed(), rankings))
    assert [ranking.query.qid for ranking in both] == [f"q{n}" for n in range(count)]
    assert all(ranking.docnos == ("b", "a") for ranking in both)
    assert scored == [f"q{n}" for n in range(distributed.get_rank(), count, 2)]
    assert (counts.pairs, counts.cut, counts.cut_pairs) == (2 * count, 2, 4)
    assert room.tokens == (None if count == 8 else 500)  # the least of both
distributed.destroy_process_group()
"""


def test_two_processes_score_a_share_each_and_write_the_vectors_of_one(forks, tmp_path):
    ended = forks.run(WORKER, tmp_path / "two", processes=2)
    assert [own.status for own in ended] == [0, 0], ended
    alone = encode_documents(docs(TEXTS), tmp_path / "alone", Letters(), encoding=Encoding(shard=4))
    two = Vectors(tmp_path / "two")
    assert list(alone.docnos) == list(two.docnos)
    for mine, other in zip(alone.shards, two.shards, strict=True):
        assert (mine.vectors == other.vectors).all()
    assert {path.name for path in tmp_path.iterdir()} == {"alone", "two"}
