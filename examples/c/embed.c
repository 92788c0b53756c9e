/* Which of some sentences is nearest to the first: embed MODEL SENTENCE SENTENCE... */
#include <akunu/akunu.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, akunu_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    akunu_embedder embedder = {0};
    akunu_embedder_info info = {.size = sizeof info};
    size_t count, values, i, k;
    float *vectors;

    if (argc < 3) {
        fprintf(stderr, "give a model and sentences\n");
        return 2;
    }
    count = (size_t)argc - 2;
    if (akunu_embedder_load(argv[1], NULL, AKUNU_PURPOSE_EMBED, AKUNU_POOLING_MODEL, &embedder) != AKUNU_OK)
        return fail("load");
    if (akunu_embedder_describe(embedder, &info) != AKUNU_OK)
        return fail("describe");
    values = count * info.width;
    vectors = malloc(values * sizeof *vectors);
    if (!vectors)
        return 1;
    if (akunu_embed(embedder, (const char *const *)argv + 2, count, AKUNU_EMBED_CUT, vectors, values, NULL) != AKUNU_OK)
        return fail("embed");
    for (i = 0; i < count; i++) {
        float cosine = 0; /* vectors have length 1 */
        for (k = 0; k < info.width; k++)
            cosine += vectors[k] * vectors[i * info.width + k];
        printf("%.4f  %s\n", cosine, argv[i + 2]);
    }
    free(vectors);
    akunu_embedder_free(embedder);
    return 0;
}
