"""Index texts of one's own, search them under two models, and ask why a document ranks where it does."""

from __future__ import annotations

import tempfile

from telerank import Doc, Query
from telerank.sparse.writer import build_index

DOCS = [
    Doc(
        "cni", "La carte nationale d'identité est valable dix ans pour les majeurs.", title="Carte d'identité"
    ),
    Doc(
        "passeport", "Le passeport d'un mineur est valable cinq ans ; ses empreintes sont prises dès 12 ans."
    ),
    Doc("permis", "Le permis de conduire se demande en ligne, avec une photo d'identité numérique."),
    Doc("impots", "L'avis d'impôt se trouve dans l'espace personnel, et il se télécharge."),
]
QUESTION = Query("q1", "Combien de temps un passeport est-il valable pour les mineurs ?")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(DOCS, folder, analyzer="french")  # elision, stop words, stemming
        for retriever in (index.bm25(k1=0.9, b=0.4), index.lm_dirichlet(mu=100)):
            ranking = (retriever % 3).search(QUESTION)
            print(repr(retriever.similarity))
            for rank, (docno, score) in enumerate(ranking, 1):
                print(f"  {rank}. {docno} {score:.3f}")
        print(index.bm25().explain(QUESTION, "passeport"))


if __name__ == "__main__":
    main()
