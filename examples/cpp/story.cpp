// A story that keeps to a grammar, then many at once: story [MODEL].
#include <akunu/akunu.hpp>

#include <iostream>

int main(int argc, char **argv)
try {
    auto load = akunu::load_options();
    load.sequences = 2;
    akunu::model model(argc > 1 ? argv[1] : nullptr, load);
    std::cout << model.info().architecture << ", " << model.info().parameters << " parameters\n";

    auto options = akunu::generate_options();
    options.max_tokens = 32;
    {
        akunu::grammar mood(model, AKUNU_GRAMMAR_REGEX, " (happy|sad)\\.");
        akunu::session session(model);
        auto bound = options;
        bound.grammar = mood.get();
        session.generate("The cat was", bound);
        std::cout << "The cat was" << session.text() << "\n";
        // It goes on from there: nothing is computed twice.
        session.generate(" One day", options, [](const akunu_piece &piece) {
            std::cout.write(piece.text, static_cast<std::streamsize>(piece.length)).flush();
            return true;
        });
        std::cout << "\n";
    }

    akunu::service service(model); // the model has no sessions any more
    akunu::request one = service.submit("Once upon a time", options), other = service.submit("The dog", options);
    while (one.poll(1000) == AKUNU_PENDING || other.poll(1000) == AKUNU_PENDING) {
    }
    std::cout << "Once upon a time" << one.text() << "\nThe dog" << other.text() << "\n";
} catch (const akunu::error &error) {
    std::cerr << akunu_status_name(error.status) << ": " << error.what() << "\n";
    return 1;
}
