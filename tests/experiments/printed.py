"""What the papers print, typed from them once more: by the experiment that has it, row by row.

A cell that cannot be read is left out. Percentages of measures are shares here, as in the experiments.
"""

from __future__ import annotations

PRINTED = {
    # MRR@10 of dev and test, R@1000, milliseconds
    "repbert/table1": """
        BM25(Anserini)               0.184 0.186 0.853 50
        doc2query                    0.215 0.218 0.893 90
        DeepCT                       0.243 0.239 0.913 55
        docTTTTTquery                0.277 0.272 0.947 64
        RepBERT                      0.304 0.294 0.943 80
        best non-ensemble, non-BERT  0.298 0.291 0.814
        BM25 + BERT Large            0.365 0.358 0.814 3400
    """,
    "repbert/table2": """
        @5     0.232 0.265 0.279 0.314 0.319
        @10    0.276 0.307 0.320 0.351 0.344
        @50    0.336 0.354 0.361 0.375 0.370
        @500   0.366 0.373 0.374 0.380 0.377
        @1000  0.371 0.376 0.376 0.380 0.376
    """,
    "repbert/table3": """
        BM25(Anserini)  0.187 0.203 0.213 0.227 0.245
        doc2query       0.217 0.222 0.236 0.247 0.263
        DeepCT          0.236 0.246 0.243 0.263 0.276
        docTTTTTquery   0.263 0.270 0.275 0.277 0.298
        RepBERT         0.296 0.302 0.306 0.315 0.304
    """,
    # two cells of DeepCT cannot be read; the last row is from the text: R@2000 without the cut
    "repbert/table4": """
        BM25(Anserini)           0.857 0.888 0.909 0.937 0.957
        doc2query                0.888 0.892 0.919 0.941 0.961
        DeepCT                               0.904 0.949 0.957
        docTTTTTquery            0.937 0.942 0.949 0.947 0.967
        RepBERT                  0.957 0.961 0.957 0.967 0.943
        RepBERT + docTTTTTquery  0.980
    """,
    # MARCO dev and eval, TREC-CAR
    "monobert/table1": """
        BM25 (Lucene, no tuning)  0.167 0.165 0.123
        BM25 (Anserini, tuned)                0.153
        Co-PACRR                              0.148
        KNRM                      0.218 0.198
        Conv-KNRM                 0.290 0.271
        IRNet                     0.278 0.281
        BERT base                 0.347       0.310
        BERT large                0.365 0.358 0.335
    """,
    # ANTIQUE, InsuranceQA, TREC-DL
    "bert-dmn/table1": """
        train queries           2406  12889 808731
        test queries            200   2000  200
        query length            10.55 8.42  6.53
        passages                33642 27413 8841823
        passage length          47.83 103.59 64.63
        passages per query      32.95 500   1000
        relevant per query      9.6   1.66  1.69
    """,
    "bert-dmn/table2": """
        QA-LSTM        0.488 0.619 0.185 0.231 0.193 0.519
        K-NRM          0.511 0.654 0.176 0.215 0.237 0.567
        DMN            0.491 0.613 0.092 0.118 0.136 0.274
        BERT-lite      0.593 0.774 0.259 0.314 0.327 0.739
        BERT-DMN-lite  0.675 0.851 0.374 0.449 0.418 0.859
        BERT           0.697 0.849 0.399 0.476 0.428 0.831
        BERT-DMN       0.700 0.866 0.406 0.484 0.408 0.889
    """,
    "bert-dmn/table3": """
        BERT                         1.71 1.69
        BERT-DMN-lite, first epoch   2.26 2.55
        BERT-DMN-lite, later epochs  5.32 5.67
    """,
    # Recall@k at 1, 3, … 15
    "piaf/table1": """
        BM25             0.71 0.8  0.84 0.88 0.88 0.89 0.91 0.91
        LMDirichlet      0.66 0.8  0.86 0.89 0.92 0.92 0.94 0.94
        LMJelinekMercer  0.67 0.79 0.81 0.85 0.86 0.87 0.89 0.9
        DFR              0.69 0.81 0.85 0.87 0.88 0.89 0.9  0.92
        DFI              0.71 0.82 0.85 0.88 0.91 0.92 0.93 0.94
    """,
    "piaf/table2": """
        BM25             0.71 0.75 0.76 0.77 0.77 0.77 0.77 0.77
        LMDirichlet      0.66 0.73 0.74 0.74 0.75 0.75 0.75 0.75
        LMJelinekMercer  0.67 0.72 0.73 0.73 0.74 0.74 0.74 0.74
        DFR              0.69 0.75 0.75 0.76 0.76 0.76 0.76 0.76
        DFI              0.71 0.76 0.76 0.77 0.77 0.77 0.77 0.77
    """,
    "piaf/table3": """
        Que       49.7
        Qui       16.7
        Combien    6.9
        Quand      6.4
        Où         4.1
        Comment    3.2
        Pourquoi   1.5
        quoi       4.0
        Others     7.5
    """,
    "piaf/table4": """
        frequency   206829 856903 254176 44382 11138 2262
        cumulative  0.150  0.773  0.958  0.990 0.998 1.000
    """,
    # Recall@10, Recall@1, MAP
    "piaf/table5": """
        BM25                      0.85 0.63 0.71
        MonoBERT classifier       0.85 0.31 0.48
        MonoBERT ranker           0.85 0.44 0.58
        BM25 + classifier         0.85 0.65 0.72
        BM25 + ranker             0.85 0.67 0.74
        fine-tuned                0.85 0.75 0.80
    """,
    # DILA: Recall@10, Recall@1, MAP
    "piaf/table6": """
        BM25                      0.89 0.71 0.77
        BM25 + fine-tuned         0.89 0.77 0.80
    """,
    # TREC 2019 DL: MRR of dev, NDCG@10; Robust04: NDCG@20 of titles, of descriptions
    "best/table1": """
        BERT (First P)   0.375 0.637 0.464 0.505
        BERT (Max P)     0.349 0.626 0.471 0.519
        BERT (Gold P)    0.363 0.664
        BeST             0.388 0.664 0.487 0.537
        IDST                   0.704
        RoBERTa (Max P)  0.320 0.630 0.439
        Longformer-QA    0.326 0.627 0.448
        QDS-Transformer  0.360 0.667 0.457
        TKL              0.329 0.644
    """,
    # P@1 of train and dev, MRR of dev
    "best/table2": """
        Random         0.109 0.085
        BERT (Max P)   0.465 0.391 0.349
        Iter[ation]-1  0.412 0.412 0.371
        Iter[ation]-2  0.488 0.449 0.368
        Iter[ation]-3  0.522 0.491 0.388
        Iter[ation]-4  0.525 0.458 0.364
    """,
    # sections 5.3 and 5.4: of the text, and the table of the split
    "piaf/ranking-set": """
        questions, documents, pairs      125440 28144 1375690
        tokens of questions, documents   1 65 25 912
        unique questions of each part    100352 12544 12544
        pairs of each part               1098746 137344 137513
    """,
    # the text: 1.4 above IRNet from 100,000 pairs, and the table's value from 12.8 million
    "monobert/figure1": """
        BERT large  0.292 0.365
    """,
}


def read_lines(name: str) -> list[list[float]]:
    """The numbers of each line that a paper prints in the table that an experiment has, each in rising order."""
    lines = [line.split() for line in PRINTED.get(name, "").strip().splitlines()]
    return sorted(sorted(float(word) for word in line if is_number(word)) for line in lines)


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
