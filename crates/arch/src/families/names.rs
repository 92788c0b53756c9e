//! Tensor names by group, for both kinds of file; a family lists the groups it has.

use crate::weights::{Name, Part, Role, maybe, name, part};

/// GGUF names.
pub mod gguf {
    use super::*;

    pub const MODEL: &[Name] = &[
        name(Role::TokenEmbedding, "token_embd.weight"),
        name(Role::OutputNorm, "output_norm.weight"),
        maybe(Role::Output, "output.weight"),
    ];
    pub const ROPE_FACTORS: &[Name] = &[maybe(Role::RopeFactors, "rope_freqs.weight")];
    pub const PRE_NORMS: &[Name] =
        &[name(Role::AttnNorm, "blk.{}.attn_norm.weight"), name(Role::FfnNorm, "blk.{}.ffn_norm.weight")];
    pub const POST_NORMS: &[Name] = &[
        name(Role::AttnPostNorm, "blk.{}.post_attention_norm.weight"),
        name(Role::FfnPostNorm, "blk.{}.post_ffw_norm.weight"),
    ];
    pub const ATTENTION: &[Name] = &[
        name(Role::Q, "blk.{}.attn_q.weight"),
        name(Role::K, "blk.{}.attn_k.weight"),
        name(Role::V, "blk.{}.attn_v.weight"),
        name(Role::AttnOut, "blk.{}.attn_output.weight"),
    ];
    pub const QKV_BIASES: &[Name] = &[
        name(Role::QBias, "blk.{}.attn_q.bias"),
        name(Role::KBias, "blk.{}.attn_k.bias"),
        name(Role::VBias, "blk.{}.attn_v.bias"),
    ];
    pub const MAYBE_ATTENTION_BIASES: &[Name] = &[
        maybe(Role::QBias, "blk.{}.attn_q.bias"),
        maybe(Role::KBias, "blk.{}.attn_k.bias"),
        maybe(Role::VBias, "blk.{}.attn_v.bias"),
        maybe(Role::AttnOutBias, "blk.{}.attn_output.bias"),
    ];
    pub const QK_NORMS: &[Name] =
        &[name(Role::QNorm, "blk.{}.attn_q_norm.weight"), name(Role::KNorm, "blk.{}.attn_k_norm.weight")];
    pub const GATED_MLP: &[Name] = &[
        name(Role::Gate, "blk.{}.ffn_gate.weight"),
        name(Role::Up, "blk.{}.ffn_up.weight"),
        name(Role::Down, "blk.{}.ffn_down.weight"),
    ];
    pub const STACKED_ATTENTION: &[Name] = &[
        part(Role::Q, "blk.{}.attn_qkv.weight", Part::StackedQ),
        part(Role::K, "blk.{}.attn_qkv.weight", Part::StackedK),
        part(Role::V, "blk.{}.attn_qkv.weight", Part::StackedV),
        name(Role::AttnOut, "blk.{}.attn_output.weight"),
    ];
    pub const STACKED_MLP: &[Name] = &[
        part(Role::Gate, "blk.{}.ffn_up.weight", Part::StackedGate),
        part(Role::Up, "blk.{}.ffn_up.weight", Part::StackedUp),
        name(Role::Down, "blk.{}.ffn_down.weight"),
    ];
    pub const NORM_BIASES: &[Name] = &[
        name(Role::OutputNormBias, "output_norm.bias"),
        name(Role::AttnNormBias, "blk.{}.attn_norm.bias"),
        name(Role::FfnNormBias, "blk.{}.ffn_norm.bias"),
    ];
    pub const PLAIN_MLP: &[Name] = &[
        name(Role::Up, "blk.{}.ffn_up.weight"),
        maybe(Role::UpBias, "blk.{}.ffn_up.bias"),
        name(Role::Down, "blk.{}.ffn_down.weight"),
        maybe(Role::DownBias, "blk.{}.ffn_down.bias"),
    ];

