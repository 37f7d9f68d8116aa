# requires: rerankers[api]
"""rerankers: as Cohere, as Jina, and as text-embeddings-inference."""

from expected import ADDRESS, KEY, QUERY, RERANKER, TEXTS, check_ranking
from rerankers.models.api_rankers import APIRanker

for provider, route in (
    ("cohere", "/v1/rerank"),
    ("jina", "/v1/rerank"),
    ("text-embeddings-inference", "/rerank"),
):
    ranker = APIRanker(RERANKER, KEY, provider, url=f"{ADDRESS}{route}")
    ranked = ranker.rank(query=QUERY, docs=TEXTS, doc_ids=list(range(len(TEXTS))))
    check_ranking([(found.doc_id, found.score) for found in ranked.results])
    print(provider, "passed")
