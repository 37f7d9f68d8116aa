"""The examples of requests and replies, by the names of their records: OpenAPI and its page show them."""

from __future__ import annotations

from pydantic import JsonValue

EXAMPLES: dict[str, JsonValue] = {
    "AnswerRequest": {"query": "Qui a inventé l'imprimerie ?", "k": 1},
    "AnswerReply": {
        "query": "Qui a inventé l'imprimerie ?",
        "index": "piaf",
        "generation": 1,
        "pipeline": "bm25 % 20 >> read(my-reader)",
        "milliseconds": 90.1,
        "stages": [
            {"stage": "bm25 % 20", "milliseconds": 1.3},
            {"stage": "read(my-reader) % 1", "milliseconds": 88.0},
        ],
        "no_answer": -4.2,
        "answers": [
            {
                "text": "Gutenberg",
                "confidence": 0.93,
                "score": 11.5,
                "docno": "1507",
                "title": "Imprimerie",
                "start": 11,
                "end": 20,
                "before": "Vers 1450, ",
                "after": " invente l'imprimerie à caractères mobiles.",
                "sources": [{"docno": "1507", "start": 11}],
            }
        ],
    },
    "DocumentsReply": {
        "index": "piaf",
        "generation": 1,
        "documents": [{"docno": "1507", "text": "Vers 1450 …"}],
    },
    "IndexReply": {
        "name": "piaf",
        "generation": 1,
        "documents": 3835,
        "analyzer": "french",
        "default": "best",
        "default_answer": None,
        "pipelines": {"best": "bm25(k1=1.2, b=0.5)"},
        "answering": {},
        "unavailable": {},
        "vectors": [],
    },
    "IndexesReply": {
        "indexes": [
            {
                "name": "piaf",
                "generation": 1,
                "documents": 3835,
                "analyzer": "french",
                "default": "best",
                "default_answer": None,
                "pipelines": {"best": "bm25(k1=1.2, b=0.5)"},
                "answering": {},
                "unavailable": {},
                "vectors": [],
            }
        ],
        "rerankers": ["my-reranker"],
        "encoders": [],
        "readers": [],
    },
    "EmbeddingsRequest": {
        "model": "minilm",
        "input": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
    },
    "EmbedRequest": {
        "inputs": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
        "prompt_name": "query",
    },
    "SparseRequest": {
        "inputs": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."]
    },
    "EmbeddingsReply": {
        "object": "list",
        "model": "minilm",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.6, -0.8]}],
        "usage": {"prompt_tokens": 12, "total_tokens": 12},
    },
    "JudgmentRequest": {
        "query": "Qui peut demander la prime d'activité ?",
        "docno": "F2882",
        "grade": 1,
        "index": "dila",
    },
    "JudgmentReply": {
        "qid": "q7d3f6a1b2c4e5f60",
        "query": "Qui peut demander la prime d'activité ?",
        "docno": "F2882",
        "grade": 1,
        "time": "2026-11-22T09:30:00Z",
        "index": "dila",
    },
    "ModelsReply": {"object": "list", "data": [{"id": "monobert", "kind": "re-ranker"}]},
    "ModelInfo": {
        "model_id": "monobert",
        "model_sha": None,
        "model_dtype": "float32",
        "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
        "max_concurrent_requests": 512,
        "max_input_length": 512,
        "max_batch_tokens": 2048,
        "max_client_batch_size": 1000,
        "auto_truncate": True,
        "version": "0.1.0",
    },
    "TokenizeRequest": {"inputs": "What is a passport?"},
    "Health": {"status": "ready"},
    "DocumentsToRerank": {
        "query": "Who invented printing?",
        "documents": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
        "top_n": 1,
    },
    "TextsToRerank": {
        "query": "Who invented printing?",
        "texts": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
    },
    "PairsRequest": {
        "text_1": "Who invented printing?",
        "text_2": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
    },
    "RerankReply": {
        "id": "0b1f8a52c9e04c2f8d8e7f3a4a5b6c7d",
        "object": "rerank",
        "model": "monobert",
        "results": [{"index": 0, "relevance_score": 0.98}],
        "usage": {"prompt_tokens": 41, "total_tokens": 41},
        "meta": {"api_version": {"version": "2"}, "tokens": {"input_tokens": 41}},
    },
    "ScoresReply": {
        "id": "score-7d1f",
        "object": "list",
        "created": 1795305600,
        "model": "my-reranker",
        "data": [{"index": 0, "object": "score", "score": 0.98}],
        "usage": {"prompt_tokens": 24, "total_tokens": 24},
    },
    "SearchRequest": {"query": "Qui a inventé l'imprimerie ?", "k": 5, "highlight": True},
    "SearchReply": {
        "query": "Qui a inventé l'imprimerie ?",
        "index": "piaf",
        "generation": 1,
        "pipeline": "bm25",
        "page": 1,
        "k": 5,
        "more": True,
        "milliseconds": 1.9,
        "stages": [{"stage": "bm25 % 6", "milliseconds": 1.2}],
        "hits": [
            {
                "rank": 1,
                "docno": "1507",
                "score": 14.2,
                "title": "Imprimerie",
                "url": "",
                "text": "Vers 1450, Gutenberg invente l'imprimerie à caractères mobiles.",
            }
        ],
    },
    "ExplainRequest": {"query": "imprimerie", "docno": "1507"},
    "ExplainReply": {
        "query": "imprimerie",
        "index": "piaf",
        "generation": 1,
        "pipeline": "bm25",
        "docno": "1507",
        "explanation": {
            "value": 7.1,
            "what": "bm25 of a document of 90 terms",
            "parts": [{"value": 7.1, "what": "'imprim': tf 3, df 12, cf 40", "parts": []}],
        },
    },
}