    pub const EMBEDDINGS: &[Name] = &[
        name(Role::TokenEmbedding, "token_embd.weight"),
        maybe(Role::Segments, "token_types.weight"),
        name(Role::EmbeddingNorm, "token_embd_norm.weight"),
    ];
    pub const POSITIONS: &[Name] = &[name(Role::Positions, "position_embd.weight")];
    pub const EMBEDDING_NORM_BIAS: &[Name] = &[name(Role::EmbeddingNormBias, "token_embd_norm.bias")];
    pub const OUTPUT_NORM: &[Name] = &[name(Role::OutputNorm, "output_norm.weight")];
    /// The norm before the attention may be that of the embeddings.
    pub const MAYBE_ATTENTION_NORM: &[Name] =
        &[maybe(Role::AttnNorm, "blk.{}.attn_norm.weight"), name(Role::FfnNorm, "blk.{}.ffn_norm.weight")];
    pub const SUM_NORMS: &[Name] = &[
        name(Role::AttnSumNorm, "blk.{}.attn_output_norm.weight"),
        name(Role::AttnSumNormBias, "blk.{}.attn_output_norm.bias"),
        name(Role::FfnSumNorm, "blk.{}.layer_output_norm.weight"),
        name(Role::FfnSumNormBias, "blk.{}.layer_output_norm.bias"),
    ];
    pub const HEAD: &[Name] = &[
        maybe(Role::Head, "cls.weight"),
        maybe(Role::HeadBias, "cls.bias"),
        maybe(Role::HeadNorm, "cls.norm.weight"),
        maybe(Role::Classes, "cls.output.weight"),
        maybe(Role::ClassesBias, "cls.output.bias"),
    ];
}

/// HF and MLX names.
pub mod hf {
    use super::*;

