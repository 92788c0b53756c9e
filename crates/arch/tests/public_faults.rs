//! Faults that were found in other engines and published: configurations that they believed.
//!
//! | fault | what happened there | what we say |
//! |---|---|---|
//! | llama.cpp 25513, 26051 | `block_count` over 512 wrote past arrays of 512 layers, where the keys that would have been checked were left out | `tensor "blk.2.attn_norm.weight" is missing`, or that the number is too large |
//! | `block_count` below what the file has | tensors of the layers after it were loaded for nothing, or ignored | `tensor "blk.1…" is not part of the llama architecture` |
//! | the same, in lists with a number for each layer | lists longer or shorter than `block_count` were read past their end, or in part | `a list of 3 values: one for each of the 2 layers is needed` |

mod support;

use akunu_formats::gguf::Array;
use support::*;

#[test]
fn llama_cpp_25513_block_count_that_disagrees_with_the_tensors() {
    for count in [3, 512, 513] {
        let message = refused(gguf().set("llama.block_count", count as u32).read());
        assert!(message.contains("tensor \"blk.2.") && message.contains("is missing"), "{count}: {message}");
        let message = refused(hf().set("num_hidden_layers", count.into()).read());
        assert!(message.contains("tensor \"model.layers.2.") && message.contains("is missing"), "{count}: {message}");
    }
    for count in [100_000, u32::MAX] {
        let message = refused(gguf().set("llama.block_count", count).read());
        assert!(message.contains("llama.block_count") && message.contains(&count.to_string()), "{message}");
    }
    let message = refused(gguf().set("llama.block_count", 1u32).read());
    assert!(message.contains("blk.1.") && message.contains("not part of the llama"), "{message}");
    let message = refused(gguf().set("llama.block_count", 0u32).read());
    assert!(message.contains("llama.block_count"), "{message}");
}

/// The lists of a number for each layer are as long as there are layers.
#[test]
fn llama_cpp_25513_lists_that_disagree_with_block_count() {
    let key = "attention.head_count";
    assert!(gguf().set(&format!("llama.{key}"), Array::from_u32s([HEADS as u32; LAYERS])).read().is_ok());
    for key in [key, "attention.head_count_kv", "feed_forward_length"] {
        for values in [vec![], vec![4], vec![4; 3], vec![4; 1000]] {
            let found = values.len();
            let message = refused(gguf().set(&format!("llama.{key}"), Array::from_u32s(values)).read());
            let expected = [key, &format!("a list of {found} values"), "each of the 2 layers"];
            assert!(expected.iter().all(|part| message.contains(part)), "{key} of {found}: {message}");
        }
    }
}
