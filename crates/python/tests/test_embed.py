"""Vectors, scores, and what was written for sentence-transformers."""

import threading

import numpy as np
import pytest

import akunu

TEXTS = ["Once upon a time", "b", "The dog ran to the big red barn and did not look back.", "a"]


def test_every_text_gives_a_vector_of_length_one_in_its_place(embedder):
    vectors = embedder.embed(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (4, embedder.width)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(TEXTS, vectors):
        assert np.allclose(embedder.embed(text), vector, atol=1e-5)
    assert np.allclose(embedder.embed("a time", prefix="Once upon "), vectors[0], atol=1e-5)


def test_vectors_are_written_where_numpy_reads_them(embedder):
    vectors = embedder.embed(TEXTS)
    owner = vectors
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    # The bytes that the engine wrote: no copy was made of them.
    written = memoryview(owner.base).obj
    assert isinstance(written, bytearray) and len(written) == vectors.nbytes
    vectors[0, 0] = 7
    assert np.frombuffer(written, np.float32)[0] == 7


def test_dimensions_and_lengths(embedder):
    raw = embedder.embed(TEXTS, normalize=False)
    cut = embedder.embed(TEXTS, normalize=False, dimensions=16)
    assert np.array_equal(cut, raw[:, :16])
    assert embedder.embed([]).shape == (0, embedder.width)
    with pytest.raises(ValueError, match="dimensions"):
        embedder.embed(TEXTS, dimensions=0)
    with pytest.raises(akunu.PromptTooLong, match="text 1"):
        embedder.embed(["short", "word " * 3000])
    assert embedder.embed("word " * 3000, truncate=True).shape == (embedder.width,)


def test_the_best_document_comes_first(ranker_path):
    with akunu.Model(ranker_path) as ranker:
        assert ranker.task == "rank"
        documents = ["red barn", "a dog", "the sun"]
        ranked = ranker.rerank("a dog", documents)
        assert [r.score for r in ranked] == sorted((r.score for r in ranked), reverse=True)
        assert {r.text for r in ranked} == set(documents) and all(documents[r.index] == r.text for r in ranked)
        assert ranker.rerank("a dog", documents, top=1) == ranked[:1]


def test_threads_share_an_embedder(embedder):
    alone, together = embedder.embed(TEXTS), {}

    def run(at):
        together[at] = embedder.embed(TEXTS)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(np.array_equal(alone, vectors) for vectors in together.values())


def test_an_encoder_does_what_sentence_transformers_does(embedder):
    encoder = akunu.SentenceEncoder(embedder, prompts={"query": "query: "})
    vectors = encoder.encode(TEXTS, batch_size=2, show_progress_bar=False, normalize_embeddings=True)
    assert np.array_equal(vectors, embedder.embed(TEXTS))
    assert encoder.encode(TEXTS[0]).shape == (encoder.get_sentence_embedding_dimension(),)
    assert isinstance(encoder.encode(TEXTS, convert_to_numpy=False), list)
    prompted = encoder.encode(TEXTS, prompt_name="query", normalize_embeddings=True)
    assert np.array_equal(prompted, embedder.embed(TEXTS, prefix="query: "))
    assert np.allclose(np.diag(encoder.similarity(vectors, vectors)), 1, atol=1e-5)
    with pytest.raises(ValueError, match="no prompt called"):
        encoder.encode(TEXTS, prompt_name="passage")