    pub const MODEL: &[Name] = &[
        name(Role::TokenEmbedding, "model.embed_tokens.weight"),
        name(Role::OutputNorm, "model.norm.weight"),
        maybe(Role::Output, "lm_head.weight"),
    ];
    pub const PRE_NORMS: &[Name] = &[
        name(Role::AttnNorm, "model.layers.{}.input_layernorm.weight"),
        name(Role::FfnNorm, "model.layers.{}.post_attention_layernorm.weight"),
    ];
    /// Norms before and after both sublayers: here `post_attention_layernorm` means what it says.
    pub const FOUR_NORMS: &[Name] = &[
        name(Role::AttnNorm, "model.layers.{}.input_layernorm.weight"),
        name(Role::AttnPostNorm, "model.layers.{}.post_attention_layernorm.weight"),
        name(Role::FfnNorm, "model.layers.{}.pre_feedforward_layernorm.weight"),
        name(Role::FfnPostNorm, "model.layers.{}.post_feedforward_layernorm.weight"),
    ];
    pub const ATTENTION: &[Name] = &[
        name(Role::Q, "model.layers.{}.self_attn.q_proj.weight"),
        name(Role::K, "model.layers.{}.self_attn.k_proj.weight"),
        name(Role::V, "model.layers.{}.self_attn.v_proj.weight"),
        name(Role::AttnOut, "model.layers.{}.self_attn.o_proj.weight"),
    ];
    pub const QKV_BIASES: &[Name] = &[
        name(Role::QBias, "model.layers.{}.self_attn.q_proj.bias"),
        name(Role::KBias, "model.layers.{}.self_attn.k_proj.bias"),
        name(Role::VBias, "model.layers.{}.self_attn.v_proj.bias"),
    ];
    pub const MAYBE_ATTENTION_BIASES: &[Name] = &[
        maybe(Role::QBias, "model.layers.{}.self_attn.q_proj.bias"),
        maybe(Role::KBias, "model.layers.{}.self_attn.k_proj.bias"),
        maybe(Role::VBias, "model.layers.{}.self_attn.v_proj.bias"),
        maybe(Role::AttnOutBias, "model.layers.{}.self_attn.o_proj.bias"),
    ];
    pub const QK_NORMS: &[Name] = &[
        name(Role::QNorm, "model.layers.{}.self_attn.q_norm.weight"),
        name(Role::KNorm, "model.layers.{}.self_attn.k_norm.weight"),
    ];
    pub const GATED_MLP: &[Name] = &[
        name(Role::Gate, "model.layers.{}.mlp.gate_proj.weight"),
        name(Role::Up, "model.layers.{}.mlp.up_proj.weight"),
        name(Role::Down, "model.layers.{}.mlp.down_proj.weight"),
    ];
    pub const STACKED_ATTENTION: &[Name] = &[
        part(Role::Q, "model.layers.{}.self_attn.qkv_proj.weight", Part::StackedQ),
        part(Role::K, "model.layers.{}.self_attn.qkv_proj.weight", Part::StackedK),
        part(Role::V, "model.layers.{}.self_attn.qkv_proj.weight", Part::StackedV),
        name(Role::AttnOut, "model.layers.{}.self_attn.o_proj.weight"),
    ];
    pub const STACKED_MLP: &[Name] = &[
        part(Role::Gate, "model.layers.{}.mlp.gate_up_proj.weight", Part::StackedGate),
        part(Role::Up, "model.layers.{}.mlp.gate_up_proj.weight", Part::StackedUp),
        name(Role::Down, "model.layers.{}.mlp.down_proj.weight"),
    ];
    pub const POST_NORMS: &[Name] = &[
        name(Role::AttnPostNorm, "model.layers.{}.post_attention_layernorm.weight"),
        name(Role::FfnPostNorm, "model.layers.{}.post_feedforward_layernorm.weight"),
    ];
    pub const NORM_BIASES: &[Name] = &[
        name(Role::OutputNormBias, "model.norm.bias"),
        name(Role::AttnNormBias, "model.layers.{}.input_layernorm.bias"),
        name(Role::FfnNormBias, "model.layers.{}.post_attention_layernorm.bias"),
    ];
    pub const PLAIN_MLP: &[Name] = &[
        name(Role::Up, "model.layers.{}.mlp.c_fc.weight"),
        maybe(Role::UpBias, "model.layers.{}.mlp.c_fc.bias"),
        name(Role::Down, "model.layers.{}.mlp.c_proj.weight"),
        maybe(Role::DownBias, "model.layers.{}.mlp.c_proj.bias"),
    ];

    pub mod bert {
        use super::*;

        pub const EMBEDDINGS: &[Name] = &[
            name(Role::TokenEmbedding, "embeddings.word_embeddings.weight"),
            name(Role::Positions, "embeddings.position_embeddings.weight"),
            name(Role::Segments, "embeddings.token_type_embeddings.weight"),
            name(Role::EmbeddingNorm, "embeddings.LayerNorm.weight"),
            name(Role::EmbeddingNormBias, "embeddings.LayerNorm.bias"),
        ];
        pub const LAYERS: &[Name] = &[
            name(Role::Q, "encoder.layer.{}.attention.self.query.weight"),
            name(Role::QBias, "encoder.layer.{}.attention.self.query.bias"),
            name(Role::K, "encoder.layer.{}.attention.self.key.weight"),
            name(Role::KBias, "encoder.layer.{}.attention.self.key.bias"),
            name(Role::V, "encoder.layer.{}.attention.self.value.weight"),
            name(Role::VBias, "encoder.layer.{}.attention.self.value.bias"),
            name(Role::AttnOut, "encoder.layer.{}.attention.output.dense.weight"),
            name(Role::AttnOutBias, "encoder.layer.{}.attention.output.dense.bias"),
            name(Role::AttnSumNorm, "encoder.layer.{}.attention.output.LayerNorm.weight"),
            name(Role::AttnSumNormBias, "encoder.layer.{}.attention.output.LayerNorm.bias"),
            name(Role::Up, "encoder.layer.{}.intermediate.dense.weight"),
            name(Role::UpBias, "encoder.layer.{}.intermediate.dense.bias"),
            name(Role::Down, "encoder.layer.{}.output.dense.weight"),
            name(Role::DownBias, "encoder.layer.{}.output.dense.bias"),
            name(Role::FfnSumNorm, "encoder.layer.{}.output.LayerNorm.weight"),
            name(Role::FfnSumNormBias, "encoder.layer.{}.output.LayerNorm.bias"),
        ];
        pub const HEAD: &[Name] = &[
            maybe(Role::Head, "pooler.dense.weight"),
            maybe(Role::HeadBias, "pooler.dense.bias"),
            maybe(Role::Classes, "classifier.weight"),
            maybe(Role::ClassesBias, "classifier.bias"),
        ];
    }

