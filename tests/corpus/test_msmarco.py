from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from telerank.corpus.formats import open_collection
from telerank.corpus.readers.by_split import Triple, read_documents, read_passages, read_pool, read_triples
from telerank.errors import FormatError
from telerank.trec import write_run
from telerank.types import Doc, Qrel, Query, Ranking


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def test_the_layout_of_passage_ranking(tmp_path):
    write(tmp_path, "collection.tsv.gz", "0\tone", '1\ttwo "quoted" \' tabs\tkept')
    write(tmp_path, "queries.dev.small.tsv", "7\twhat is it", "8\twhy")
    write(tmp_path, "queries.eval.tsv", "9\twho")
    write(tmp_path, "qrels.dev.small.tsv", "7\t0\t1\t1")
    write(tmp_path, "msmarco-test2019-queries.tsv", "19\twhen")
    write(tmp_path, "2019qrels-pass.txt", "19 Q0 1 3")
    write(tmp_path, "top1000.dev.tsv", "7\t1\twhat is it\ttwo", "8\t0\twhy\tone", "7\t0\twhat is it\tone")
    write(tmp_path, "msmarco-passagetest2019-top1000.tsv", "19\t0\twhen\tone")
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits) == ("msmarco", ("test2019", "dev.small", "eval"))
    assert list(collection.docs())[1] == Doc("1", 'two "quoted" \' tabs\tkept')
    assert list(collection.split_queries("dev.small")) == [Query("7", "what is it"), Query("8", "why")]
    assert list(collection.split_qrels("test2019")) == [Qrel("19", "1", 3)]
    assert set(collection.pools) == {"dev.small/top1000", "test2019/top1000"}
    assert list(collection.pools["dev.small/top1000"]()) == [
        Ranking(Query("7", "what is it"), ("1", "0"), [2, 1]),
        Ranking(Query("8", "why"), ("0",), [1]),
    ]


def test_the_layout_of_document_ranking(tmp_path):
    write(tmp_path, "msmarco-docs.tsv", "D1\thttp://a\tTitle\tBody\twith a tab", "D2\t\t\t")
    write(tmp_path, "msmarco-docdev-queries.tsv", "7\twhat is it")
    write(tmp_path, "msmarco-docdev-qrels.tsv", "7 0 D1 1")
    write(tmp_path, "docleaderboard-queries.tsv", "9\twho")
    write(tmp_path, "msmarco-test2019-queries.tsv", "19\twhen")
    write(tmp_path, "2019qrels-docs.txt", "19 Q0 D2 3", "19 Q0 D1 0")
    write(tmp_path, "msmarco-doctest2019-top100", "19 Q0 D1 1 -5.0 x", "19 Q0 D2 2 -6.0 x")
    write_run(tmp_path / "msmarco-docdev-top100", [Ranking(Query("7", ""), ("D2", "D1"), [-1.5, -2.5])])
    collection = open_collection(tmp_path)
    assert (collection.splits, collection.unread) == (("leaderboard", "dev", "test2019"), ())
    assert list(collection.docs()) == [Doc("D1", "Body\twith a tab", "Title", "http://a"), Doc("D2", "")]
    assert list(collection.split_qrels("dev")) == [Qrel("7", "D1", 1)]
    assert collection.judged("test2019") == {"19": {"D2": 3, "D1": 0}}
    assert {name: [one.docnos for one in pool()] for name, pool in collection.pools.items()} == {
        "dev/top100": [("D2", "D1")],
        "test2019/top100": [("D1", "D2")],
    }


def test_a_single_file_is_a_collection_of_documents_and_lists_of_eval_are_of_its_small_part(tmp_path):
    path = write(tmp_path, "collection.tsv", "0\tone")
    assert list(open_collection(path).docs()) == [Doc("0", "one")]
    assert open_collection(path).splits == ()
    write(tmp_path, "queries.eval.tsv", "9\twho", "8\twhy")
    write(tmp_path, "queries.eval.small.tsv", "9\twho")
    write(tmp_path, "top1000.eval.tsv", "9\t0\twho\tone")
    assert list(open_collection(tmp_path).pools) == ["eval.small/top1000"]


def test_triples_of_texts_and_of_ids_stream(tmp_path):
    texts = write(tmp_path, "triples.train.small.tsv", "q\tgood\tbad", "r\tyes\tno")
    ids = write(tmp_path, "qidpidtriples.train.full.2.tsv.gz", "1\t20\t30")
    assert list(read_triples(texts)) == [Triple("q", "good", "bad"), Triple("r", "yes", "no")]
    assert next(read_triples(ids)) == Triple("1", "20", "30")


@pytest.mark.parametrize(
    ("read", "line", "columns"),
    [
        (read_passages, "7 no tab", "2 columns with a tab between: pid passage"),
        (read_documents, "D1\turl\ttitle", "4 columns with tabs between: docid url title body"),
        (read_pool, "1\t2\tquery", "4 columns with tabs between: qid pid query passage"),
        (read_triples, "1\t2", "3 columns with tabs between: query positive negative"),
    ],
)
def test_a_line_of_other_columns_is_named(tmp_path, read, line, columns):
    path = write(tmp_path, "file.tsv", "a\tb\tc\td", line)
    with pytest.raises(FormatError, match=f"file.tsv:2: expected {columns}, got"):
        list(read(path))


def test_a_list_that_names_a_document_twice_is_an_error(tmp_path):
    with pytest.raises(FormatError, match="each document once in the list of query 7"):
        list(read_pool(write(tmp_path, "top2.dev.tsv", *["7\t1\tq\tp"] * 2)))


@pytest.mark.data
def test_the_slice_holds_what_its_readme_states(data):
    collection = open_collection(data / "msmarco-slice")
    docs = list(collection.docs())
    assert (len(docs), docs[0].docno, docs[9].docno, docs[-1].docno) == (29_349, "159", "5606", "8841543")
    assert docs[0].text.startswith("Sorrento, LA Profile: Facts, Map & Data.")
    assert docs[-1].text.startswith("Use the following periodic table")
    train, dev = list(collection.split_queries("train")), list(collection.split_queries("dev.small"))
    assert (len(train), train[0].qid, train[-1].qid) == (11_992, "10000", "1025131")
    assert (len(dev), dev[0].qid, dev[-1].text) == (600, "9083", "zarxio what is this medication use")
    assert len(list(collection.split_qrels("train"))) == 12_677
    relevant = {(qrel.qid, qrel.docno) for qrel in collection.split_qrels("dev.small")}
    assert len(relevant) == 600
    lists = list(collection.pools["dev.small/top20"]())
    assert sum(map(len, lists)) == 12_000
    assert [ranking.query for ranking in lists] == dev
    assert sum(any((r.query.qid, docno) in relevant for docno in r.docnos) for r in lists) == 540
    assert {docno for ranking in lists for docno in ranking.docnos} <= {doc.docno for doc in docs}
