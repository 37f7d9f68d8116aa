"""Calls that are wrong: each is one line in the words of whoever calls, and an error of telerank."""

from __future__ import annotations

import numpy as np
import pytest

import telerank as tr
from telerank.errors import TelerankError

# What stands in the calls besides telerank, ``index``, ``bm25``, ``runs`` and ``qrels``; and what is said.
CALLS = {
    'tr.Doc("a")': "tr.Doc: missing a required argument: 'text'",
    'tr.Doc(1, "x")': "tr.Doc: docno must be a text, got 1",
    'tr.Doc("a", "b", titel="c")': "tr.Doc: there is no parameter 'titel'; did you mean 'title'?",
    'tr.Query("1")': "tr.Query: missing a required argument: 'text'",
    'tr.Qrel("1", "a", 1.5)': "tr.Qrel: grade must be a whole number, got 1.5",
    'tr.Ranking("q", ["a"], [1])': "tr.Ranking: query must be a query, got 'q'",
    'tr.Ranking(query, ["a"], ["x"])': "query 1: expected numbers as scores, got ['x']",
    'tr.Ranking(query, "ab", [2, 1])': "tr.Ranking: docnos must be a list, got 'ab'",
    "tr.Ranking(query, ['a'], [1]).cut('x')": "k must be a whole number, got 'x'",
    'tr.minmax("bm25")': "tr.minmax: stage must be a stage, got 'bm25': a text becomes a stage by tr.pipeline(",
    "tr.rrf()": "there is no stage to fuse",
    "tr.rrf([bm25, bm25])": "give the stages one by one, without a list",
    "tr.rrf(index.bm25)": "write index.bm25()",
    "index.bm25 % 10": "write index.bm25()",
    "bm25 % 1.5": "a cut must be a whole number of at least 1, got 1.5",
    "bm25 % np.array([3])": "a cut must be a whole number of at least 1",
    "bm25 - bm25": "not by -; a difference is a + -1 * b",
    "bm25 @ 10": "stages are combined by a >> b, a + b, w * a and a % k, not by @",
    "3 + bm25": "3 + stage: expected a stage",
    '"bm25" >> bm25': "'bm25' >> stage: a text becomes a stage by tr.pipeline(text, index)",
    '"0.5" * bm25': "a stage is multiplied by a number, got '0.5'",
    "bm25 >> len": "a function becomes a stage by tr.scorer(len)",
    'bm25("bear")': "a stage maps a stream of rankings, got 'bear': stage.search(query) ranks one query",
    "list(bm25([query]))": "run() takes queries",
    "bm25.run(3)": "stage.run: queries must be a list, got 3",
    "bm25 >> tr.rerank": "expected a stage: write rerank(…)",
    "bm25 + bm25()": "a stage maps a stream of rankings, got nothing: stage.search(query) ranks one query",
    "bm25[:10]": "a stage has no items: stage % 10 keeps ten documents of each ranking",
    "list(bm25)": "a stage has no items",
    "bm25.transform({})": "stage has no 'transform'; write tr.search(index, queries, stage)",
    'bm25.search("bear", 10)': "stage.search: too many positional arguments; it takes query",
    'bm25.run({"1": "bear"})': "expected a list of tr.Query, got {'1': 'bear'}: tr.search(index, queries, stage) ",
    'tr.scorer(lambda query, text: 1).search("bear")': "<scorer(lambda)> needs a first stage: index.bm25() % 100 >> ",
    'tr.search(index, {"1": "bear"}, tr.group())': "group(file) needs a first stage: index.bm25() % 100 >> group(file)",
    'tr.experiment({"a": 0.5 * tr.group()}, {"1": "bear"}, qrels)': "group(file) needs a first stage",
    'bm25.search(["bear"])': "stage.search: query must be a query or a text, got ['bear']",
    'bm25.explain("bear")': "stage.explain: missing a required argument: 'docno'",
    'index.bm25(k1="a")': "index.bm25: k1 must be a number, got 'a'",
    "index.bm25(k3=1)": "there is no parameter 'k3'; known: k1, b",
    "index.retriever(3)": "index.retriever: model must be a similarity or a text, got 3",
    'index.dfr("x")': "index.dfr: model must be a DFR, got 'x'",
    "index.bm52()": "index has no 'bm52'; did you mean 'bm25'?",
    'index.search("bear")': "index has no 'search'; write index.bm25().search(query), or tr.search(index, queries)",
    'index["zz"]': "no document 'zz'",
    'index.add({"a": "again"})': "document 'a' is in the index already: replace it (update=True)",
    'index.update({"a": "again"})': "got {'a': 'again'}: documents are replaced by index.add(docs, update=True)",
    'index.backup("")': "index.backup: backup is an empty text",
    'index.encode("minilm", name="../x")': "the name of vectors has letters, digits, '.', '_' and '-', got '../x'",
    'bm25.search("bear").top(3)': "ranking has no 'top'; write ranking.cut(k)",
    'bm25.search("bear")["a"]': "a ranking is asked for a place, got 'a': ranking.cut(3) has the first three, dict(",
    "tr.experimnt": "tr has no 'experimnt'; did you mean 'experiment'?",
    "tr.bm25": "tr has no 'bm25'; write index.bm25(), of an index",
    'index.delete("zz")': "no file and no document 'zz'",
    'index.docs["zz"]': "no document 'zz'",
    'index.pipelines["x"]': "no pipeline 'x'",
    "tr.Index(None)": "tr.Index: folder must be a text or a path, got None",
    'tr.index({"a": None}, "new")': "document 'a': expected a text, got None",
    'tr.index({"a": "x"}, "new", workers=0)': "tr.index: workers must be at least 1, got 0",
    'tr.index({"a": "x"}, "new", overwirte=True)': "did you mean 'overwrite'?",
    'tr.open("")': "tr.open: folder is an empty text",
    'tr.index([7], "new")': "document number 1: expected a text, or a row with docno and text, got 7",
    'tr.index([{"docno": "a", "text": None}], "new")': "document number 1, 'a': expected a text, got None",
    'tr.index({"a": "x"}, "new", copies="leave")': "got 'leave'; did you mean 'leave-out'?",
    'tr.index({"a": "x"}, "new", analyzer=lambda: [])': "an analyzer calls f(text), but lambda() does not take that",
    'tr.index({"a": "x"}, "new", analyzer=lambda text: 7)': ":<lambda> gave 7, expected a list of texts",
    'tr.index(["a"], "new", analyzer="frensh")': "did you mean 'french'?",
    'tr.pipeline("run(a.rnu)", index)': "a.rnu: no such file; did you mean 'a.run'?",
    'tr.pipeline("bm52", index)': "did you mean 'bm25'?",
    'tr.search(index, ["bear"], k=0)': "tr.search: k must be at least 1, got 0",
    'tr.search(index, ["bear"], split="test")': "queries in memory have no split 'test'",
    'tr.search(index, {"1": 3})': "query '1': expected a text, got 3",
    "tr.search(index, 3)": "queries: expected a dict, a list or a data frame, got 3",
    'tr.search(index, ["bear"]).save(3)': "run.save: path must be a text or a path, got 3",
    "tr.search(index, index)": "queries: expected a dict, a list or a data frame, got Index(",
    "tr.search(index, [7])": "query number 1: expected a text, or a row with qid and query, got 7",
    'tr.search(index, ["bear"])[0]': "a run is computed as it is read, and has no [0]: write list(run)",
    'tr.search(index, ["bear"]).save(".")': ".: Is a directory",
    'tr.judge({"1": {"a": "x"}}, qrels)': "run, query '1', document 'a': expected a number as the score, got 'x'",
    'tr.judge({"1": ["a"]}, qrels)': "1, row 1: expected a row with qid, docno and score, got 'a'",
    'tr.judge({"mine": bm25}, qrels)': "mine: expected a run, got bm25(k1=1.2, b=0.75): a stage makes a run by tr.search(",
    'tr.judge({"x": {"1": {"a": 1}}}, qrels, split="test")': "judgments in memory have no split 'test'",
    'tr.judge({"x": {"1": {"a": 1}}}, qrels, depth=0)': "tr.judge: depth must be at least 1, got 0",
    "tr.fuse([bm25, bm25])": "a stage makes a run by tr.search(index, queries, stage); stages are fused by tr.rrf",
    'tr.fuse(runs, "rff")': "tr.fuse: method must be 'interleave' or 'linear' or 'rrf', got 'rff'; did you mean 'rrf'?",
    'tr.fuse(runs, "linear", weights=[1, "a"])': "a weight must be a finite number, got 'a'",
    'tr.fuse(runs, "linear", weights=[1])': "1 weight for 2 runs",
    "tr.tune_fusion(runs, folds=1)": "tr.tune_fusion: folds must be at least 2, got 1",
    'tr.tune_fusion({"x": {}, "y": {}})': "runs need judgments, once",
    'tr.tune(index, "piaf", measures="nDGC")': "did you mean 'nDCG'?",
    'tr.evaluate(runs, "nDCG@0")': "'nDCG@0': a cutoff is a whole number from 1 to 2,147,483,647, got 0",
    'tr.evaluate(runs, "ndcg@10")': "there is no measure 'ndcg'; did you mean 'nDCG'? (in 'ndcg@10')",
    'tr.measure("one", lambda grades: 1)': "tr.measure calls f(ranked, judged), but lambda(grades) does not take that",
    'tr.evaluate(runs).save("means.xlsx")': "means.xlsx: tables are saved as .md, .tex, .htm, .html, .csv, .json or .txt, not as .xlsx",
    'tr.experiment({"a": bm25}, {}, qrels)': "there is no query",
    'tr.experiment({"a": bm25}, {"1": "bear"}, {})': "there is no judgment",
    'tr.experiment({"a": bm25}, {"9": "bear"}, qrels)': "no query is judged by the qrels, whose qids are such as '1', not '9'",
    'tr.experiment({"": bm25}, {"1": "bear"}, qrels)': "the name of a system must be a text, got ''",
    'tr.experiment({"a": bm25}, {"1": "bear"}, qrels, folder="a.run")': "a.run: File exists",
    'tr.experiment({"a": bm25}, {"1": "bear"}, qrels).run(7)': "no system 7; known: a",
    "tr.rerank(lambda query, text: 1.0, index)": "got the function lambda: a function becomes a stage by tr.scorer(f)",
    'tr.rerank("minilm", index)': "expected a re-ranker, got BertModel and no reranker.json",
    'tr.reader("minilm")': "expected a reader (…ForQuestionAnswering), got BertModel: train a reader from it",
    'tr.encode(index, device="cudda")': "there is no device 'cudda': expected cpu, cuda, cuda:1, …",
    "tr.compare(runs, level=2)": "tr.compare: level must be at most 1.0, got 2",
    'tr.evaluate(runs, "nDGC@10")': "there is no measure 'nDGC'; did you mean 'nDCG'?",
    'tr.evaluate(runs).render("pdf")': "report.render: form must be 'text' or 'markdown'",
    'tr.evaluate(runs).evaluations["z"]': "no run 'z'; known: x, y",
    'tr.evaluate(runs).evaluations["x"].of("AQ")': "no measure 'AQ'; known: RR@10, R@1000, AP, nDCG@10, P@1",
    'runs.read("z")': "no run 'z'; known: x, y",
    "tr.judge({}, qrels)": "there is no run",
    'tr.judge(["a.rnu"], qrels)': "a.rnu: no such file; did you mean 'a.run'?",
    'tr.fuse(["a.run", "b.run"])': "b.run: no such file",
    'tr.depth(runs, "b.run")': "b.run: no such file",
    'tr.consistency("b.run", ["a.run"], [1])': "b.run: no such file",
    'tr.experiment({"a": index.bm25}, {"1": "bear"}, qrels)': "write index.bm25()",
    'tr.experiment({"a": len}, {"1": "bear"}, qrels)': "a function becomes a stage by tr.scorer(f)",
    'tr.experiment({1: bm25}, {"1": "bear"}, qrels)': "the name of a system must be a text, got 1",
    "tr.experiment([bm25], qrels)": "tr.experiment: systems must be a dict",
    "tr.scorer(lambda query: 1)": "tr.scorer calls f(query, text), but lambda(query) does not take that",
    "tr.scorer(lambda query, text: 1, 3)": "tr.scorer: texts must be an index or a collection",
    'tr.measure("hits", 3)': "tr.measure: function must be a function, got 3",
    "tr.serve(index, prot=80)": "tr.serve: there is no parameter 'prot'; did you mean 'port'?",
    "tr.serve(3)": "tr.serve: index must be a text or a path",
    'tr.train("rerankr", {})': "got 'rerankr'; did you mean 'reranker'?",
    'tr.run_experiment("repbert/tabel1")': "did you mean 'repbert/table1'?",
}  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    texts = {"a": "black bear attacks", "b": "a bear", "c": "the attack of a lion"}
    index = tr.index(texts, folder / "idx", analyzer="english", progress=False)
    qrels = {"1": {"a": 1}}
    (folder / "a.run").touch()
    runs = tr.judge({"x": {"1": {"a": 1.0}}, "y": {"1": {"b": 1.0}}}, qrels)
    query = tr.Query("1", "bear")
    given = {"index": index, "bm25": index.bm25(), "qrels": qrels, "runs": runs, "query": query}
    return folder, {"tr": tr, "np": np, **given}