    pub mod nomic {
        use super::*;

        pub const EMBEDDINGS: &[Name] = &[
            name(Role::TokenEmbedding, "embeddings.word_embeddings.weight"),
            maybe(Role::Segments, "embeddings.token_type_embeddings.weight"),
            name(Role::EmbeddingNorm, "emb_ln.weight"),
            name(Role::EmbeddingNormBias, "emb_ln.bias"),
        ];
        pub const LAYERS: &[Name] = &[
            part(Role::Q, "encoder.layers.{}.attn.Wqkv.weight", Part::StackedQ),
            part(Role::K, "encoder.layers.{}.attn.Wqkv.weight", Part::StackedK),
            part(Role::V, "encoder.layers.{}.attn.Wqkv.weight", Part::StackedV),
            name(Role::AttnOut, "encoder.layers.{}.attn.out_proj.weight"),
            name(Role::AttnSumNorm, "encoder.layers.{}.norm1.weight"),
            name(Role::AttnSumNormBias, "encoder.layers.{}.norm1.bias"),
            // The second is the one that goes through the activation.
            name(Role::Up, "encoder.layers.{}.mlp.fc11.weight"),
            name(Role::Gate, "encoder.layers.{}.mlp.fc12.weight"),
            name(Role::Down, "encoder.layers.{}.mlp.fc2.weight"),
            name(Role::FfnSumNorm, "encoder.layers.{}.norm2.weight"),
            name(Role::FfnSumNormBias, "encoder.layers.{}.norm2.bias"),
        ];
    }

    pub mod modern {
        use super::*;

        pub const EMBEDDINGS: &[Name] = &[
            name(Role::TokenEmbedding, "embeddings.tok_embeddings.weight"),
            name(Role::EmbeddingNorm, "embeddings.norm.weight"),
            name(Role::OutputNorm, "final_norm.weight"),
        ];
        pub const LAYERS: &[Name] = &[
            maybe(Role::AttnNorm, "layers.{}.attn_norm.weight"),
            part(Role::Q, "layers.{}.attn.Wqkv.weight", Part::StackedQ),
            part(Role::K, "layers.{}.attn.Wqkv.weight", Part::StackedK),
            part(Role::V, "layers.{}.attn.Wqkv.weight", Part::StackedV),
            name(Role::AttnOut, "layers.{}.attn.Wo.weight"),
            name(Role::FfnNorm, "layers.{}.mlp_norm.weight"),
            part(Role::Gate, "layers.{}.mlp.Wi.weight", Part::StackedGate),
            part(Role::Up, "layers.{}.mlp.Wi.weight", Part::StackedUp),
            name(Role::Down, "layers.{}.mlp.Wo.weight"),
        ];
        pub const HEAD: &[Name] = &[
            maybe(Role::Head, "head.dense.weight"),
            maybe(Role::HeadNorm, "head.norm.weight"),
            maybe(Role::Classes, "classifier.weight"),
            maybe(Role::ClassesBias, "classifier.bias"),
        ];
    }
}
