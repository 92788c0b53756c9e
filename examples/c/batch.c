/* Many texts at once: one model, requests whose pieces come as they are ready: batch [MODEL]. */
#include <akunu/akunu.h>
#include <stdio.h>

#define REQUESTS 4

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, akunu_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    static const char *const prompts[REQUESTS] = {"Once upon a time", "The dog", "Tom and Lily went", "In the garden"};
    akunu_load_options load;
    akunu_generate_options options;
    akunu_model model = {0};
    akunu_service service = {0};
    akunu_request requests[REQUESTS] = {{0}};
    akunu_service_info info = {.size = sizeof info};
    int i, running = REQUESTS;

    akunu_load_options_default(&load, sizeof load);
    load.sequences = REQUESTS;
    if (akunu_model_load(argc > 1 ? argv[1] : NULL, &load, &model) != AKUNU_OK)
        return fail("load");
    if (akunu_service_start(model, NULL, &service) != AKUNU_OK)
        return fail("service");

    akunu_generate_options_default(&options, sizeof options);
    options.max_tokens = 24;
    for (i = 0; i < REQUESTS; i++)
        if (akunu_service_submit(service, prompts[i], AKUNU_NUL_TERMINATED, AKUNU_ADD_SPECIAL, &options, &requests[i]))
            return fail(prompts[i]);

    /* Whoever is not interested in pieces polls with a long timeout instead, one request after the other. */
    while (running > 0) {
        for (running = 0, i = 0; i < REQUESTS; i++) {
            akunu_status status = akunu_request_poll(requests[i], 10, NULL, NULL);
            if (status < 0)
                return fail(prompts[i]);
            running += status == AKUNU_PENDING;
        }
    }
    for (i = 0; i < REQUESTS; i++) {
        char text[1024];
        if (akunu_request_text(requests[i], text, sizeof text, NULL) != AKUNU_OK)
            return fail("text");
        printf("%s%s\n", prompts[i], text);
        akunu_request_free(requests[i]);
    }
    if (akunu_service_describe(service, &info) != AKUNU_OK)
        return fail("describe");
    printf("%llu tokens in %llu steps\n", (unsigned long long)info.generated_tokens, (unsigned long long)info.steps);
    akunu_service_free(service);
    akunu_model_free(model);
    return 0;
}