@pytest.mark.parametrize(("call", "says"), CALLS.items(), ids=CALLS)
def test_a_wrong_call_is_one_line_of_an_error_of_telerank(names, call, says, monkeypatch):
    folder, given = names
    monkeypatch.chdir(folder)
    with pytest.raises(TelerankError) as error:
        eval(call, dict(given))
    assert isinstance(error.value, ValueError | TypeError)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "call",
    [
        "(bm25 >> tr.scorer(broken)).search('bear')",
        "(bm25 >> tr.scorer(broken, batch=True)).search('bear')",
        "tr.retriever(broken).search('bear')",
        "tr.evaluate(runs, tr.measure('Broken', broken))",
        "tr.index({'a': 'x'}, 'broken', analyzer=only, workers=1, progress=False)",
    ],
)
def test_what_a_function_of_the_user_raises_is_raised_with_a_note_of_where(
    names, call, tmp_path, monkeypatch
):
    def broken(*_):
        raise ZeroDivisionError("mine")

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZeroDivisionError, match="mine") as error:
        eval(call, {**names[1], "broken": broken, "only": broken})
    assert "which was called for" in error.value.__notes__[0]


@pytest.mark.parametrize("call", ["rerank", "reader", "read", "encode", "pipeline"])
def test_a_model_that_does_not_exist_is_refused_when_it_is_named(names, call, monkeypatch, tmp_path):
    (tmp_path / "my-reranker").mkdir()
    monkeypatch.setenv("TELERANK_MODELS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    index = names[1]["index"]
    calls = {
        "rerank": lambda: tr.rerank("my-rerankr", index),
        "reader": lambda: tr.reader("my-rerankr"),
        "read": lambda: tr.read("my-rerankr", index),
        "encode": lambda: index.encode("my-rerankr", progress=False),
        "pipeline": lambda: tr.pipeline("bm25 >> rerank(my-rerankr)", index),
    }
    with pytest.raises(TelerankError, match=r"'my-rerankr' is neither .* did you mean 'my-reranker'"):
        calls[call]()


def test_rankings_that_can_be_read_once_are_measured_twice_alike(names):
    given = names[1]
    judged = tr.judge({"bm25": given["bm25"].run([given["query"]])}, given["qrels"])
    first, second = (tr.evaluate(judged, "RR").evaluations["bm25"].mean for _ in range(2))
    assert first == second == {"RR": 0.5}
