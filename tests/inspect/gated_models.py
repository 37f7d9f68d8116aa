"""A tiny BERT-DMN, and passages of several sentences."""

from __future__ import annotations

from small_models import save_vectors, small_encoder

SENTENCES = [" ".join(f"d{(3 * n + i) % 40}" for i in range(2 + n % 3)) + "." for n in range(12)]
TEXTS = [(f"q{n} q{n + 1}", " ".join(SENTENCES[n % 7 : n % 7 + 1 + n % 4])) for n in range(16)]
QIDS = [f"q{n // 4}" for n in range(16)]


def tiny_dmn(folder, kind="bert-dmn", *, max_length=48, **settings):
    """Weights as far from zero as a trained model's, so that gates differ."""
    import torch

    from telerank.models.rerankers.kinds import Shape
    from telerank.models.rerankers.reranker import fresh_reranker

    if kind == "dmn":
        words = [f"{letter}{number}" for letter in "qd" for number in range(40)]
        save_vectors(
            folder, words, torch.randn(len(words) + 2, 8, generator=torch.Generator().manual_seed(0))
        )
    else:
        small_encoder(folder)
    head = {"hidden": 16, "episodes": 3, **settings}
    made = fresh_reranker(folder, Shape(kind, max_query=8, max_length=max_length, head=head))
    drawn = made.model if kind == "dmn" else made.model.head
    generator = torch.Generator().manual_seed(1)
    for name, one in drawn.named_parameters():
        if not name.startswith("words."):
            torch.nn.init.normal_(one, std=0.4, generator=generator)
    return made


def gates_alone(reranker, pair):
    """The gates of a pair that is scored alone: episodes of sentences."""
    import torch

    from telerank.models.pairs.pair import batch_of

    model, batch = reranker.model, batch_of([pair], reranker.texts.pad_id)
    with torch.no_grad():
        return reranker.kind.gates(model, batch)[1][0].tolist()


def pairs_of(reranker, texts=TEXTS):
    from telerank.text.sentences import split_sentences

    queries, passages = zip(*texts, strict=True)
    return pairs_without_sentences(reranker, queries, passages, [*map(split_sentences, passages)])


def pairs_without_sentences(reranker, queries, passages, sentences=None):
    texts = reranker.texts
    both = zip(texts.queries(queries), texts.passages(passages, sentences), strict=True)
    return [texts.pair(query, passage) for query, passage in both]
