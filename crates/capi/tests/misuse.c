/* Everything that a caller may do wrong, and some that only look wrong. Exits with 0 where all of it is as documented. */
#define _POSIX_C_SOURCE 200809L
#include <akunu/akunu.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define EXPECT(expected, call) expect(expected, call, #call, __LINE__)
#define CHECK(condition) check(condition, #condition, __LINE__)

static void check(int holds, const char *what, int line)
{
    if (!holds) {
        fprintf(stderr, "misuse.c:%d: not so: %s\n", line, what);
        failures++;
    }
}

static void expect(akunu_status expected, akunu_status status, const char *call, int line)
{
    if (status != expected) {
        fprintf(stderr, "misuse.c:%d: %s is %s (%s), not %s\n", line, call, akunu_status_name(status),
                status < 0 ? akunu_last_error() : "", akunu_status_name(expected));
        failures++;
    }
    if (status < 0)
        check(strlen(akunu_last_error()) > 10, "an error has a sentence", line);
}

static akunu_generate_options options(uint32_t max_tokens)
{
    akunu_generate_options options;
    akunu_generate_options_default(&options, sizeof options);
    options.max_tokens = max_tokens;
    return options;
}

static akunu_model load(void)
{
    akunu_load_options load;
    akunu_model model = {0};
    akunu_load_options_default(&load, sizeof load);
    load.threads = 1;
    load.sequences = 4;
    EXPECT(AKUNU_OK, akunu_model_load(NULL, &load, &model));
    CHECK(model.id != 0);
    return model;
}

static void generate(akunu_session session, const char *prompt, char text[1024])
{
    akunu_generate_options o = options(12);
    EXPECT(AKUNU_OK, akunu_session_generate(session, prompt, AKUNU_NUL_TERMINATED, &o, NULL, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_session_text(session, text, 1024, NULL));
}

static void handles(akunu_model model)
{
    akunu_session session = {0}, other = {0}, none = {0}, forged = {0x1234567800000001u};
    akunu_model as_model;
    uint32_t token;

    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_decode(none, 1));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_decode(forged, 1));
    forged.id = UINT64_MAX;
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_decode(forged, 1));
    forged.id = (uint64_t)(uintptr_t)&session;
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_free(forged));
    EXPECT(AKUNU_OK, akunu_session_free(none));

    EXPECT(AKUNU_OK, akunu_session_create(model, &session));
    as_model.id = session.id;
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_create(as_model, &other));
    CHECK(strstr(akunu_last_error(), "session") && other.id == 0);
    EXPECT(AKUNU_ERROR_HANDLE, akunu_model_free(as_model));

    EXPECT(AKUNU_OK, akunu_session_free(session));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_free(session));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_decode(session, 1));
    /* Its place is taken again; the old handle stays what it was. */
    EXPECT(AKUNU_OK, akunu_session_create(model, &other));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_sample(session, NULL, &token));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_sample(other, NULL, &token));
    EXPECT(AKUNU_OK, akunu_session_free(other));
}

