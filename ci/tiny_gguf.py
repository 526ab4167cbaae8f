"""A tiny Llama with random weights and an ASCII vocabulary as a GGUF file: ``python tiny_gguf.py OUT``.

24 million parameters; about 600 tokens a second on two cores. One letter is one token, so that every chunk of a stream
holds exactly one. The output rows of special tokens are zero: greedy decoding never stops early.
"""

import sys

import gguf
import numpy as np

LAYERS, HIDDEN, HEADS, KV_HEADS, INNER, CONTEXT = 8, 512, 8, 4, 1408, 4096
SPECIAL = ["<unk>", "<s>", "</s>"]
TOKENS = [*SPECIAL, *(chr(code) for code in range(33, 127)), "\u0120", "\u010a", "ab"]
"""Letters, space and line end; and what the only merge gives, because llama.cpp wants one."""

dice = np.random.default_rng(0)
out = gguf.GGUFWriter(sys.argv[1], "llama")
out.add_name("tiny")
out.add_context_length(CONTEXT)
out.add_embedding_length(HIDDEN)
out.add_block_count(LAYERS)
out.add_feed_forward_length(INNER)
out.add_head_count(HEADS)
out.add_head_count_kv(KV_HEADS)
out.add_layer_norm_rms_eps(1e-6)
out.add_rope_dimension_count(HIDDEN // HEADS)
out.add_vocab_size(len(TOKENS))
out.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
out.add_tokenizer_model("gpt2")
out.add_tokenizer_pre("gpt-2")
out.add_token_list(TOKENS)
out.add_token_types(
    [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in TOKENS]
)
out.add_token_merges(["a b"])
out.add_bos_token_id(1)
out.add_eos_token_id(2)
out.add_unk_token_id(0)
out.add_add_bos_token(False)


def weights(name: str, *shape: int, special: int = 0) -> None:
    values = (dice.standard_normal(shape) * 0.02).astype(np.float16)
    values[:special] = 0
    out.add_tensor(f"{name}.weight", values)


def ones(name: str) -> None:
    out.add_tensor(f"{name}.weight", np.ones(HIDDEN, np.float32))


weights("token_embd", len(TOKENS), HIDDEN)
ones("output_norm")
weights("output", len(TOKENS), HIDDEN, special=len(SPECIAL))
shared = KV_HEADS * HIDDEN // HEADS
for layer in range(LAYERS):
    for name, shape in (
        ("attn_q", (HIDDEN, HIDDEN)), ("attn_k", (shared, HIDDEN)), ("attn_v", (shared, HIDDEN)),
        ("attn_output", (HIDDEN, HIDDEN)), ("ffn_gate", (INNER, HIDDEN)), ("ffn_up", (INNER, HIDDEN)),
        ("ffn_down", (HIDDEN, INNER)),
    ):  # fmt: skip
        weights(f"blk.{layer}.{name}", *shape)
    ones(f"blk.{layer}.attn_norm")
    ones(f"blk.{layer}.ffn_norm")
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
