/* What is said in a recording, and when: transcribe MODEL RECORDING. */
#include <akunu/akunu.h>
#include <stdio.h>

static int32_t print(const akunu_segment *segment, void *user_data)
{
    (void)user_data;
    printf("%7.2f-%.2f%s\n", segment->start, segment->end, segment->text);
    return 0;
}

int main(int argc, char **argv)
{
    akunu_transcriber transcriber = {0};
    char language[16];

    if (argc < 3) {
        fprintf(stderr, "give a model and a recording\n");
        return 2;
    }
    if (akunu_transcriber_load(argv[1], NULL, &transcriber) != AKUNU_OK ||
        akunu_transcribe(transcriber, argv[2], NULL, print, NULL) != AKUNU_OK ||
        akunu_transcript_language(transcriber, language, sizeof language, NULL) != AKUNU_OK) {
        fprintf(stderr, "%s\n", akunu_last_error());
        return 1;
    }
    printf("language: %s\n", language);
    akunu_transcriber_free(transcriber);
    return 0;
}
