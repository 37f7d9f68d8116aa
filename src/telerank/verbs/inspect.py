"""Why re-rankers score as they do: outputs of tokens, embeddings of pairs, gates over sentences."""

from __future__ import annotations

from telerank.inspect.diffusion import compare_diffusion, diffusion_table
from telerank.inspect.drawn_pairs import draw_by_class, draw_pairs, open_candidates, tokenize_drawn
from telerank.inspect.embeddings import MapSettings, compare_embeddings, embeddings_table
from telerank.inspect.faithfulness import faithfulness_table, measure_faithfulness
from telerank.inspect.gates import find_gates, read_gates
from telerank.inspect.reranker_plots import diffusion_plot, embeddings_plot, gates_plot
from telerank.inspect.token_outputs import move
from telerank.models.rerankers.reranker import load_reranker

__all__ = [
    "MapSettings",
    "compare_diffusion",
    "compare_embeddings",
    "diffusion_plot",
    "diffusion_table",
    "draw_by_class",
    "draw_pairs",
    "embeddings_plot",
    "embeddings_table",
    "faithfulness_table",
    "find_gates",
    "gates_plot",
    "load_reranker",
    "measure_faithfulness",
    "move",
    "open_candidates",
    "read_gates",
    "tokenize_drawn",
]
