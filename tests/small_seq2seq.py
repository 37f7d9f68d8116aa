"""Models that write texts, so small that a test can compute them: random weights, 32 wide."""

from __future__ import annotations

from pathlib import Path

from small_models import small_tokenizer


def small_t5(folder: Path, seed: int = 0) -> Path:
    """A T5 as a folder of the hub."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    from telerank.models.loading import quiet

    tokenizer = small_tokenizer("bert")
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_factor=2.0,
    )
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)
        T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def small_bart(folder: Path, seed: int = 0) -> Path:
    """A BART, whose first piece is forced."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    from telerank.models.loading import quiet

    tokenizer = small_tokenizer("roberta")
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        max_position_embeddings=64,
        decoder_start_token_id=2,
        eos_token_id=2,
        bos_token_id=0,
        forced_bos_token_id=0,
        forced_eos_token_id=None,
        pad_token_id=1,
        init_std=0.2,
        **sizes,
    )
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)
        BartForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
