//! Tensor names by group, for both kinds of file; a family lists the groups it has.

use crate::weights::{Name, Role, StackedRows, maybe, maybe_row, name, stacked};

/// GGUF names.
pub mod gguf {
    use super::*;

    pub const MODEL: &[Name] = &[
        name(Role::TokenEmbedding, "token_embd.weight"),
        name(Role::OutputNorm, "output_norm.weight"),
        maybe(Role::Output, "output.weight"),
    ];
    pub const ROPE_FACTORS: &[Name] = &[maybe(Role::RopeFactors, "rope_freqs.weight")];
    /// For contexts up to the original one, and for longer ones.
    pub const ROPE_LISTS: &[Name] =
        &[maybe(Role::RopeShort, "rope_factors_short.weight"), maybe(Role::RopeLong, "rope_factors_long.weight")];
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
        stacked(Role::Q, "blk.{}.attn_qkv.weight", StackedRows::Q),
        stacked(Role::K, "blk.{}.attn_qkv.weight", StackedRows::K),
        stacked(Role::V, "blk.{}.attn_qkv.weight", StackedRows::V),
        name(Role::AttnOut, "blk.{}.attn_output.weight"),
    ];
    pub const STACKED_MLP: &[Name] = &[
        stacked(Role::Gate, "blk.{}.ffn_up.weight", StackedRows::Gate),
        stacked(Role::Up, "blk.{}.ffn_up.weight", StackedRows::Up),
        name(Role::Down, "blk.{}.ffn_down.weight"),
    ];
    pub const NORM_BIASES: &[Name] = &[
        name(Role::OutputNormBias, "output_norm.bias"),
        name(Role::AttnNormBias, "blk.{}.attn_norm.bias"),
        name(Role::FfnNormBias, "blk.{}.ffn_norm.bias"),
    ];
    pub const PLAIN_MLP: &[Name] =
        &[name(Role::Up, "blk.{}.ffn_up.weight"), name(Role::Down, "blk.{}.ffn_down.weight")];
    pub const MAYBE_MLP_BIASES: &[Name] =
        &[maybe(Role::UpBias, "blk.{}.ffn_up.bias"), maybe(Role::DownBias, "blk.{}.ffn_down.bias")];
    pub const OUT_AND_MLP_BIASES: &[Name] = &[
        name(Role::AttnOutBias, "blk.{}.attn_output.bias"),
        name(Role::UpBias, "blk.{}.ffn_up.bias"),
        name(Role::DownBias, "blk.{}.ffn_down.bias"),
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
    /// The output's rows of yes and no.
    pub const ANSWERS: &[Name] = &[
        maybe_row(Role::Yes, "cls.output.weight", StackedRows::First),
        maybe_row(Role::No, "cls.output.weight", StackedRows::Second),
    ];
    /// Numbered as modules after the model, which begin with the pooling.
    pub const DENSE: &[Name] = &[maybe(Role::Dense1, "dense_2.weight"), maybe(Role::Dense2, "dense_3.weight")];
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
        stacked(Role::Q, "model.layers.{}.self_attn.qkv_proj.weight", StackedRows::Q),
        stacked(Role::K, "model.layers.{}.self_attn.qkv_proj.weight", StackedRows::K),
        stacked(Role::V, "model.layers.{}.self_attn.qkv_proj.weight", StackedRows::V),
        name(Role::AttnOut, "model.layers.{}.self_attn.o_proj.weight"),
    ];
    pub const STACKED_MLP: &[Name] = &[
        stacked(Role::Gate, "model.layers.{}.mlp.gate_up_proj.weight", StackedRows::Gate),
        stacked(Role::Up, "model.layers.{}.mlp.gate_up_proj.weight", StackedRows::Up),
        name(Role::Down, "model.layers.{}.mlp.down_proj.weight"),
    ];
    pub const SHARED_MLP: &[Name] = &[
        stacked(Role::Gate, "model.layers.{}.shared_mlp.input_linear.weight", StackedRows::Gate),
        stacked(Role::Up, "model.layers.{}.shared_mlp.input_linear.weight", StackedRows::Up),
        name(Role::Down, "model.layers.{}.shared_mlp.output_linear.weight"),
    ];
    /// From folders beside the model, in the order of `modules.json`.
    pub const DENSE: &[Name] =
        &[maybe(Role::Dense1, "dense.0.linear.weight"), maybe(Role::Dense2, "dense.1.linear.weight")];
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
        pub const ROBERTA_HEAD: &[Name] = &[
            maybe(Role::Head, "classifier.dense.weight"),
            maybe(Role::HeadBias, "classifier.dense.bias"),
            maybe(Role::Classes, "classifier.out_proj.weight"),
            maybe(Role::ClassesBias, "classifier.out_proj.bias"),
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
            stacked(Role::Q, "encoder.layers.{}.attn.Wqkv.weight", StackedRows::Q),
            stacked(Role::K, "encoder.layers.{}.attn.Wqkv.weight", StackedRows::K),
            stacked(Role::V, "encoder.layers.{}.attn.Wqkv.weight", StackedRows::V),
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
            stacked(Role::Q, "layers.{}.attn.Wqkv.weight", StackedRows::Q),
            stacked(Role::K, "layers.{}.attn.Wqkv.weight", StackedRows::K),
            stacked(Role::V, "layers.{}.attn.Wqkv.weight", StackedRows::V),
            name(Role::AttnOut, "layers.{}.attn.Wo.weight"),
            name(Role::FfnNorm, "layers.{}.mlp_norm.weight"),
            stacked(Role::Gate, "layers.{}.mlp.Wi.weight", StackedRows::Gate),
            stacked(Role::Up, "layers.{}.mlp.Wi.weight", StackedRows::Up),
            name(Role::Down, "layers.{}.mlp.Wo.weight"),
        ];
        pub const HEAD: &[Name] = &[
            maybe(Role::Head, "head.dense.weight"),
            maybe(Role::HeadNorm, "head.norm.weight"),
            maybe(Role::Classes, "classifier.weight"),
            maybe(Role::ClassesBias, "classifier.bias"),
        ];
    }

    pub mod whisper {
        use super::*;

        pub const DECODER: &[Name] = &[
            name(Role::TokenEmbedding, "model.decoder.embed_tokens.weight"),
            name(Role::Positions, "model.decoder.embed_positions.weight"),
            name(Role::OutputNorm, "model.decoder.layer_norm.weight"),
            name(Role::OutputNormBias, "model.decoder.layer_norm.bias"),
            name(Role::AttnNorm, "model.decoder.layers.{}.self_attn_layer_norm.weight"),
            name(Role::AttnNormBias, "model.decoder.layers.{}.self_attn_layer_norm.bias"),
            name(Role::Q, "model.decoder.layers.{}.self_attn.q_proj.weight"),
            name(Role::QBias, "model.decoder.layers.{}.self_attn.q_proj.bias"),
            name(Role::K, "model.decoder.layers.{}.self_attn.k_proj.weight"),
            name(Role::V, "model.decoder.layers.{}.self_attn.v_proj.weight"),
            name(Role::VBias, "model.decoder.layers.{}.self_attn.v_proj.bias"),
            name(Role::AttnOut, "model.decoder.layers.{}.self_attn.out_proj.weight"),
            name(Role::AttnOutBias, "model.decoder.layers.{}.self_attn.out_proj.bias"),
            name(Role::FfnNorm, "model.decoder.layers.{}.final_layer_norm.weight"),
            name(Role::FfnNormBias, "model.decoder.layers.{}.final_layer_norm.bias"),
            name(Role::Up, "model.decoder.layers.{}.fc1.weight"),
            name(Role::UpBias, "model.decoder.layers.{}.fc1.bias"),
            name(Role::Down, "model.decoder.layers.{}.fc2.weight"),
            name(Role::DownBias, "model.decoder.layers.{}.fc2.bias"),
            name(Role::CrossNorm, "model.decoder.layers.{}.encoder_attn_layer_norm.weight"),
            name(Role::CrossNormBias, "model.decoder.layers.{}.encoder_attn_layer_norm.bias"),
            name(Role::CrossQ, "model.decoder.layers.{}.encoder_attn.q_proj.weight"),
            name(Role::CrossQBias, "model.decoder.layers.{}.encoder_attn.q_proj.bias"),
            name(Role::CrossK, "model.decoder.layers.{}.encoder_attn.k_proj.weight"),
            name(Role::CrossV, "model.decoder.layers.{}.encoder_attn.v_proj.weight"),
            name(Role::CrossVBias, "model.decoder.layers.{}.encoder_attn.v_proj.bias"),
            name(Role::CrossOut, "model.decoder.layers.{}.encoder_attn.out_proj.weight"),
            name(Role::CrossOutBias, "model.decoder.layers.{}.encoder_attn.out_proj.bias"),
            maybe(Role::Output, "proj_out.weight"),
        ];
        pub const ENCODER: &[Name] = &[
            name(Role::Conv1, "model.encoder.conv1.weight"),
            name(Role::Conv1Bias, "model.encoder.conv1.bias"),
            name(Role::Conv2, "model.encoder.conv2.weight"),
            name(Role::Conv2Bias, "model.encoder.conv2.bias"),
            name(Role::Positions, "model.encoder.embed_positions.weight"),
            name(Role::OutputNorm, "model.encoder.layer_norm.weight"),
            name(Role::OutputNormBias, "model.encoder.layer_norm.bias"),
            name(Role::AttnNorm, "model.encoder.layers.{}.self_attn_layer_norm.weight"),
            name(Role::AttnNormBias, "model.encoder.layers.{}.self_attn_layer_norm.bias"),
            name(Role::Q, "model.encoder.layers.{}.self_attn.q_proj.weight"),
            name(Role::QBias, "model.encoder.layers.{}.self_attn.q_proj.bias"),
            name(Role::K, "model.encoder.layers.{}.self_attn.k_proj.weight"),
            name(Role::V, "model.encoder.layers.{}.self_attn.v_proj.weight"),
            name(Role::VBias, "model.encoder.layers.{}.self_attn.v_proj.bias"),
            name(Role::AttnOut, "model.encoder.layers.{}.self_attn.out_proj.weight"),
            name(Role::AttnOutBias, "model.encoder.layers.{}.self_attn.out_proj.bias"),
            name(Role::FfnNorm, "model.encoder.layers.{}.final_layer_norm.weight"),
            name(Role::FfnNormBias, "model.encoder.layers.{}.final_layer_norm.bias"),
            name(Role::Up, "model.encoder.layers.{}.fc1.weight"),
            name(Role::UpBias, "model.encoder.layers.{}.fc1.bias"),
            name(Role::Down, "model.encoder.layers.{}.fc2.weight"),
            name(Role::DownBias, "model.encoder.layers.{}.fc2.bias"),
        ];
    }
}

