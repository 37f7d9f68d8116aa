# requires: llama-index-postprocessor-tei-rerank llama-index-embeddings-text-embeddings-inference
"""LlamaIndex: its re-ranker and its embeddings of text-embeddings-inference."""

from expected import ADDRESS, BEST, ENCODER, EXPECTED, KEY, QUERY, TEXTS, check_ranking, check_vectors
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

for top in (3, len(TEXTS)):
    for token in (KEY, f"Bearer {KEY}"):  # it sends what it is given
        nodes = [
            NodeWithScore(node=TextNode(text=text, id_=str(n)), score=0.0) for n, text in enumerate(TEXTS)
        ]
        reranker = TextEmbeddingInference(base_url=ADDRESS, top_n=top, auth_token=token)
        found = reranker.postprocess_nodes(nodes, query_bundle=QueryBundle(QUERY))
        check_ranking([(int(node.node.node_id), node.score) for node in found], top)

embeddings = TextEmbeddingsInference(
    model_name=ENCODER,
    base_url=ADDRESS,
    auth_token=KEY,
    text_instruction="",
    query_instruction="",
)
check_vectors(embeddings.get_text_embedding_batch(TEXTS), EXPECTED["unit_vectors"])
check_vectors([embeddings.get_text_embedding(TEXTS[BEST[0]])], [EXPECTED["unit_vectors"][BEST[0]]])