static void arguments(akunu_model model)
{
    static const char broken[] = "a\xff" "b";
    akunu_session session = {0};
    akunu_generate_options o = options(4);
    akunu_model_info info = {0};
    akunu_grammar grammar = {0};
    akunu_device_info device = {.size = sizeof device};
    akunu_memory memory = {.size = sizeof memory};
    struct {
        akunu_generate_options known;
        uint64_t unknown;
    } newer;
    uint32_t tokens[64];
    float logits[3] = {1, 3, 2};
    char text[8];
    size_t count = 77;

    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_model_load(NULL, NULL, NULL));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_create(model, NULL));
    EXPECT(AKUNU_OK, akunu_session_create(model, &session));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_model_describe(model, NULL));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_model_describe(model, &info));
    info.size = 8;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_model_describe(model, &info));
    info.size = sizeof info;
    EXPECT(AKUNU_OK, akunu_model_describe(model, &info));
    CHECK(info.vocab > 0 && info.size == sizeof info && strlen(info.architecture) > 0);

    /* Texts. */
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_tokenize(model, NULL, 3, 0, tokens, 64, &count));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_tokenize(model, NULL, AKUNU_NUL_TERMINATED, 0, tokens, 64, &count));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_tokenize(model, broken, sizeof broken - 1, 0, tokens, 64, &count));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_tokenize(model, "x", SIZE_MAX - 1, 0, tokens, 64, &count));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_tokenize(model, "x", 1, 1u << 31, tokens, 64, &count));
    EXPECT(AKUNU_OK, akunu_tokenize(model, NULL, 0, 0, tokens, 64, &count));
    CHECK(count == 0);
    EXPECT(AKUNU_ERROR_FILE, akunu_model_load("no such file", NULL, &(akunu_model){0}));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_model_load(broken, NULL, &(akunu_model){0}));

    /* Room. */
    EXPECT(AKUNU_OK, akunu_tokenize(model, "Once upon a time", AKUNU_NUL_TERMINATED, 0, NULL, 0, &count));
    CHECK(count > 1);
    tokens[0] = 12345;
    EXPECT(AKUNU_ERROR_BUFFER, akunu_tokenize(model, "Once upon a time", AKUNU_NUL_TERMINATED, 0, tokens, 1, &count));
    CHECK(count > 1 && tokens[0] == 12345);
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_tokenize(model, "Once", 4, 0, NULL, 64, &count));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_tokenize(model, "Once", 4, 0, tokens, SIZE_MAX, &count));
    EXPECT(AKUNU_OK, akunu_tokenize(model, "Once upon a time", AKUNU_NUL_TERMINATED, 0, tokens, 64, &count));
    EXPECT(AKUNU_ERROR_BUFFER, akunu_detokenize(model, tokens, count, 0, text, sizeof text, NULL));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_detokenize(model, tokens, SIZE_MAX / 2, 0, text, sizeof text, NULL));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_detokenize(model, (uint32_t *)((char *)tokens + 1), 1, 0, text, sizeof text, NULL));

    /* Numbers and structs. */
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_decode(session, info.vocab));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_prefill(session, NULL, 0));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_rewind(session, 1));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_logits(session, logits, 3, NULL));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_logits_temperature(logits, 3, 0));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_logits_repeat_penalty(logits, 3, tokens, 1, NAN));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_argmax(logits, 0, tokens));
    EXPECT(AKUNU_OK, akunu_argmax(logits, 3, tokens));
    CHECK(tokens[0] == 1);
    o.temperature = NAN;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_generate(session, "x", 1, &o, NULL, NULL, NULL));
    o = options(4);
    o.flags = 1u << 20;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_generate(session, "x", 1, &o, NULL, NULL, NULL));
    o = options(4);
    o.stop_count = 1;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_generate(session, "x", 1, &o, NULL, NULL, NULL));
    o = options(4);
    o.size = 0;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_generate(session, "x", 1, &o, NULL, NULL, NULL));
    /* A caller of a later version: what it does not use may be unknown here. */
    newer.unknown = 1;
    akunu_generate_options_default(&newer.known, sizeof newer);
    CHECK(newer.unknown == 0 && newer.known.size == sizeof newer);
    newer.known.max_tokens = 1;
    EXPECT(AKUNU_OK, akunu_session_generate(session, "x", 1, &newer.known, NULL, NULL, NULL));
    newer.unknown = 1;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_generate(session, "x", 1, &newer.known, NULL, NULL, NULL));

    EXPECT(AKUNU_ERROR_GRAMMAR, akunu_grammar_compile(model, AKUNU_GRAMMAR_REGEX, "(", 1, &grammar));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_grammar_compile(model, 99, "a", 1, &grammar));
    EXPECT(AKUNU_ERROR_TEMPLATE, akunu_session_chat(session, &(akunu_message){"user", "x"}, 1, NULL, NULL, NULL, NULL));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_chat(session, NULL, 1, NULL, NULL, NULL, NULL));
    EXPECT(AKUNU_ERROR_MODEL, akunu_transcriber_load(NULL, NULL, &(akunu_transcriber){0}));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_device_describe(akunu_device_count(), &device));
    EXPECT(AKUNU_OK, akunu_device_describe(0, &device));
    EXPECT(AKUNU_OK, akunu_file_memory(NULL, NULL, &memory));
    CHECK(device.available == 1 && memory.weights > 0 && memory.fits == 1);
    EXPECT(AKUNU_OK, akunu_session_free(session));
}

