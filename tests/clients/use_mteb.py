# requires: mteb torch==2.13.0 --editable .
"""mteb: pipelines are search models, and its nDCG@10 is telerank's own, on SciFact and PIAF."""

import os
import tempfile
from pathlib import Path

import mteb
from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata

import telerank as tr
from telerank.evaluation.measures import measure
from telerank.integrations.mteb import SearchModel

DATA = os.environ.get("TELERANK_DATA", "../shared/data")
CLOSE = 1e-5  # mteb rounds means to five digits


def make_task(name: str, split: str, language: str, most: int | None = None) -> AbsTaskRetrieval:
    """A task of a collection on this machine, of its first judged queries."""
    data = tr.collection(f"{DATA}/{name}")
    judged = dict(list(data.judged(split).items())[:most])
    docs = [{"id": doc.docno, "title": doc.title, "text": doc.text} for doc in data.docs()]
    queries = [query for query in data.split_queries(split) if query.qid in judged]
    described = TaskMetadata(
        name=f"Local{name.title()}", description=name, type="Retrieval", category="t2t", modalities=["text"],
        dataset={"path": "local/none", "revision": "1"}, eval_splits=["test"], eval_langs=[language],
        main_score="ndcg_at_10", reference=None, date=None, domains=None, task_subtypes=None, license=None,
        annotations_creators=None, dialect=None, sample_creation=None, bibtex_citation=None,
    )  # fmt: skip

    class Local(AbsTaskRetrieval):
        metadata = described

        def load_data(self, *_: object, **__: object) -> None:
            asked = Dataset.from_list([{"id": query.qid, "text": query.text} for query in queries])
            self.dataset = {
                "default": {
                    "test": RetrievalSplitData(
                        corpus=Dataset.from_list(docs), queries=asked, relevant_docs=judged, top_ranked=None
                    )
                }
            }
            self.data_loaded = True

    return Local()


def check(task: AbsTaskRetrieval, model: SearchModel, name: str, split: str, pipeline: str) -> None:
    """mteb's value is telerank's, over the same queries."""
    with tempfile.TemporaryDirectory() as folder:
        results = mteb.evaluate(
            model,
            [task],
            cache=mteb.ResultCache(folder),
            show_progress_bar=False,
            overwrite_strategy="always",
        )
        [written] = Path(folder).rglob(f"{task.metadata.name}.json")
        theirs = results.task_results[0].scores["test"][0]["ndcg_at_10"]
        assert f'"ndcg_at_10": {theirs}' in written.read_text()
        data = tr.collection(f"{DATA}/{name}")
        analyzer = {"eng-Latn": "english", "fra-Latn": "french"}[task.metadata.eval_langs[0]]
        index = tr.index(data, f"{folder}/index", analyzer=analyzer, progress=False)
        task.load_data()
        qrels = task.dataset["default"]["test"]["relevant_docs"]
        queries = [query for query in data.split_queries(split) if query.qid in qrels]
        ours = measure((tr.pipeline(pipeline, index) % 1000).run(queries), qrels, "nDCG@10").mean["nDCG@10"]
        assert abs(theirs - ours) < CLOSE, (task.metadata.name, pipeline, theirs, ours)
    print(f"{task.metadata.name}, {pipeline}: nDCG@10 {theirs:.5f}, telerank's own {ours:.5f}")


FUSED = "rrf(bm25 % 100, lm_dirichlet % 100)"
for name, split, language, most in (("scifact", "test", "eng-Latn", None), ("piaf", "all", "fra-Latn", 500)):
    task = make_task(name, split, language, most)
    check(task, SearchModel("bm25"), name, split, "bm25")
    check(task, SearchModel(lambda index: tr.pipeline(FUSED, index)), name, split, FUSED)

model = SearchModel("bm25")
docs = [{"id": "1", "title": "", "text": "a press"}, {"id": "2", "title": "", "text": "a press for olives"}]
model.index(docs, task_metadata=task.metadata)
found = model.search([{"id": "q", "text": "press"}], top_k=10, top_ranked={"q": ["2"]})
assert [*found["q"]] == ["2"], found
print("re-ranking tasks passed")
