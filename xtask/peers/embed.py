"""Embeds the lines of a file with another engine, for `cargo xtask bench embed`.

    embed.py llama.cpp MODEL.gguf LINES OUT.npy THREADS    through the xllamacpp package
    embed.py onnx MODEL_DIR LINES OUT.npy THREADS      onnxruntime, weights and tokenizer of an HF directory

Prints one JSON object. The clock runs from the texts to the vectors: loading and one warm-up are not counted.
"""

import json
import sys
import time

import numpy as np


def normalized(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def llama(model, threads):
    import xllamacpp as x

    params = x.CommonParams()
    params.model.path = model
    params.embedding = True
    params.pooling_type = x.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_parallel = 16
    params.n_ctx = 512 * 16
    params.n_batch = params.n_ubatch = 2048
    params.verbosity = 0
    server = x.Server(params)

    def embed(texts):
        answer = server.handle_embeddings({"input": texts, "model": "m"})
        if isinstance(answer, (str, bytes)):
            answer = json.loads(answer)
        rows = sorted(answer["data"], key=lambda d: d["index"])
        return normalized(np.array([r["embedding"] for r in rows], dtype=np.float32))

    return embed


def onnx_graph(directory):
    """BERT in the fused ops that onnxruntime's own optimizer makes of an exported model, f32."""
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file

    config = json.load(open(f"{directory}/config.json"))
    w = {k: v.astype(np.float32) for k, v in load_file(f"{directory}/model.safetensors").items() if v.dtype != np.int64}
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    nodes, initializers = [], []

    def const(name, value):
        initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(op, inputs, outputs, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    tables = [const(n, w[f"embeddings.{n}"]) for n in (
        "word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight",
        "LayerNorm.weight", "LayerNorm.bias")]
    x = node("EmbedLayerNormalization", ["ids", "segments", *tables, "mask"], ["embedded", "lengths"], epsilon=eps)
    for layer in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{layer}."
        get = lambda name: w[p + name]
        qkv = np.concatenate([get(f"attention.self.{n}.weight").T for n in ("query", "key", "value")], axis=1)
        bias = np.concatenate([get(f"attention.self.{n}.bias") for n in ("query", "key", "value")])
        mixed = node("Attention", [x, const(p + "qkv", qkv), const(p + "qkv_b", bias), "lengths"], [p + "mixed"],
                     num_heads=heads)
        out = node("MatMul", [mixed, const(p + "o", get("attention.output.dense.weight").T)], [p + "out"], domain="")
        norm = [const(p + n, get(f"attention.output.{n}")) for n in
                ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")]
        x = node("SkipLayerNormalization", [out, x, *norm], [p + "attended"], epsilon=eps)
        inner = node("MatMul", [x, const(p + "up", get("intermediate.dense.weight").T)], [p + "inner"], domain="")
        inner = node("BiasGelu", [inner, const(p + "up_b", get("intermediate.dense.bias"))], [p + "gelu"])
        out = node("MatMul", [inner, const(p + "down", get("output.dense.weight").T)], [p + "down_y"], domain="")
        norm = [const(p + "2" + n, get(f"output.{n}")) for n in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")]
        x = node("SkipLayerNormalization", [out, x, *norm], [p + "y"], epsilon=eps)
    int_input = lambda name: helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "length"])
    result = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", "length", config["hidden_size"]])
    graph = helper.make_graph(nodes, "bert", [int_input("ids"), int_input("segments"), int_input("mask")], [result],
                              initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def onnx(directory, threads):
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{directory}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_graph(directory), options, providers=["CPUExecutionProvider"])

    def embed(texts):
        # Texts of similar length together, which is what its users do against padding.
        ids = [e.ids for e in tokenizer.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        vectors = [None] * len(ids)
        for at in range(0, len(order), 32):
            batch = order[at : at + 32]
            longest = len(ids[batch[0]])
            tokens = np.zeros((len(batch), longest), dtype=np.int32)
            mask = np.zeros_like(tokens)
            for row, i in enumerate(batch):
                tokens[row, : len(ids[i])] = ids[i]
                mask[row, : len(ids[i])] = 1
            hidden = session.run(None, {"ids": tokens, "segments": np.zeros_like(tokens), "mask": mask})[0]
            means = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            for row, i in enumerate(batch):
                vectors[i] = means[row]
        return normalized(np.array(vectors, dtype=np.float32))

    return embed


def main():
    engine, model, lines, out, threads = sys.argv[1:6]
    texts = open(lines, encoding="utf-8").read().splitlines()
    embed = {"llama.cpp": llama, "onnx": onnx}[engine](model, int(threads))
    embed(texts[:64])
    start = time.perf_counter()
    vectors = embed(texts)
    seconds = time.perf_counter() - start
    np.save(out, vectors)
    print(json.dumps({"seconds": seconds, "shape": vectors.shape}))


main()
