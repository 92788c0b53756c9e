/* Statuses, handles and structs of Akunu's C API.
 * Generated from crates/capi/src by `cargo xtask header`; changes belong there. */

#ifndef AKUNU_TYPES_H
#define AKUNU_TYPES_H

#include <stddef.h>
#include <stdint.h>

// Given as a length: the text ends with a NUL.
#define AKUNU_NUL_TERMINATED SIZE_MAX



// Keys and values are 16-bit floats.
#define AKUNU_KV_F16 0

// Keys and values are 8-bit integers with scales: half the memory.
#define AKUNU_KV_Q8_0 1

// Keys and values are 32-bit floats.
#define AKUNU_KV_F32 2

// Quantized weights are multiplied with floats: slower, for comparing engines.
#define AKUNU_LOAD_EXACT 1

// Weights stay in the mapped file: starts at once, shares memory, generates slower.
#define AKUNU_LOAD_MAPPED 2

// Puts the tokens around a text that the model wants there.
#define AKUNU_ADD_SPECIAL 1

// Reads special tokens written in the text as such: for prompts of a chat template, not for text of a user.
#define AKUNU_PARSE_SPECIAL 2

// A text ends with the token.
#define AKUNU_TOKEN_END 1

// The token marks structure and is not text.
#define AKUNU_TOKEN_SPECIAL 2

// Any JSON object; there is no source.
#define AKUNU_GRAMMAR_JSON 1

// JSON that a JSON schema describes.
#define AKUNU_GRAMMAR_JSON_SCHEMA 2

// Text that a regular expression matches as a whole.
#define AKUNU_GRAMMAR_REGEX 3

// A grammar in the Lark dialect of llguidance.
#define AKUNU_GRAMMAR_LARK 4

// A grammar as llama.cpp writes them.
#define AKUNU_GRAMMAR_GBNF 5

// Go on after the model's end token.
#define AKUNU_IGNORE_END 1

// Draft tokens from the text itself and verify several in a step: the same text, in fewer steps.
#define AKUNU_SPECULATE 2

// When the context is full, forget the older half of what comes after `keep` tokens, instead of ending.
#define AKUNU_SHIFT_CONTEXT 4

// As the file says, or else as such models mostly are.
#define AKUNU_POOLING_MODEL 0

// The mean of all tokens.
#define AKUNU_POOLING_MEAN 1

// The first token.
#define AKUNU_POOLING_FIRST 2

// The last token.
#define AKUNU_POOLING_LAST 3

// Drops the end of a text that is too long, instead of failing.
#define AKUNU_EMBED_CUT 1

// Leaves vectors as long as they are, instead of making their length 1.
#define AKUNU_EMBED_RAW 2

// Writes down what is said in English, whatever the language.
#define AKUNU_TRANSLATE 1

// Finds out when each word was said.
#define AKUNU_WORDS 2

// Encodes silence too, instead of leaving it out.
#define AKUNU_KEEP_SILENCE 4

// The model writes text.
#define AKUNU_PURPOSE_GENERATE 1

// It reads texts, and gives vectors.
#define AKUNU_PURPOSE_EMBED 2

// It reads pairs of texts, and gives scores.
#define AKUNU_PURPOSE_RANK 3

// It writes down speech.
#define AKUNU_PURPOSE_TRANSCRIBE 4

// The value of a token that the model does not have.
#define AKUNU_NO_TOKEN UINT32_MAX

// The model ended, a stop token came, or the grammar lets nothing follow.
#define AKUNU_FINISH_END 1

// A stop string came.
#define AKUNU_FINISH_STOP_STRING 2

// `max_tokens` are there.
#define AKUNU_FINISH_LENGTH 3

// The context is full.
#define AKUNU_FINISH_CONTEXT 4

// A callback asked to stop, or the request was cancelled.
#define AKUNU_FINISH_STOPPED 5

// The text alone.
#define AKUNU_TRANSCRIPT_TEXT 0

// Subtitles as SubRip has them.
#define AKUNU_TRANSCRIPT_SRT 1

// Subtitles as WebVTT has them.
#define AKUNU_TRANSCRIPT_VTT 2

// What a call came to: 0 or more where it did what it was asked for, less where it failed.
typedef int32_t akunu_status;

// Sees the bytes of weights that are read, of how many. It runs on any thread, never twice at once; anything but 0
// ends the loading.
typedef int32_t (*akunu_progress_callback)(uint64_t done, uint64_t total, void *user_data);

