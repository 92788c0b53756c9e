/* Akunu: a local inference engine. docs/c-api.md is the manual.
 *
 * Statuses. A call returns AKUNU_OK, another number above 0 that is no error, or one below 0; then
 * akunu_last_error() has one sentence. On an error nothing is written to the caller's memory, but for counts.
 *
 * Handles are numbers, not addresses: one that is zero, freed or of another kind is AKUNU_ERROR_HANDLE. Free
 * each once, in any order; what others still use goes with them. Freeing zero is AKUNU_OK.
 *
 * Memory. The library keeps no pointer of the caller's beyond a call, but for `progress` and `user_data` of
 * options, which it keeps until the load returns. Nothing that it allocates is the caller's to free. A pointer
 * is NULL or leads to as many values as the call says; texts are UTF-8 and take a length in bytes or
 * AKUNU_NUL_TERMINATED, and end with a NUL where no length is given.
 *
 * Structs say in their first field, `size`, which version of them the caller knows. Options get it from their
 * ..._default function; for what the library fills write `akunu_result result = {.size = sizeof result};`.
 *
 * Threads. All calls may come from any thread. Calls that run one model, session, embedder or transcriber wait
 * for each other; inside a callback, where that could be for ever, they are AKUNU_ERROR_BUSY instead. After a
 * fork, the child's calls with handles are AKUNU_ERROR_FORKED. */

#ifndef AKUNU_H
#define AKUNU_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The sentence of this thread's last call that failed; empty where none has. It is there until this thread's next call.
const char *akunu_last_error(void);

// The name of a status, such as `AKUNU_ERROR_HANDLE`; never null, and never freed.
const char *akunu_status_name(akunu_status status);

// The library's version, such as `0.1.0`; never freed.
const char *akunu_version(void);

// Fills options with the defaults; `size` is that of the struct: `akunu_load_options_default(&options, sizeof options)`.
akunu_status akunu_load_options_default(akunu_load_options *options,
                                        size_t size);

// Loads a GGUF file, a safetensors file, or an HF or MLX directory; with NULL the model inside the library. `options` may be
// NULL.
akunu_status akunu_model_load(const char *path,
                              const akunu_load_options *options,
                              akunu_model *model);

// Frees a model; it goes when the last session and call that use it do. Zero is nothing to free, and `AKUNU_OK`, here and of all
// kinds.
akunu_status akunu_model_free(akunu_model model);

// What a loaded model is.
akunu_status akunu_model_describe(akunu_model model, akunu_model_info *info);

// What a file is, without loading it; its tokens are not known then.
akunu_status akunu_file_describe(const char *path, akunu_model_info *info);

// What a file would need if it were loaded with these options, and what is free.
akunu_status akunu_file_memory(const char *path, const akunu_load_options *options, akunu_memory *estimate);

// Devices that the library knows of, whether they are there or not.
uint32_t akunu_device_count(void);

// What a device is: those numbered below `akunu_device_count`.
akunu_status akunu_device_describe(uint32_t index, akunu_device_info *info);

// Loads a model that drafts for larger ones of the same vocabulary.
akunu_status akunu_draft_load(const char *path, const akunu_load_options *options, akunu_draft *draft);

// Frees a draft model.
akunu_status akunu_draft_free(akunu_draft draft);

// The tokens of a text. `flags` are `AKUNU_ADD_SPECIAL` and `AKUNU_PARSE_SPECIAL`, added. With no capacity it only counts.
akunu_status akunu_tokenize(akunu_model model,
                            const char *text,
                            size_t length,
                            uint32_t flags,
                            uint32_t *tokens,
                            size_t capacity,
                            size_t *count);

// The text of tokens, with a NUL after it that its length does not count. `flags` may be `AKUNU_TOKEN_SPECIAL`, to keep special
// tokens. With no capacity it only counts.
akunu_status akunu_detokenize(akunu_model model,
                              const uint32_t *tokens,
                              size_t count,
                              uint32_t flags,
                              char *text,
                              size_t capacity,
                              size_t *length);

// What a token is: `AKUNU_TOKEN_END` and `AKUNU_TOKEN_SPECIAL`, added.
akunu_status akunu_token_describe(akunu_model model, uint32_t token, uint32_t *flags);

// The prompt that asks for an answer to messages, in the model's own format. Tokenize it with `AKUNU_PARSE_SPECIAL`.
akunu_status akunu_chat_prompt(akunu_model model,
                               const akunu_message *messages,
                               size_t count,
                               char *text,
                               size_t capacity,
                               size_t *length);

// The same of a JSON object with `messages`, `tools`, `add_generation_prompt` and whatever else the template takes.
akunu_status akunu_chat_prompt_json(akunu_model model,
                                    const char *json,
                                    size_t json_length,
                                    char *text,
                                    size_t capacity,
                                    size_t *length);