/// The names of Whisper's ggml files.
pub mod ggml {
    use super::*;

    pub const DECODER: &[Name] = &[
        name(Role::TokenEmbedding, "decoder.token_embedding.weight"),
        name(Role::Positions, "decoder.positional_embedding"),
        name(Role::OutputNorm, "decoder.ln.weight"),
        name(Role::OutputNormBias, "decoder.ln.bias"),
        name(Role::AttnNorm, "decoder.blocks.{}.attn_ln.weight"),
        name(Role::AttnNormBias, "decoder.blocks.{}.attn_ln.bias"),
        name(Role::Q, "decoder.blocks.{}.attn.query.weight"),
        name(Role::QBias, "decoder.blocks.{}.attn.query.bias"),
        name(Role::K, "decoder.blocks.{}.attn.key.weight"),
        name(Role::V, "decoder.blocks.{}.attn.value.weight"),
        name(Role::VBias, "decoder.blocks.{}.attn.value.bias"),
        name(Role::AttnOut, "decoder.blocks.{}.attn.out.weight"),
        name(Role::AttnOutBias, "decoder.blocks.{}.attn.out.bias"),
        name(Role::FfnNorm, "decoder.blocks.{}.mlp_ln.weight"),
        name(Role::FfnNormBias, "decoder.blocks.{}.mlp_ln.bias"),
        name(Role::Up, "decoder.blocks.{}.mlp.0.weight"),
        name(Role::UpBias, "decoder.blocks.{}.mlp.0.bias"),
        name(Role::Down, "decoder.blocks.{}.mlp.2.weight"),
        name(Role::DownBias, "decoder.blocks.{}.mlp.2.bias"),
        name(Role::CrossNorm, "decoder.blocks.{}.cross_attn_ln.weight"),
        name(Role::CrossNormBias, "decoder.blocks.{}.cross_attn_ln.bias"),
        name(Role::CrossQ, "decoder.blocks.{}.cross_attn.query.weight"),
        name(Role::CrossQBias, "decoder.blocks.{}.cross_attn.query.bias"),
        name(Role::CrossK, "decoder.blocks.{}.cross_attn.key.weight"),
        name(Role::CrossV, "decoder.blocks.{}.cross_attn.value.weight"),
        name(Role::CrossVBias, "decoder.blocks.{}.cross_attn.value.bias"),
        name(Role::CrossOut, "decoder.blocks.{}.cross_attn.out.weight"),
        name(Role::CrossOutBias, "decoder.blocks.{}.cross_attn.out.bias"),
    ];
    pub const ENCODER: &[Name] = &[
        name(Role::Conv1, "encoder.conv1.weight"),
        name(Role::Conv1Bias, "encoder.conv1.bias"),
        name(Role::Conv2, "encoder.conv2.weight"),
        name(Role::Conv2Bias, "encoder.conv2.bias"),
        name(Role::Positions, "encoder.positional_embedding"),
        name(Role::OutputNorm, "encoder.ln_post.weight"),
        name(Role::OutputNormBias, "encoder.ln_post.bias"),
        name(Role::AttnNorm, "encoder.blocks.{}.attn_ln.weight"),
        name(Role::AttnNormBias, "encoder.blocks.{}.attn_ln.bias"),
        name(Role::Q, "encoder.blocks.{}.attn.query.weight"),
        name(Role::QBias, "encoder.blocks.{}.attn.query.bias"),
        name(Role::K, "encoder.blocks.{}.attn.key.weight"),
        name(Role::V, "encoder.blocks.{}.attn.value.weight"),
        name(Role::VBias, "encoder.blocks.{}.attn.value.bias"),
        name(Role::AttnOut, "encoder.blocks.{}.attn.out.weight"),
        name(Role::AttnOutBias, "encoder.blocks.{}.attn.out.bias"),
        name(Role::FfnNorm, "encoder.blocks.{}.mlp_ln.weight"),
        name(Role::FfnNormBias, "encoder.blocks.{}.mlp_ln.bias"),
        name(Role::Up, "encoder.blocks.{}.mlp.0.weight"),
        name(Role::UpBias, "encoder.blocks.{}.mlp.0.bias"),
        name(Role::Down, "encoder.blocks.{}.mlp.2.weight"),
        name(Role::DownBias, "encoder.blocks.{}.mlp.2.bias"),
    ];
}
