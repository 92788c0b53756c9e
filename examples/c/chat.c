/* Answers a question, or continues a text where the model has no chat template: chat [MODEL [QUESTION]]. */
#include <akunu/akunu.h>
#include <stdio.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, akunu_last_error());
    return 1;
}

static int32_t print(const akunu_piece *piece, void *user_data)
{
    FILE *out = user_data;
    fwrite(piece->text, 1, piece->length, out);
    /* Nobody waits for a full line. Anything but 0 would end the answer. */
    return fflush(out);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : NULL; /* NULL: the model inside the library */
    akunu_model model = {0};
    akunu_session session = {0};
    akunu_generate_options options;
    akunu_model_info info = {.size = sizeof info};
    akunu_result result = {.size = sizeof result};
    akunu_message message = {"user", argc > 2 ? argv[2] : "What is the capital of France?"};
    akunu_status status;

    akunu_generate_options_default(&options, sizeof options);
    options.max_tokens = 64;
    options.temperature = 0.8f;
    options.seed = 1;
    if (akunu_model_load(path, NULL, &model) != AKUNU_OK)
        return fail("load");
    if (akunu_session_create(model, &session) != AKUNU_OK || akunu_model_describe(model, &info) != AKUNU_OK)
        return fail("session");
    if (info.has_chat_template)
        status = akunu_session_chat(session, &message, 1, &options, print, stdout, &result);
    else
        status = akunu_session_generate(session, "Once upon a time", AKUNU_NUL_TERMINATED, &options, print, stdout,
                                        &result);
    if (status < 0)
        return fail("generate");
    printf("\n%u tokens after %u\n", result.generated_tokens, result.prompt_tokens);
    akunu_session_free(session);
    akunu_model_free(model);
    return 0;
}