// How to load a model; 0 and NULL leave a field to the library.
typedef struct akunu_load_options {
  // Of this struct.
  uint32_t size;
  // Threads of the processor.
  uint32_t threads;
  // Positions that a session can have.
  uint32_t context;
  // Sessions, or requests of a service, that the KV cache has room for at full length.
  uint32_t sequences;
  // Positions that it has room for beyond those.
  uint32_t extra_positions;
  // Rows of a prefill step.
  uint32_t chunk;
  // `AKUNU_KV_*`.
  uint32_t kv_type;
  // `AKUNU_LOAD_*`, added.
  uint32_t flags;
  // Bytes that the model may need; 0: what is free.
  uint64_t memory;
  // A name of `akunu_device_info`.
  const char *device;
  // A kernel level of the device.
  const char *level;
  // Sees what is read.
  akunu_progress_callback progress;
  // Given to `progress`.
  void *user_data;
} akunu_load_options;

// A loaded model that writes text. Zero is no handle, of this and all kinds.
typedef struct akunu_model {
  // Not an address.
  uint64_t id;
} akunu_model;

// What a model is.
typedef struct akunu_model_info {
  // Of this struct; set by the caller.
  uint32_t size;
  // `AKUNU_PURPOSE_*`.
  uint32_t purpose;
  // Numbers in all tensors.
  uint64_t parameters;
  // Bytes of all tensors.
  uint64_t bytes;
  // Positions that a session can have; of a file, those that it was made for.
  uint32_t context;
  // Positions that it was made for.
  uint32_t trained_context;
  // Values of an embedding.
  uint32_t width;
  // Layers.
  uint32_t layers;
  // Tokens in the vocabulary: logits of a position.
  uint32_t vocab;
  // The token that begins a text, or `AKUNU_NO_TOKEN`.
  uint32_t bos_token;
  // The token that ends a text, or `AKUNU_NO_TOKEN`.
  uint32_t eos_token;
  // 1 where there is a chat template.
  uint32_t has_chat_template;
  // The architecture's name.
  char architecture[32];
  // The number format that most weights have.
  char format[16];
} akunu_model_info;

// What a model needs, and what there is.
typedef struct akunu_memory {
  // Of this struct; set by the caller.
  uint32_t size;
  // The context that this is for.
  uint32_t context;
  // The longest that fits into what is free; 0 where none does.
  uint32_t longest_context;
  // 1 where the model fits.
  uint32_t fits;
  // Bytes of weights.
  uint64_t weights;
  // Bytes of the KV cache.
  uint64_t kv;
  // Bytes of activations and all else.
  uint64_t scratch;
  // Bytes that are free; 0 where the system does not say.
  uint64_t available;
} akunu_memory;

// Something that models may run on.
typedef struct akunu_device_info {
  // Of this struct; set by the caller.
  uint32_t size;
  // 1 where it can be used.
  uint32_t available;
  // Threads that a step keeps busy.
  uint32_t threads;
  // 0.
  uint32_t reserved;
  // Bytes that a model could use; 0 where the system does not say.
  uint64_t free_memory;
  // What `akunu_load_options` calls it.
  char name[16];
  // What it calls itself, or why it cannot be used.
  char description[128];
  // The kernels in use, such as an instruction-set level.
  char level[16];
} akunu_device_info;

// A smaller model that drafts for a larger one.
typedef struct akunu_draft {
  // Not an address.
  uint64_t id;
} akunu_draft;

// A message of a chat. Its layout never changes.
typedef struct akunu_message {
  // `system`, `user`, `assistant`.
  const char *role;
  // Its text.
  const char *content;
} akunu_message;

// A compiled grammar.
typedef struct akunu_grammar {
  // Not an address.
  uint64_t id;
} akunu_grammar;

// A text's place in a model's KV cache.
typedef struct akunu_session {
  // Not an address.
  uint64_t id;
} akunu_session;

// A number that is added to a token's logit. Its layout never changes.
typedef struct akunu_logit_bias {
  // Which token.
  uint32_t token;
  // What is added.
  float bias;
} akunu_logit_bias;

