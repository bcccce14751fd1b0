"""The zoo, first house: models of transformers, built from tiny configurations and never from a hub."""

import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers as hf

IDS = torch.arange(32).reshape(2, 16) * 7 % 100
SHORT = IDS[:, :9].contiguous()
TEXT = {"input_ids": IDS, "labels": IDS}
PADDED = {**TEXT, "attention_mask": torch.tensor([[1] * 16, [1] * 11 + [0] * 5])}
PICTURES = torch.linspace(-2, 2, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32).sin()
IMAGES = {"pixel_values": PICTURES, "labels": torch.tensor([0, 1])}
SOUND = torch.linspace(-1, 1, 2 * 8 * 32).reshape(2, 8, 32).cos()

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WORDS = {**SMALL, "vocab_size": 100}
GROUPED = {**WORDS, "num_key_value_heads": 2}
CALM = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
HEADS = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 100,
}


def built(model: str, attention: str = "sdpa", **config: Any) -> Callable[[], torch.nn.Module]:
    """A model's maker: its class, by the name before `For`, has a configuration of that name."""
    name = next(model[: model.index(end)] for end in ("LMHead", "For") if end in model)

    def make() -> torch.nn.Module:
        found = getattr(hf, f"{name}Config")(**config)
        found._attn_implementation = attention
        return getattr(hf, model)(found)

    return make


def clip() -> torch.nn.Module:
    text = {**WORDS, "max_position_embeddings": 16, "eos_token_id": 99, "projection_dim": 16}
    vision = {**SMALL, "image_size": 32, "patch_size": 8, "projection_dim": 16}
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))


GPT2 = partial(built, "GPT2LMHeadModel", n_layer=2, n_embd=32, n_head=4, vocab_size=100, n_positions=32)
LLAMA = partial(built, "LlamaForCausalLM", **GROUPED)
BERT = partial(built, "BertForMaskedLM", **WORDS)
VIT = partial(built, "ViTForImageClassification", **SMALL, image_size=32, patch_size=8)
MIXTRAL = partial(built, "MixtralForCausalLM", **GROUPED, num_local_experts=4, output_router_logits=True)
T5 = built(
    "T5ForConditionalGeneration",
    "eager",
    decoder_start_token_id=0,
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_layers=2,
    num_heads=4,
    vocab_size=100,
)
WHISPER = built(
    "WhisperForConditionalGeneration",
    **HEADS,
    num_mel_bins=8,
    max_source_positions=16,
    max_target_positions=16,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    suppress_tokens=[],
    begin_suppress_tokens=[],
)
DEBERTA = built(
    "DebertaV2ForMaskedLM",
    "eager",
    **WORDS,
    relative_attention=True,
    pos_att_type=["p2c", "c2p"],
    max_relative_positions=16,
)
SWIN = built(
    "SwinForImageClassification",
    "eager",
    image_size=32,
    patch_size=4,
    embed_dim=8,
    depths=[2, 2],
    num_heads=[2, 4],
    window_size=4,
    drop_path_rate=0.0,
)
EFFICIENTNET = built(
    "EfficientNetForImageClassification",
    "eager",
    image_size=32,
    width_coefficient=0.2,
    depth_coefficient=0.2,
    hidden_dim=256,
    drop_connect_rate=0.0,
)