// Compiles a grammar of kind `AKUNU_GRAMMAR_*` for a model. It may be used for any number of texts, and from any thread.
akunu_status akunu_grammar_compile(akunu_model model,
                                   uint32_t kind,
                                   const char *source,
                                   size_t length,
                                   akunu_grammar *grammar);

// Frees a grammar.
akunu_status akunu_grammar_free(akunu_grammar grammar);

// Makes an empty session. It keeps its model, whose handle may be freed before.
akunu_status akunu_session_create(akunu_model model, akunu_session *session);

// Frees a session and its place in the KV cache.
akunu_status akunu_session_free(akunu_session session);

// Makes a session with the same past, which both share until they go on.
akunu_status akunu_session_fork(akunu_session session, akunu_session *fork);

// Forgets everything.
akunu_status akunu_session_reset(akunu_session session);

// Forgets all tokens after the first `length`.
akunu_status akunu_session_rewind(akunu_session session, size_t length);

// The text of the last generation, with a NUL after it that its length does not count. With no capacity it only counts.
akunu_status akunu_session_text(akunu_session session,
                                char *text,
                                size_t capacity,
                                size_t *length);

// The tokens that the session holds, prompts and answers. With no capacity it only counts.
akunu_status akunu_session_tokens(akunu_session session, uint32_t *tokens, size_t capacity, size_t *count);

// Feeds tokens of a prompt, many at once. The logits after the last are there then.
akunu_status akunu_session_prefill(akunu_session session, const uint32_t *tokens, size_t count);

// Feeds one token: a step of decoding. The logits after it are there then.
akunu_status akunu_session_decode(akunu_session session, uint32_t token);

// The logits after the last token that was fed. With no capacity it only counts.
akunu_status akunu_session_logits(akunu_session session, float *logits, size_t capacity, size_t *count);

// Chooses a token from these logits as `akunu_session_generate` would: with the same options, tokens that are sampled and decoded
// are those that it gives. It does not feed the token. A grammar and what ends a text do not count.
akunu_status akunu_session_sample(akunu_session session,
                                  const akunu_generate_options *options,
                                  uint32_t *token);

// Fills options with the defaults; `size` is that of the struct.
akunu_status akunu_generate_options_default(akunu_generate_options *options, size_t size);

// Continues what the session holds with a text, and that with what the model writes. An empty session begins with the tokens that
// the model wants there. `options`, `on_piece` and `result` may be NULL; `akunu_session_text` has the text afterwards.
akunu_status akunu_session_generate(akunu_session session,
                                    const char *text,
                                    size_t length,
                                    const akunu_generate_options *options,
                                    akunu_piece_callback on_piece,
                                    void *user_data,
                                    akunu_result *result);

// The same after tokens, which are taken as they are.
akunu_status akunu_session_generate_tokens(akunu_session session,
                                           const uint32_t *tokens,
                                           size_t count,
                                           const akunu_generate_options *options,
                                           akunu_piece_callback on_piece,
                                           void *user_data,
                                           akunu_result *result);

// Answers messages in the model's own format. Give the whole conversation every time: what the session holds of it already is not
// computed again. A grammar holds from where the model's thoughts end.
akunu_status akunu_session_chat(akunu_session session,
                                const akunu_message *messages,
                                size_t count,
                                const akunu_generate_options *options,
                                akunu_piece_callback on_piece,
                                void *user_data,
                                akunu_result *result);

// Divides logits by a temperature above 0.
akunu_status akunu_logits_temperature(float *logits, size_t count, float temperature);

// Divides positive logits of the tokens in `recent` by a penalty above 0, multiplies negative ones with it; a token that came
// several times counts once.
akunu_status akunu_logits_repeat_penalty(float *logits,
                                         size_t count,
                                         const uint32_t *recent,
                                         size_t recent_count,
                                         float penalty);

// The token with the largest logit; of equal ones the first.
akunu_status akunu_argmax(const float *logits, size_t count, uint32_t *token);

// Fills options with the defaults; `size` is that of the struct.
akunu_status akunu_service_options_default(akunu_service_options *options, size_t size);

// Starts a service that runs a model without sessions. The model's handle still tokenizes and renders prompts; whatever else would
// run it is `AKUNU_ERROR_BUSY`. Load it with as many `sequences` as requests run at once.
akunu_status akunu_service_start(akunu_model model,
                                 const akunu_service_options *options,
                                 akunu_service *service);

// Ends a service and the requests that still run.
akunu_status akunu_service_free(akunu_service service);

// What goes on in a service.
akunu_status akunu_service_describe(akunu_service service, akunu_service_info *info);

