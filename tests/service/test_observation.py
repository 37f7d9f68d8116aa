from __future__ import annotations

import json
import logging

import pytest

from small_service import serving, settings_of
from telerank.errors import IndexDamaged
from telerank.service.indexes import ServedIndex
from telerank.service.observe import JsonLines


@pytest.mark.parametrize("log_queries", [False, True])
def test_a_query_is_logged_only_if_that_is_asked_for(folder, caplog, log_queries):
    caplog.set_level(logging.INFO, "telerank")
    with serving(settings_of(folder, log_queries=log_queries)) as client:
        client.get("/v1/search", params={"query": "q1 secret"})
        client.post("/v1/search", json={"query": "q1 secret", "pipeline": "bm25 % 3"})
        client.get("/v1/explain", params={"query": "q1 secret", "docno": "a"})
        client.post("/v1/search", json={"query": "q1 secret", "k": "secret"})
        client.get("/v1/indexes/secret%0a%22", headers={"X-Request-ID": "my-id"})
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    requests = [line for line in lines if line["message"] == "request" and "/health" not in line["path"]]
    assert [line["status"] for line in requests] == [200, 200, 200, 422, 400]
    assert requests[0]["index"] == "idx"
    assert requests[1]["pipeline"] == "bm25(k1=1.2, b=0.75) % 3"
    assert requests[4]["id"] == "my-id"
    assert all(line["milliseconds"] >= 0 for line in requests)
    assert ("secret" in json.dumps(requests[:4])) is log_queries
    assert ("secret" in caplog.text.replace("/v1/indexes/secret", "")) is False


def test_requests_and_stages_are_counted(folder):
    with serving(settings_of(folder)) as client:
        for _ in range(3):
            client.get("/v1/search", params={"query": "q1"})
        client.get("/v1/search", params={"query": ""})
        client.get("/v1/indexes/none")
        client.get("/nowhere")
        shown = client.get("/metrics")
    assert shown.headers["content-type"].startswith("text/plain; version=")
    for line in (
        'telerank_requests_total{method="GET",route="/v1/search",status="200"} 3.0',
        'telerank_requests_total{method="GET",route="/v1/search",status="400"} 1.0',
        'telerank_requests_total{method="GET",route="/v1/indexes/{name}",status="404"} 1.0',
        'telerank_requests_total{method="GET",route="other",status="404"} 1.0',
        'telerank_stage_seconds_count{stage="bm25"} 3.0',
        "telerank_requests_waiting 0.0",
        'telerank_index_generation{index="idx"} 1.0',
    ):
        assert line in shown.text.splitlines(), shown.text


def test_what_fails_in_the_server_is_said_in_its_log_alone(client, caplog, monkeypatch):
    def fail(*_):
        raise IndexDamaged("/a/folder/of/the/server: damaged")

    monkeypatch.setattr(ServedIndex, "pipeline", fail)
    reply = client.get("/v1/search", params={"query": "q1"})
    assert reply.status_code == 424
    assert "/a/folder" not in reply.text
    assert "/a/folder" in caplog.text
