/* Generates step by step, the way that one generates who chooses tokens by other means: tokens [MODEL]. */
#include <akunu/akunu.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                          \
    do {                                                                     \
        if ((call) < 0) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, akunu_last_error());          \
            return 1;                                                        \
        }                                                                    \
    } while (0)

int main(int argc, char **argv)
{
    static const char prompt[] = "Once upon a time";
    akunu_model model = {0};
    akunu_session session = {0};
    akunu_model_info info = {.size = sizeof info};
    uint32_t tokens[128], token, flags;
    size_t count, prompt_count, length;
    float *logits;
    char text[4096];

    CHECK(akunu_model_load(argc > 1 ? argv[1] : NULL, NULL, &model));
    CHECK(akunu_model_describe(model, &info));
    CHECK(akunu_session_create(model, &session));
    logits = malloc(info.vocab * sizeof *logits);
    if (!logits)
        return 1;

    CHECK(akunu_tokenize(model, prompt, sizeof prompt - 1, AKUNU_ADD_SPECIAL, tokens, 64, &prompt_count));
    count = prompt_count;
    CHECK(akunu_session_prefill(session, tokens, count));
    while (count < 96) {
        CHECK(akunu_session_logits(session, logits, info.vocab, NULL));
        CHECK(akunu_logits_repeat_penalty(logits, info.vocab, tokens, count, 1.1f));
        CHECK(akunu_logits_temperature(logits, info.vocab, 0.7f));
        CHECK(akunu_argmax(logits, info.vocab, &token));
        CHECK(akunu_token_describe(model, token, &flags));
        if (flags & AKUNU_TOKEN_END)
            break;
        tokens[count++] = token;
        CHECK(akunu_session_decode(session, token));
    }
    CHECK(akunu_detokenize(model, tokens, count, 0, text, sizeof text, &length));
    printf("%s\n", text);

    /* Back to the prompt: the KV cache has it still. */
    CHECK(akunu_session_rewind(session, prompt_count));
    CHECK(akunu_session_decode(session, tokens[prompt_count]));
    CHECK(akunu_session_sample(session, NULL, &token));
    printf("the likeliest token after %u is %u\n", tokens[prompt_count], token);

    free(logits);
    akunu_session_free(session);
    akunu_model_free(model);
    return 0;
}