struct seen {
    akunu_model model;
    akunu_session session;
    int pieces, most;
};

static int32_t stop_after(const akunu_piece *piece, void *user_data)
{
    struct seen *seen = user_data;
    check(piece->text[piece->length] == 0 && piece->size == sizeof *piece, "a piece is whole", __LINE__);
    return ++seen->pieces == seen->most;
}

static int32_t call_back(const akunu_piece *piece, void *user_data)
{
    struct seen *seen = user_data;
    akunu_session other = {0};
    char text[1024];
    uint32_t tokens[64];
    (void)piece;
    if (seen->pieces++ > 0) {
        EXPECT(AKUNU_ERROR_HANDLE, akunu_session_free(seen->session));
        return 0;
    }
    EXPECT(AKUNU_OK, akunu_tokenize(seen->model, "from inside", AKUNU_NUL_TERMINATED, 0, tokens, 64, NULL));
    EXPECT(AKUNU_ERROR_BUSY, akunu_session_generate(seen->session, "x", 1, NULL, NULL, NULL, NULL));
    EXPECT(AKUNU_ERROR_BUSY, akunu_session_text(seen->session, text, sizeof text, NULL));
    EXPECT(AKUNU_ERROR_BUSY, akunu_session_create(seen->model, &other));
    /* It goes when this generation has ended. */
    EXPECT(AKUNU_OK, akunu_session_free(seen->session));
    return 0;
}

static void callbacks(akunu_model model)
{
    struct seen seen = {.model = model, .most = 3};
    akunu_result result = {.size = sizeof result};
    akunu_generate_options o = options(8);
    char whole[1024], again[1024];
    size_t count;

    EXPECT(AKUNU_OK, akunu_session_create(model, &seen.session));
    generate(seen.session, "Once upon a time", whole);
    EXPECT(AKUNU_OK, akunu_session_reset(seen.session));
    EXPECT(AKUNU_STOPPED, akunu_session_generate(seen.session, "Once upon a time", AKUNU_NUL_TERMINATED, &o, stop_after,
                                                 &seen, &result));
    CHECK(seen.pieces == 3 && result.finish == AKUNU_FINISH_STOPPED && result.generated_tokens == 3);
    EXPECT(AKUNU_OK, akunu_session_tokens(seen.session, NULL, 0, &count));
    CHECK(count == result.prompt_tokens + 3);
    /* It goes on as if nothing had been. */
    EXPECT(AKUNU_OK, akunu_session_rewind(seen.session, 0));
    generate(seen.session, "Once upon a time", again);
    CHECK(strcmp(whole, again) == 0);

    seen.pieces = 0;
    EXPECT(AKUNU_OK, akunu_session_generate(seen.session, " x", 2, &o, call_back, &seen, &result));
    CHECK(seen.pieces > 1 && result.generated_tokens > 1);
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_free(seen.session));
}

struct progress {
    int calls, most;
    uint64_t done, total;
};

static int32_t see(uint64_t done, uint64_t total, void *user_data)
{
    struct progress *progress = user_data;
    CHECK(done <= total);
    progress->done = done;
    progress->total = total;
    return ++progress->calls == progress->most;
}

