from __future__ import annotations

import gc
import shutil
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import telerank as tr
from small_models import small_encoder
from small_service import make_index, serving, settings_of, wait_until
from telerank.pipelines.functions import remove_pipeline, save_pipeline
from telerank.types import Doc

SWAPS = 30


def docs_of(version: int) -> list[Doc]:
    return [Doc(f"{version}-{n}", f"word w{n} of version{version}", f"title{version}") for n in range(12)]


def index_of(client):
    return client.get("/v1/indexes/idx").json()


@pytest.mark.process
def test_swaps_under_requests_fail_none_and_mix_nothing(tmp_path):
    folder = make_index(tmp_path / "idx", docs_of(0))
    requests = (
        {"query": "word w3", "k": 12, "highlight": True},
        {"query": "word", "k": 3, "page": 2, "pipeline": "rrf(bm25 % 9, dfi % 9)"},
    )
    replies, stopping = [], threading.Event()

    def search_again_and_again(client) -> None:
        while not stopping.is_set():
            replies.append(client.post("/v1/search", json=requests[len(replies) % 2]))

    with (
        serving(settings_of(folder, watch=0.01)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        searching = pool.submit(search_again_and_again, client)
        try:
            for version in range(1, SWAPS + 1):
                tr.index(docs_of(version), folder, overwrite=True, workers=1)
                address = f"/v1/documents?docno={version}-0"
                wait_until(lambda address=address: client.get(address).status_code == 200)
        finally:
            stopping.set()
        searching.result()
        mapped = Path("/proc/self/maps").read_text().count(str(folder))
        metrics = client.get("/metrics").text
    assert {reply.status_code for reply in replies} == {200}
    seen = set()
    for reply in map(httpx.Response.json, replies):
        [version] = {hit["docno"].split("-")[0] for hit in reply["hits"]}
        assert {hit["title"] for hit in reply["hits"]} == {f"title{version}"}
        assert all(f"version{version}" in hit["text"] for hit in reply["hits"])
        assert reply["generation"] == int(version) + 1
        seen.add(version)
    assert len(seen) > SWAPS // 4
    assert f'telerank_index_changes_total{{index="idx",outcome="taken up"}} {SWAPS}.0' in metrics
    assert mapped < SWAPS, f"{mapped} mapped files of the index: old ones are kept"


def test_added_and_deleted_documents_and_saved_pipelines_are_taken_up(tmp_path):
    folder = make_index(tmp_path / "idx")
    with serving(settings_of(folder, watch=0.01)) as client:
        tr.open(folder).add([Doc("new", "q1 news")], workers=1)
        wait_until(lambda: index_of(client)["documents"] == 5)
        hits = client.get("/v1/search", params={"query": "news"}).json()["hits"]
        assert [hit["docno"] for hit in hits] == ["new"]
        tr.open(folder).delete(["new"])
        wait_until(lambda: index_of(client)["documents"] == 4)
        save_pipeline(tr.Index(folder), "best", "bm25(k1=2)")
        wait_until(lambda: "best" in index_of(client)["pipelines"])
        remove_pipeline(tr.Index(folder), "best")
        wait_until(lambda: "best" not in index_of(client)["pipelines"])


@pytest.mark.filterwarnings("default::telerank.errors.MissingVectors")
def test_vectors_that_lack_documents_are_counted_and_a_change_without_any_is_refused(tmp_path):
    folder = make_index(tmp_path / "idx")
    encoder = small_encoder(tmp_path / "enc")
    tr.encode(folder, model=str(encoder))
    with serving(
        settings_of(folder, model="dense(enc)", encoders={"enc": str(encoder)}, watch=0.01)
    ) as client:
        tr.open(folder).add([Doc("new", "q1")], workers=1, vectors=False)
        wait_until(lambda: index_of(client)["lacking"] == {"enc": 1})
        assert len(client.get("/v1/search", params={"query": "q1"}).json()["hits"]) == 4
        tr.encode(folder, model=str(encoder))
        wait_until(lambda: index_of(client)["lacking"] == {})
        assert len(client.get("/v1/search", params={"query": "q1"}).json()["hits"]) == 5
        tr.open(folder).add([Doc("newer", "q1 q2")], workers=1)
        wait_until(lambda: len(client.get("/v1/search", params={"query": "q1"}).json()["hits"]) == 6)
        tr.index([Doc("other", "x9")], folder, overwrite=True, workers=1)
        wait_until(lambda: 'outcome="refused"' in client.get("/metrics").text)
        assert client.get("/v1/search", params={"query": "q1"}).status_code == 200
        assert index_of(client)["documents"] == 6


def test_an_index_that_is_damaged_or_missing_leaves_the_old_one(tmp_path):
    folder = make_index(tmp_path / "idx")
    with serving(settings_of(folder, watch=0.01)) as client:
        refused = 'telerank_index_changes_total{index="idx",outcome="refused"}'
        (folder / "manifest.json").write_text("{}")
        wait_until(lambda: f"{refused} 1.0" in client.get("/metrics").text)
        assert client.get("/v1/search", params={"query": "q1"}).status_code == 200
        shutil.rmtree(folder.rename(tmp_path / "gone"))
        wait_until(lambda: f"{refused} 2.0" in client.get("/metrics").text)
        assert client.get("/v1/search", params={"query": "q1", "highlight": True}).json()["hits"][0]["text"]
        assert client.get("/health").status_code == 200


def test_an_index_that_was_replaced_is_freed_at_once(tmp_path):
    """Without a collection of garbage, which would halt requests."""
    folder = make_index(tmp_path / "idx")
    with serving(settings_of(folder, watch=0.01)) as client:
        served = client.app.state.served
        client.get("/v1/search", params={"query": "q1", "pipeline": "rrf(bm25 % 5, dfi % 5)"})
        gc.collect()
        gc.disable()
        try:
            gone = weakref.ref(served.snapshot().served_index().index)
            tr.open(folder).add([Doc("new", "q1 news")], workers=1)
            wait_until(lambda: gone() is None)
        finally:
            gc.enable()
