"""Index texts of your own, search them with two models, and ask why a document has its score."""

from __future__ import annotations

import tempfile

import telerank as tr

TEXTS = {
    "cni": "Carte d'identité La carte nationale d'identité est valable dix ans pour les majeurs.",
    "passeport": "Le passeport d'un mineur est valable cinq ans ; ses empreintes sont prises dès 12 ans.",
    "permis": "Le permis de conduire se demande en ligne, avec une photo d'identité numérique.",
    "impots": "L'avis d'impôt se trouve dans l'espace personnel, et il se télécharge.",
}
QUESTION = "Combien de temps un passeport est-il valable pour les mineurs ?"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = tr.index(TEXTS, folder, analyzer="french")  # elision, stop words, stemming
        for model in (index.bm25(k1=0.9, b=0.4), index.lm_dirichlet(mu=100)):
            print(model)
            for rank, (docno, score) in enumerate((model % 3).search(QUESTION), 1):
                print(f"  {rank}. {docno} {score:.3f}")
        print(index.bm25().explain(QUESTION, "passeport"))


if __name__ == "__main__":
    main()