// What to generate, and how. `akunu_generate_options_default` fills it; temperature 0 takes the likeliest token.
typedef struct akunu_generate_options {
  // Of this struct.
  uint32_t size;
  // `AKUNU_IGNORE_END` and those after it, added.
  uint32_t flags;
  // The same seed draws the same tokens.
  uint64_t seed;
  // 0: until the model ends, or the context is full.
  uint32_t max_tokens;
  // For `AKUNU_SHIFT_CONTEXT`.
  uint32_t keep;
  // 0: the likeliest token; above: a draw at this temperature.
  float temperature;
  // Keep this many of the likeliest; 0: all.
  uint32_t top_k;
  // Keep the likeliest whose probabilities reach this sum; 1: all.
  float top_p;
  // Keep those at least this share as likely as the likeliest; 0: all.
  float min_p;
  // Keep the most typical whose probabilities reach this sum; 1: all.
  float typical_p;
  // Keep those within this many standard deviations of the largest logit; 0: all.
  float top_n_sigma;
  // How often only the least likely of the likely tokens stays; 0: never.
  float xtc_probability;
  // From which probability on a token is likely.
  float xtc_threshold;
  // The temperature moves this far with the entropy; 0: it stays.
  float dynamic_temperature;
  // How the entropy moves it.
  float dynamic_exponent;
  // Bits of surprise a token that mirostat holds; 0: off.
  float mirostat_tau;
  // How fast it corrects itself.
  float mirostat_eta;
  // Divides positive logits of recent tokens, multiplies negative ones; 1: none.
  float repeat_penalty;
  // Subtracted for every time a token came recently.
  float frequency_penalty;
  // Subtracted once where a token came recently.
  float presence_penalty;
  // How many recent tokens these three look at.
  uint32_t repeat_last;
  // Penalty for repeating a passage; 0: off.
  float dry_multiplier;
  // It grows by this factor with every token more.
  float dry_base;
  // The longest repetition without it is one token shorter.
  uint32_t dry_allowed_length;
  // How many tokens it looks back; 0: all.
  uint32_t dry_last;
  // Log-probabilities of this many likeliest tokens, and of the chosen one; -1: none.
  int32_t logprobs;
  // 0.
  uint32_t reserved;
  // The text ends before the first of these, which end with a NUL.
  const char *const *stop;
  // How many.
  size_t stop_count;
  // The text ends before any of these tokens.
  const uint32_t *stop_tokens;
  // How many.
  size_t stop_token_count;
  // Added to the logits of single tokens.
  const struct akunu_logit_bias *logit_bias;
  // How many.
  size_t logit_bias_count;
  // The form that the text must have; zero: any.
  struct akunu_grammar grammar;
  // Who drafts for it; zero: nobody. The text is the same, in fewer steps. Not for requests of a service.
  struct akunu_draft draft;
} akunu_generate_options;

// A token and the natural logarithm of its probability. Its layout never changes.
typedef struct akunu_logprob {
  // Which token.
  uint32_t token;
  // Before bias, penalties and temperature.
  float logprob;
} akunu_logprob;

// A token, and the text that it completes. All of it is there until the callback returns.
typedef struct akunu_piece {
  // Of this struct.
  uint32_t size;
  // Which token.
  uint32_t token;
  // Whole characters in UTF-8, often none, with a NUL after them.
  const char *text;
  // Bytes of the text.
  size_t length;
  // The likeliest tokens, where they were asked for.
  const struct akunu_logprob *top;
  // How many.
  size_t top_count;
  // The token's own log-probability, where it was asked for.
  float logprob;
  // 0.
  uint32_t reserved;
} akunu_piece;

// Sees every piece as it comes. Anything but 0 ends the generation. It must return: neither `longjmp` nor an exception may leave it.
typedef int32_t (*akunu_piece_callback)(const struct akunu_piece *piece, void *user_data);

// How a generation ended.
typedef struct akunu_result {
  // Of this struct; set by the caller.
  uint32_t size;
  // `AKUNU_FINISH_*`.
  uint32_t finish;
  // Which stop string came.
  uint32_t stop_index;
  // Tokens of the prompt.
  uint32_t prompt_tokens;
  // Of those, tokens that were in the KV cache.
  uint32_t reused_tokens;
  // Tokens after it.
  uint32_t generated_tokens;
  // Until the first token.
  double first_token_seconds;
  // Until the last.
  double seconds;
} akunu_result;

// How many requests run at once, and what is remembered.
typedef struct akunu_service_options {
  // Of this struct.
  uint32_t size;
  // Requests that run at once; others wait.
  uint32_t sequences;
  // Positions of finished texts to remember; 0: none.
  uint32_t cache;
  // While prompts are read nobody waits longer than so many milliseconds for the next token.
  uint32_t max_gap_ms;
} akunu_service_options;

// A model that answers many requests at once.
typedef struct akunu_service {
  // Not an address.
  uint64_t id;
} akunu_service;

