# requires: litellm
"""litellm: re-ranking by five of its providers, and OpenAI's embeddings."""

import litellm
from expected import ADDRESS, ENCODER, EXPECTED, KEY, QUERY, RERANKER, TEXTS, check_ranking, check_vectors

for provider, base, documents in (
    ("cohere", ADDRESS, True),
    ("infinity", ADDRESS, False),  # its documents are strings, but objects of all others
    ("infinity", f"{ADDRESS}/v1", False),
    ("jina_ai", ADDRESS, True),
    ("hosted_vllm", ADDRESS, True),
):
    reply = litellm.rerank(
        model=f"{provider}/{RERANKER}",
        query=QUERY,
        documents=TEXTS,
        top_n=4,
        return_documents=documents,
        api_base=base,
        api_key=KEY,
    )
    check_ranking([(found["index"], found["relevance_score"]) for found in reply.results], 4)
    if documents:
        assert reply.results[0]["document"]["text"] == TEXTS[reply.results[0]["index"]]
    print(provider, "passed")

reply = litellm.embedding(
    model=f"openai/{ENCODER}", input=TEXTS, api_base=f"{ADDRESS}/v1", api_key=KEY, encoding_format="float"
)
check_vectors([found["embedding"] for found in reply.data], EXPECTED["vectors"])
