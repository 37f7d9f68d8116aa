"""A changed index is taken up without a failed request, and nothing old and new is in one answer."""

from __future__ import annotations

import gc
import shutil
import threading
import time
import weakref
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import telerank as tr
from small_service import make_index, serving, settings_of
from telerank.pipelines.saved import remove_pipeline, save_pipeline
from telerank.types import Doc
from telerank.verbs.index import add_documents, delete_documents

SWAPS = 100


def docs_of(version: int) -> list[Doc]:
    return [Doc(f"{version}-{n}", f"word w{n} of version{version}", f"title{version}") for n in range(12)]


def wait_for(client, check, seconds: float = 60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check(reply := client.get("/v1/indexes/idx").json()):
            return reply
        time.sleep(0.02)
    pytest.fail(f"not within {seconds} seconds")


class Requests(threading.Thread):
    """Searches again and again, until it is told to stop; keeps what it saw."""

    def __init__(self, client) -> None:
        super().__init__(daemon=True)
        self.client, self.stopping = client, threading.Event()
        self.replies: list = []

    def run(self) -> None:
        requests = (
            {"query": "word w3", "k": 12, "highlight": True},
            {"query": "word", "k": 3, "page": 2, "pipeline": "rrf(bm25 % 9, dfi % 9)"},
        )
        number = 0
        while not self.stopping.is_set():
            number += 1
            try:
                reply = self.client.post("/v1/search", json=requests[number % 2])
            except Exception as error:  # noqa: BLE001 — whatever it is, it is a failed request
                self.replies.append((0, repr(error)))
                return
            self.replies.append((reply.status_code, reply.json()))


@pytest.mark.process
def test_a_hundred_swaps_under_requests_fail_none_and_mix_nothing(tmp_path):
    folder = make_index(tmp_path / "idx", docs_of(0))
    with serving(settings_of(folder, watch=0.01)) as client:
        loop = Requests(client)
        loop.start()
        for version in range(1, SWAPS + 1):
            tr.index(docs_of(version), folder, overwrite=True, workers=1)
            reached = f"{version}-0"
            end = time.monotonic() + 30
            while client.get("/v1/documents", params={"docno": reached}).status_code != 200:
                assert time.monotonic() < end
                time.sleep(0.005)
        loop.stopping.set()
        loop.join(30)
        mapped = (
            Path("/proc/self/maps").read_text().count(str(folder)) if Path("/proc/self/maps").exists() else 0
        )
        metrics = client.get("/metrics").text
    assert {status for status, _ in loop.replies} == {200}, [r for r in loop.replies if r[0] != 200][:3]
    seen = set()
    for _, reply in loop.replies:
        [version] = {hit["docno"].split("-")[0] for hit in reply["hits"]}
        assert {hit["title"] for hit in reply["hits"]} == {f"title{version}"}
        assert all(f"version{version}" in hit["text"] for hit in reply["hits"])
        assert reply["generation"] == int(version) + 1
        seen.add(version)
    assert len(seen) > SWAPS // 4
    assert f'telerank_index_changes_total{{index="idx",outcome="taken up"}} {SWAPS}.0' in metrics
    assert mapped < 100, f"{mapped} mapped files of the index: old ones are kept"


def test_added_and_deleted_documents_and_saved_pipelines_are_taken_up(tmp_path):
    folder = make_index(tmp_path / "idx")
    with serving(settings_of(folder, watch=0.01)) as client:
        add_documents(folder, [Doc("new", "q1 news")], workers=1)
        wait_for(client, lambda index: index["documents"] == 5)
        hits = client.get("/v1/search", params={"query": "news"}).json()["hits"]
        assert [hit["docno"] for hit in hits] == ["new"]
        delete_documents(folder, ["new"])
        wait_for(client, lambda index: index["documents"] == 4)
        save_pipeline(tr.Index(folder), "best", "bm25(k1=2)")
        wait_for(client, lambda index: "best" in index["pipelines"])
        remove_pipeline(tr.Index(folder), "best")
        wait_for(client, lambda index: "best" not in index["pipelines"])


def test_a_change_that_a_pipeline_cannot_run_on_is_refused(tmp_path):
    pytest.importorskip("transformers")
    from small_models import small_encoder

    folder = make_index(tmp_path / "idx")
    encoder = small_encoder(tmp_path / "enc")
    tr.encode(folder, model=str(encoder))
    with serving(
        settings_of(folder, model="dense(enc)", encoders={"enc": str(encoder)}, watch=0.01)
    ) as client:
        add_documents(folder, [Doc("new", "q1")], workers=1)  # the vectors lack it
        end = time.monotonic() + 30
        while 'outcome="refused"' not in client.get("/metrics").text and time.monotonic() < end:
            time.sleep(0.02)
        reply = client.get("/v1/search", params={"query": "q1"})
        assert reply.status_code == 200
        assert client.get("/v1/indexes/idx").json()["documents"] == 4
        tr.encode(folder, model=str(encoder), overwrite=True)
        wait_for(client, lambda index: index["documents"] == 5)
        assert len(client.get("/v1/search", params={"query": "q1"}).json()["hits"]) == 5


def test_an_index_that_is_missing_or_damaged_leaves_the_old_one(tmp_path):
    folder = make_index(tmp_path / "idx")
    with serving(settings_of(folder, watch=0.01)) as client:
        (folder / "manifest.json").write_text("{}")
        time.sleep(0.2)
        assert client.get("/v1/search", params={"query": "q1"}).status_code == 200
        shutil.rmtree(folder)
        time.sleep(0.2)
        assert client.get("/v1/search", params={"query": "q1", "highlight": True}).json()["hits"][0]["text"]
        assert client.get("/health").status_code == 200


def test_an_index_that_was_replaced_is_freed_at_once(tmp_path):
    from telerank.service.indexes import ServedIndex
    from telerank.service.models import ServedModels

    folder = make_index(tmp_path / "idx")
    settings = settings_of(folder)
    gc.collect()
    gc.disable()
    try:
        index = ServedIndex.open("idx", folder, ServedModels.of(settings), settings)
        index.warm()
        index.pipeline("rrf(bm25 % 5, dfi % 5)").search("q1")
        gone = weakref.ref(index.index)
        del index
        assert gone() is None
    finally:
        gc.enable()