// Queues a text to continue. `flags` are those of `akunu_tokenize`: `AKUNU_ADD_SPECIAL` for a text, `AKUNU_PARSE_SPECIAL` for a
// prompt of `akunu_chat_prompt`.
akunu_status akunu_service_submit(akunu_service service,
                                  const char *text,
                                  size_t length,
                                  uint32_t flags,
                                  const akunu_generate_options *options,
                                  akunu_request *request);

// Queues tokens to continue.
akunu_status akunu_service_submit_tokens(akunu_service service,
                                         const uint32_t *tokens,
                                         size_t count,
                                         const akunu_generate_options *options,
                                         akunu_request *request);

// Shows the pieces that have come since the last poll, and those that come until the request ends or the time is over:
// `AKUNU_PENDING` then. A callback that asks to stop cancels the request. With a timeout of 0 it does not wait.
akunu_status akunu_request_poll(akunu_request request,
                                uint32_t timeout_ms,
                                akunu_piece_callback on_piece,
                                void *user_data);

// Cancels a request; its next poll says `AKUNU_STOPPED`, also one that waits in another thread.
akunu_status akunu_request_cancel(akunu_request request);

// Cancels a request and frees it.
akunu_status akunu_request_free(akunu_request request);

// The text that polls have shown so far, with a NUL after it that its length does not count. With no capacity it only counts.
akunu_status akunu_request_text(akunu_request request,
                                char *text,
                                size_t capacity,
                                size_t *length);

// How a request ended; `AKUNU_PENDING` where a poll has not seen that yet.
akunu_status akunu_request_result(akunu_request request, akunu_result *result);

// Loads a model to embed (`AKUNU_PURPOSE_EMBED`) or to rank (`AKUNU_PURPOSE_RANK`), with one of `AKUNU_POOLING_*`. Models that
// write text embed too. `options` may be NULL.
akunu_status akunu_embedder_load(const char *path,
                                 const akunu_load_options *options,
                                 uint32_t purpose,
                                 uint32_t pooling,
                                 akunu_embedder *embedder);

// Frees an embedder.
akunu_status akunu_embedder_free(akunu_embedder embedder);

// What an embedder gives.
akunu_status akunu_embedder_describe(akunu_embedder embedder, akunu_embedder_info *info);

// The vectors of texts that end with a NUL, one after the other: `count * width` values. `flags` are `AKUNU_EMBED_*`, added. With
// no capacity it only counts.
akunu_status akunu_embed(akunu_embedder embedder,
                         const char *const *texts,
                         size_t count,
                         uint32_t flags,
                         float *vectors,
                         size_t capacity,
                         size_t *written);

// How well documents answer a query: `count` scores, the higher the better. Texts of the array end with a NUL.
akunu_status akunu_rerank(akunu_embedder embedder,
                          const char *query,
                          const char *const *documents,
                          size_t count,
                          uint32_t flags,
                          float *scores);

// Fills options with the defaults; `size` is that of the struct.
akunu_status akunu_transcribe_options_default(akunu_transcribe_options *options, size_t size);

// Loads a whisper.cpp file, a GGUF or safetensors file, or an HF directory. `options` may be NULL.
akunu_status akunu_transcriber_load(const char *path,
                                    const akunu_load_options *options,
                                    akunu_transcriber *transcriber);

// Frees a model of speech.
akunu_status akunu_transcriber_free(akunu_transcriber transcriber);

// Transcribes a recording: wav, mp3, flac, ogg or m4a. `options` and `on_segment` may be NULL; `akunu_transcript` has the text
// afterwards.
akunu_status akunu_transcribe(akunu_transcriber transcriber,
                              const char *path,
                              const akunu_transcribe_options *options,
                              akunu_segment_callback on_segment,
                              void *user_data);

// The same of samples: 16,000 a second, one channel, from -1 to 1.
akunu_status akunu_transcribe_samples(akunu_transcriber transcriber,
                                      const float *samples,
                                      size_t count,
                                      const akunu_transcribe_options *options,
                                      akunu_segment_callback on_segment,
                                      void *user_data);

// What was transcribed last, as `AKUNU_TRANSCRIPT_*`, with a NUL after it that its length does not count. With no capacity it only
// counts.
akunu_status akunu_transcript(akunu_transcriber transcriber,
                              uint32_t format,
                              char *text,
                              size_t capacity,
                              size_t *length);

// The code of the language that was transcribed last.
akunu_status akunu_transcript_language(akunu_transcriber transcriber,
                                       char *text,
                                       size_t capacity,
                                       size_t *length);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* AKUNU_H */
/* of 5a24a258181e35e1, itself 7125db8ae1b08d4a */