// What goes on in a service, and has since its start.
typedef struct akunu_service_info {
  // Of this struct; set by the caller.
  uint32_t size;
  // Requests in the KV cache.
  uint32_t running;
  // Requests that wait for room.
  uint32_t waiting;
  // 0.
  uint32_t reserved;
  // Requests that were submitted.
  uint64_t submitted;
  // Of those, ended by themselves.
  uint64_t finished;
  // Of those, cancelled.
  uint64_t cancelled;
  // Of those, ended by an error.
  uint64_t failed;
  // Steps computed.
  uint64_t steps;
  // Tokens chosen.
  uint64_t generated_tokens;
} akunu_service_info;

// What was submitted to a service.
typedef struct akunu_request {
  // Not an address.
  uint64_t id;
} akunu_request;

// A loaded model that reads texts: embeddings or scores.
typedef struct akunu_embedder {
  // Not an address.
  uint64_t id;
} akunu_embedder;

// What an embedder gives.
typedef struct akunu_embedder_info {
  // Of this struct; set by the caller.
  uint32_t size;
  // Values for a text.
  uint32_t width;
  // Tokens that a text can have.
  uint32_t context;
  // `AKUNU_POOLING_*`.
  uint32_t pooling;
} akunu_embedder_info;

// What to transcribe, and how.
typedef struct akunu_transcribe_options {
  // Of this struct.
  uint32_t size;
  // `AKUNU_TRANSLATE` and those after it, added.
  uint32_t flags;
  // A code such as `en`, or an English name; NULL: found out.
  const char *language;
  // What was said before, or words to expect.
  const char *prompt;
  // Beams of the search; 1: the likeliest token each time.
  uint32_t beams;
  // 0.
  uint32_t reserved;
} akunu_transcribe_options;

// A loaded model of speech.
typedef struct akunu_transcriber {
  // Not an address.
  uint64_t id;
} akunu_transcriber;

// A word, in seconds from the start of the recording. Its layout never changes.
typedef struct akunu_word {
  // Its first sound.
  double start;
  // Its last.
  double end;
  // With the space before it, in UTF-8, and a NUL.
  const char *text;
  // How likely the model finds it, from 0 to 1.
  double probability;
} akunu_word;

// A stretch of speech, in seconds from the start of the recording. All of it is there until the callback returns.
typedef struct akunu_segment {
  // Of this struct.
  uint32_t size;
  // The probability that nobody speaks.
  float no_speech;
  // Its first sound.
  double start;
  // Its last.
  double end;
  // What is said, in UTF-8, with a NUL after it.
  const char *text;
  // Bytes of the text.
  size_t length;
  // Where they were asked for.
  const struct akunu_word *words;
  // How many.
  size_t word_count;
} akunu_segment;

// Sees every segment as it becomes final. Anything but 0 ends the transcription. It must return: neither `longjmp` nor an
// exception may leave it.
typedef int32_t (*akunu_segment_callback)(const struct akunu_segment *segment, void *user_data);

// It is done.
#define AKUNU_OK 0

// A callback asked to stop. What was there before stays.
#define AKUNU_STOPPED 1

// A request has not ended yet.
#define AKUNU_PENDING 2

// An argument is null, out of range, not UTF-8, or a struct whose size is not set.
#define AKUNU_ERROR_ARGUMENT -1

// A handle is zero, was freed, or is of another kind.
#define AKUNU_ERROR_HANDLE -2

// Something is in use, and the call cannot wait for it.
#define AKUNU_ERROR_BUSY -3

// The buffer is too small. The count says what is needed; nothing was written.
#define AKUNU_ERROR_BUFFER -4

// A file is not there, damaged, or not supported.
#define AKUNU_ERROR_FILE -5

// The model cannot do that.
#define AKUNU_ERROR_MODEL -6

// The device is not there.
#define AKUNU_ERROR_DEVICE -7

// There is not enough memory, or the KV cache is full.
#define AKUNU_ERROR_MEMORY -8

// The text does not fit the context.
#define AKUNU_ERROR_CONTEXT -9

// The grammar cannot be kept.
#define AKUNU_ERROR_GRAMMAR -10

// There is no chat template, or it refuses the messages.
#define AKUNU_ERROR_TEMPLATE -11

// This is the child of a fork, and the handles are its parent's.
#define AKUNU_ERROR_FORKED -12

// A fault in the library was contained.
#define AKUNU_ERROR_FAULT -13

// Anything else; `akunu_last_error` says what.
#define AKUNU_ERROR_FAILED -14

#endif  /* AKUNU_TYPES_H */
/* of b1b3a830886f0fc3, itself 11afa2c9f996b840 */
