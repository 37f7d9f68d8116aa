# requires: langchain-community langchain-cohere langchain-openai pytest
"""LangChain: the compressors of Cohere and Jina, and OpenAI's embeddings."""

import pytest
from expected import ADDRESS, ENCODER, EXPECTED, KEY, QUERY, RERANKER, TEXTS, check_ranking, check_vectors
from langchain_cohere import CohereRerank
from langchain_community.document_compressors import JinaRerank, jina_rerank
from langchain_core.documents import Document
from langchain_openai import OpenAIEmbeddings

documents = [Document(page_content=text, metadata={"number": n}) for n, text in enumerate(TEXTS)]


def found(compressor):
    ranked = compressor.compress_documents(documents, QUERY)
    return [(document.metadata["number"], document.metadata["relevance_score"]) for document in ranked]


cohere = CohereRerank(base_url=ADDRESS, cohere_api_key=KEY, model=RERANKER, top_n=4)
check_ranking(found(cohere), 4)

jina_rerank.JINA_API_URL = f"{ADDRESS}/v1/rerank"  # it has no argument for the address
jina = JinaRerank(jina_api_key=KEY, model=RERANKER, top_n=5)
check_ranking(found(jina), 5)
with pytest.raises(RuntimeError, match="no re-ranker 'other'"):  # resp["detail"]
    JinaRerank(jina_api_key=KEY, model="other").rerank(TEXTS, QUERY)

openai = OpenAIEmbeddings(
    base_url=f"{ADDRESS}/v1", api_key=KEY, model=ENCODER, check_embedding_ctx_length=False
)
check_vectors(openai.embed_documents(TEXTS), EXPECTED["vectors"])