static void loading(void)
{
    akunu_load_options load;
    akunu_model model = {0};
    struct progress all = {0}, one = {.most = 1}, some = {.most = 3};
    akunu_load_options_default(&load, sizeof load);
    load.progress = see;
    load.user_data = &one;
    EXPECT(AKUNU_STOPPED, akunu_model_load(NULL, &load, &model));
    CHECK(one.calls == 1 && one.done == 0 && model.id == 0);
    load.user_data = &some;
    EXPECT(AKUNU_STOPPED, akunu_model_load(NULL, &load, &model));
    CHECK(some.calls >= 3 && model.id == 0);
    load.user_data = &all;
    EXPECT(AKUNU_OK, akunu_model_load(NULL, &load, &model));
    CHECK(all.calls > 3 && all.done == all.total && all.total > 1000000);
    EXPECT(AKUNU_OK, akunu_model_free(model));
    model.id = 0;
    load.progress = NULL;
    load.device = "cuda:7";
    EXPECT(AKUNU_ERROR_DEVICE, akunu_model_load(NULL, &load, &model));
    load.device = NULL;
    load.memory = 1000;
    EXPECT(AKUNU_ERROR_MEMORY, akunu_model_load(NULL, &load, &model));
    load.memory = 0;
    load.kv_type = 9;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_model_load(NULL, &load, &model));
}

