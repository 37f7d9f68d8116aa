"""Other engines, measured beside telerank: each a child process on one core that reads analysed text.

::

    lines = analysed documents, one per line, terms with a blank between
    with open_peer("lucene", core=1) as lucene:
        built = lucene.build(documents_file, folder)
        lucene.open(folder)
        found = lucene.search(queries, k=10, model="bm25(k1=0.9, b=0.4)")

``python -m peers --documents 100000`` (in ``benchmarks``) is a short run of them all.
"""

from peers.engine import PEERS, Built, Found, Peer, open_peer

__all__ = ["PEERS", "Built", "Found", "Peer", "open_peer"]