HOUSE: dict[str, tuple[Callable[[], torch.nn.Module], dict[str, Any]]] = {
    "gpt2-eager": (GPT2("eager"), TEXT),
    "gpt2-sdpa": (GPT2("sdpa", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), TEXT),
    "llama-eager": (LLAMA("eager"), TEXT),
    "llama-sdpa": (LLAMA("sdpa"), TEXT),
    "bert-eager": (BERT("eager"), PADDED),
    "bert-sdpa": (BERT("sdpa", **CALM), PADDED),
    "t5": (T5, {"input_ids": IDS, "labels": SHORT}),
    "vit-eager": (VIT("eager"), IMAGES),
    "vit-sdpa": (VIT("sdpa"), IMAGES),
    "resnet": (
        built("ResNetForImageClassification", "eager", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
        IMAGES,
    ),
    "convnext": (
        built("ConvNextForImageClassification", "eager", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
        IMAGES,
    ),
    "mixtral-eager": (MIXTRAL("eager"), TEXT),
    "mixtral-sdpa": (MIXTRAL("sdpa"), TEXT),
    "mamba": (
        built("MambaForCausalLM", "eager", hidden_size=16, num_hidden_layers=2, vocab_size=100, state_size=4),
        TEXT,
    ),
    "qwen2": (built("Qwen2ForCausalLM", **GROUPED), TEXT),
    "qwen3": (built("Qwen3ForCausalLM", **GROUPED, head_dim=8), TEXT),
    "gemma": (built("GemmaForCausalLM", **GROUPED, head_dim=8), TEXT),
    "gemma2": (built("Gemma2ForCausalLM", "eager", **GROUPED, head_dim=8), TEXT),
    "falcon": (
        built(
            "FalconForCausalLM",
            "eager",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            vocab_size=100,
            alibi=True,
        ),
        TEXT,
    ),
    "distilbert": (
        built("DistilBertForMaskedLM", dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=100, dropout=0.0),
        TEXT,
    ),
    "roberta": (built("RobertaForMaskedLM", **WORDS, **CALM), TEXT),
    "deberta": (DEBERTA, TEXT),
    "bart": (
        built("BartForConditionalGeneration", "eager", **HEADS, max_position_embeddings=64),
        TEXT,
    ),
    "whisper": (WHISPER, {"input_features": SOUND, "labels": SHORT}),
    "clip": (clip, {"input_ids": IDS, "pixel_values": PICTURES, "return_loss": True}),
    "swin": (SWIN, IMAGES),
    "mobilenet": (
        built(
            "MobileNetV2ForImageClassification",
            "eager",
            depth_multiplier=0.1,
            image_size=32,
            classifier_dropout_prob=0.0,
        ),
        IMAGES,
    ),
    "efficientnet": (EFFICIENTNET, IMAGES),
}

# ── and more of them ────────────────────────────────────────────────────────────────────────────────────────────────

MIXED = {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1, "n_routed_experts": 4}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
STAGES = {"depths": [1, 1], "hidden_sizes": [8, 16], "num_attention_heads": [1, 2], "patch_sizes": [3, 3]}
SPEECH = {
    **SMALL,
    "num_hidden_layers": 1,
    "vocab_size": 20,
    "conv_dim": [8, 8],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "layerdrop": 0.0,
    "mask_time_prob": 0.0,
}
WAVES = torch.linspace(-1, 1, 2 * 800).reshape(2, 800).sin()
SPOKEN = torch.tensor([[1, 2, 3], [4, 5, -100]])
LONGER = {"attention_window": [4, 4], "max_position_embeddings": 64, "pad_token_id": 0}

MORE: dict[str, tuple[Callable[[], torch.nn.Module], dict[str, Any]]] = {
    "mistral": (built("MistralForCausalLM", **GROUPED, sliding_window=8), PADDED),
    "opt": (
        built(
            "OPTForCausalLM",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=64,
            vocab_size=100,
            word_embed_proj_dim=32,
        ),
        PADDED,
    ),
    "bloom": (built("BloomForCausalLM", "eager", hidden_size=32, n_layer=2, n_head=4, vocab_size=100), PADDED),
    "gpt-neox": (built("GPTNeoXForCausalLM", **WORDS), PADDED),
    "albert": (built("AlbertForMaskedLM", **WORDS, embedding_size=16), PADDED),
    "electra": (built("ElectraForMaskedLM", **WORDS, embedding_size=16), PADDED),
    "deepseek": (built("DeepseekV3ForCausalLM", **WORDS, **MIXED, **LATENT, n_group=2, topk_group=1), TEXT),
    "longformer": (built("LongformerForMaskedLM", "eager", **WORDS, **LONGER), {"input_ids": IDS + 1, "labels": IDS}),
    "segformer": (
        built(
            "SegformerForSemanticSegmentation",
            "eager",
            num_encoder_blocks=2,
            sr_ratios=[2, 1],
            strides=[2, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=16,
            num_labels=3,
            **STAGES,
        ),
        {"pixel_values": PICTURES, "labels": (PICTURES[:, 0] > 0).long()},
    ),
    "swin2": (
        built(
            "Swinv2ForImageClassification",
            "eager",
            image_size=32,
            patch_size=4,
            embed_dim=8,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
        ),
        IMAGES,
    ),
    "wav2vec2": (built("Wav2Vec2ForCTC", **SPEECH), {"input_values": WAVES, "labels": SPOKEN}),
    "beit": (
        built("BeitForImageClassification", "eager", **SMALL, image_size=32, patch_size=8),
        IMAGES,
    ),
}