static void order(void)
{
    akunu_model model = load(), other = load();
    akunu_session session = {0}, fork = {0};
    akunu_grammar grammar = {0};
    akunu_draft draft = {0};
    akunu_generate_options o = options(12);
    char text[1024], again[1024];

    EXPECT(AKUNU_OK, akunu_grammar_compile(model, AKUNU_GRAMMAR_REGEX, " (cat|dog)", AKUNU_NUL_TERMINATED, &grammar));
    EXPECT(AKUNU_OK, akunu_session_create(other, &session));
    o.grammar = grammar;
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_session_generate(session, "a", 1, &o, NULL, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_session_free(session));
    EXPECT(AKUNU_OK, akunu_session_create(model, &session));
    EXPECT(AKUNU_OK, akunu_model_free(model));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_create(model, &fork));
    EXPECT(AKUNU_OK, akunu_session_generate(session, "I saw a", AKUNU_NUL_TERMINATED, &o, NULL, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_session_text(session, text, sizeof text, NULL));
    CHECK(strcmp(text, " cat") == 0 || strcmp(text, " dog") == 0);
    EXPECT(AKUNU_OK, akunu_grammar_free(grammar));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_session_generate(session, "a", 1, &o, NULL, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_session_fork(session, &fork));
    generate(session, " and", text);
    EXPECT(AKUNU_OK, akunu_session_free(session));
    generate(fork, " and", again);
    CHECK(strcmp(text, again) == 0);

    /* A draft model changes nothing of the text. */
    EXPECT(AKUNU_OK, akunu_session_reset(fork));
    generate(fork, "Once", text);
    EXPECT(AKUNU_OK, akunu_draft_load(NULL, NULL, &draft));
    EXPECT(AKUNU_OK, akunu_session_reset(fork));
    o = options(12);
    o.draft = draft;
    EXPECT(AKUNU_OK, akunu_session_generate(fork, "Once", 4, &o, NULL, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_session_text(fork, again, sizeof again, NULL));
    CHECK(strcmp(text, again) == 0);
    EXPECT(AKUNU_OK, akunu_draft_free(draft));
    EXPECT(AKUNU_OK, akunu_session_free(fork));
    EXPECT(AKUNU_OK, akunu_model_free(other));
}

static void low_level(akunu_model model)
{
    akunu_session session = {0};
    akunu_generate_options o = options(10);
    uint32_t prompt[64], generated[64], token;
    size_t count, all, i;

    o.temperature = 0.9f;
    o.seed = 7;
    EXPECT(AKUNU_OK, akunu_session_create(model, &session));
    EXPECT(AKUNU_OK, akunu_tokenize(model, "The dog", 7, AKUNU_ADD_SPECIAL, prompt, 64, &count));
    EXPECT(AKUNU_OK, akunu_session_generate_tokens(session, prompt, count, &o, NULL, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_session_tokens(session, generated, 64, &all));
    CHECK(all == count + 10);
    EXPECT(AKUNU_OK, akunu_session_rewind(session, 0));
    EXPECT(AKUNU_OK, akunu_session_prefill(session, prompt, count));
    for (i = count; i < all; i++) {
        EXPECT(AKUNU_OK, akunu_session_sample(session, &o, &token));
        CHECK(token == generated[i]);
        EXPECT(AKUNU_OK, akunu_session_decode(session, token));
    }
    EXPECT(AKUNU_OK, akunu_session_free(session));
}

struct worker {
    akunu_model model;
    akunu_session shared;
    char text[1024];
};

static void *work(void *data)
{
    struct worker *worker = data;
    akunu_session session = {0};
    int i;
    check(akunu_last_error()[0] == 0, "another thread's error is not ours", __LINE__);
    for (i = 0; i < 100; i++) {
        EXPECT(AKUNU_OK, akunu_session_create(worker->model, &session));
        if (i < 99)
            EXPECT(AKUNU_OK, akunu_session_free(session));
    }
    generate(session, "Once upon a time", worker->text);
    EXPECT(AKUNU_OK, akunu_session_free(session));
    generate(worker->shared, " and", (char[1024]){0});
    return NULL;
}

static void threads(akunu_model model)
{
    struct worker workers[2];
    pthread_t ids[2];
    akunu_session session = {0};
    int i;
    EXPECT(AKUNU_OK, akunu_session_create(model, &session));
    for (i = 0; i < 2; i++) {
        workers[i].model = model;
        workers[i].shared = session;
        CHECK(pthread_create(&ids[i], NULL, work, &workers[i]) == 0);
    }
    for (i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    CHECK(strlen(workers[0].text) > 0 && strcmp(workers[0].text, workers[1].text) == 0);
    EXPECT(AKUNU_OK, akunu_session_free(session));
}

static void *cancel(void *data)
{
    struct timespec some = {0, 20000000};
    nanosleep(&some, NULL);
    EXPECT(AKUNU_OK, akunu_request_cancel(*(akunu_request *)data));
    return NULL;
}

static void services(void)
{
    akunu_model model = load();
    akunu_session session = {0};
    akunu_service service = {0};
    akunu_request request = {0}, other = {0};
    akunu_result result = {.size = sizeof result};
    akunu_generate_options o = options(0);
    struct seen seen = {.most = 2};
    char text[1024];
    pthread_t id;

    EXPECT(AKUNU_OK, akunu_session_create(model, &session));
    EXPECT(AKUNU_ERROR_BUSY, akunu_service_start(model, NULL, &service));
    EXPECT(AKUNU_OK, akunu_session_free(session));
    EXPECT(AKUNU_OK, akunu_service_start(model, NULL, &service));
    EXPECT(AKUNU_ERROR_BUSY, akunu_session_create(model, &session));
    EXPECT(AKUNU_ERROR_BUSY, akunu_service_start(model, NULL, &service));

    o.flags = AKUNU_IGNORE_END | AKUNU_SHIFT_CONTEXT;
    EXPECT(AKUNU_OK, akunu_service_submit(service, "Once", 4, AKUNU_ADD_SPECIAL, &o, &request));
    EXPECT(AKUNU_PENDING, akunu_request_result(request, &result));
    CHECK(pthread_create(&id, NULL, cancel, &request) == 0);
    EXPECT(AKUNU_STOPPED, akunu_request_poll(request, 60000, NULL, NULL));
    pthread_join(id, NULL);
    EXPECT(AKUNU_OK, akunu_request_result(request, &result));
    CHECK(result.finish == AKUNU_FINISH_STOPPED);
    EXPECT(AKUNU_OK, akunu_request_free(request));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_request_poll(request, 0, NULL, NULL));

    EXPECT(AKUNU_OK, akunu_service_submit(service, "Once", 4, AKUNU_ADD_SPECIAL, &o, &request));
    EXPECT(AKUNU_STOPPED, akunu_request_poll(request, 60000, stop_after, &seen));
    EXPECT(AKUNU_OK, akunu_request_text(request, text, sizeof text, NULL));
    EXPECT(AKUNU_OK, akunu_request_free(request));

    o = options(6);
    EXPECT(AKUNU_OK, akunu_service_submit(service, "Once", 4, AKUNU_ADD_SPECIAL, &o, &request));
    EXPECT(AKUNU_OK, akunu_request_poll(request, 60000, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_request_poll(request, 0, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_request_result(request, &result));
    CHECK(result.finish == AKUNU_FINISH_LENGTH && result.generated_tokens == 6);
    EXPECT(AKUNU_OK, akunu_request_free(request));
    EXPECT(AKUNU_OK, akunu_service_submit(service, "", 0, 0, &o, &request));
    EXPECT(AKUNU_ERROR_ARGUMENT, akunu_request_poll(request, 60000, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_request_free(request));

    /* A service that goes takes what runs with it. */
    o.flags = AKUNU_IGNORE_END | AKUNU_SHIFT_CONTEXT;
    o.max_tokens = 0;
    EXPECT(AKUNU_OK, akunu_service_submit(service, "Once", 4, AKUNU_ADD_SPECIAL, &o, &request));
    EXPECT(AKUNU_OK, akunu_service_free(service));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_service_submit(service, "Once", 4, AKUNU_ADD_SPECIAL, &o, &other));
    EXPECT(AKUNU_ERROR_FAILED, akunu_request_poll(request, 60000, NULL, NULL));
    EXPECT(AKUNU_OK, akunu_request_free(request));
    EXPECT(AKUNU_OK, akunu_model_free(model));
}

/* What a child does, whose exit says how it went; one that hangs is ended by its alarm. */
static void in_child(void (*run)(akunu_model), akunu_model model)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        alarm(600);
        run(model);
        fflush(NULL);
        _exit(failures ? 1 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void before_the_fork(akunu_model none)
{
    akunu_model model = load();
    akunu_session session = {0};
    char text[1024];
    (void)none;
    EXPECT(AKUNU_OK, akunu_session_create(model, &session));
    generate(session, "Once", text);
}

static void after_the_fork(akunu_model model)
{
    akunu_session session = {0};
    akunu_load_options load;
    EXPECT(AKUNU_ERROR_FORKED, akunu_session_create(model, &session));
    EXPECT(AKUNU_ERROR_FORKED, akunu_tokenize(model, "x", 1, 0, NULL, 0, NULL));
    EXPECT(AKUNU_ERROR_FORKED, akunu_model_free(model));
    EXPECT(AKUNU_ERROR_FORKED, akunu_model_load(NULL, NULL, &model));
    EXPECT(AKUNU_ERROR_FORKED, akunu_load_options_default(&load, sizeof load));
    CHECK(strlen(akunu_version()) > 0);
}

int main(void)
{
    akunu_model model, none = {0};
    in_child(before_the_fork, none);
    model = load();
    in_child(after_the_fork, model);
    handles(model);
    arguments(model);
    callbacks(model);
    low_level(model);
    loading();
    threads(model);
    EXPECT(AKUNU_OK, akunu_model_free(model));
    EXPECT(AKUNU_ERROR_HANDLE, akunu_model_free(model));
    order();
    services();
    if (failures == 0)
        printf("all as documented\n");
    return failures != 0;
}
