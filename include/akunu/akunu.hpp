/* Akunu's C API for C++17: handles that free themselves, errors as exceptions, callbacks that may throw.
 * Everything else is called as it is: `akunu_session_rewind(session.get(), 0)`. */
#ifndef AKUNU_HPP
#define AKUNU_HPP

#include <akunu/akunu.h>

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace akunu {

/** A call that failed. */
class error : public std::runtime_error {
public:
    explicit error(akunu_status status) : std::runtime_error(akunu_last_error()), status(status) {}
    akunu_status status;
};

/** Throws where a call failed; gives what it said otherwise. */
inline akunu_status check(akunu_status status)
{
    if (status < 0)
        throw error(status);
    return status;
}

/** A struct for the library to fill. */
template <class T> T sized()
{
    T value{};
    value.size = sizeof value;
    return value;
}

inline akunu_load_options load_options()
{
    akunu_load_options options;
    akunu_load_options_default(&options, sizeof options);
    return options;
}

inline akunu_generate_options generate_options()
{
    akunu_generate_options options;
    akunu_generate_options_default(&options, sizeof options);
    return options;
}

/** A handle with one owner. */
template <class H, akunu_status (*Free)(H)> class handle {
public:
    handle() = default;
    handle(handle &&other) noexcept : raw(std::exchange(other.raw, H{})) {}
    handle &operator=(handle &&other) noexcept
    {
        std::swap(raw, other.raw);
        return *this;
    }
    ~handle() { Free(raw); }
    H get() const { return raw; }

protected:
    H raw{};
};

/** The text that a call copies into a buffer, called twice: how long it is, and the text. */
template <class Call> std::string text(Call call)
{
    std::size_t length = 0;
    check(call(nullptr, std::size_t(0), &length));
    std::string text(length + 1, '\0');
    check(call(text.data(), text.size(), &length));
    text.resize(length);
    return text;
}

/** Sees every piece; false ends the generation. */
using on_piece = std::function<bool(const akunu_piece &)>;

/** A callback on its way through C, which no exception may cross. */
class piece_callback {
public:
    explicit piece_callback(const on_piece &see) : see(see) {}
    static int32_t call(const akunu_piece *piece, void *self)
    {
        auto *callback = static_cast<piece_callback *>(self);
        try {
            return callback->see(*piece) ? 0 : 1;
        } catch (...) {
            callback->thrown = std::current_exception();
            return 1;
        }
    }
    akunu_piece_callback function() const { return see ? &call : nullptr; }
    akunu_status check(akunu_status status) const
    {
        if (thrown)
            std::rethrow_exception(thrown);
        return akunu::check(status);
    }

private:
    const on_piece &see;
    std::exception_ptr thrown;
};

class model : public handle<akunu_model, akunu_model_free> {
public:
    /** NULL: the model inside the library. */
    explicit model(const char *path = nullptr, const akunu_load_options &options = load_options())
    {
        check(akunu_model_load(path, &options, &raw));
    }
    akunu_model_info info() const
    {
        auto info = sized<akunu_model_info>();
        check(akunu_model_describe(raw, &info));
        return info;
    }
    std::vector<uint32_t> tokenize(std::string_view text, uint32_t flags = AKUNU_ADD_SPECIAL) const
    {
        std::size_t count = 0;
        check(akunu_tokenize(raw, text.data(), text.size(), flags, nullptr, 0, &count));
        std::vector<uint32_t> tokens(count);
        check(akunu_tokenize(raw, text.data(), text.size(), flags, tokens.data(), count, &count));
        return tokens;
    }
    std::string detokenize(const std::vector<uint32_t> &tokens, uint32_t flags = 0) const
    {
        return text([&](char *to, std::size_t capacity, std::size_t *length) {
            return akunu_detokenize(raw, tokens.data(), tokens.size(), flags, to, capacity, length);
        });
    }
};

class grammar : public handle<akunu_grammar, akunu_grammar_free> {
public:
    grammar(const model &model, uint32_t kind, std::string_view source)
    {
        check(akunu_grammar_compile(model.get(), kind, source.data(), source.size(), &raw));
    }
};

class session : public handle<akunu_session, akunu_session_free> {
public:
    explicit session(const model &model) { check(akunu_session_create(model.get(), &raw)); }

    akunu_result generate(std::string_view prompt, const akunu_generate_options &options = generate_options(),
                          const on_piece &see = {})
    {
        auto result = sized<akunu_result>();
        piece_callback callback(see);
        callback.check(akunu_session_generate(raw, prompt.data(), prompt.size(), &options, callback.function(), &callback,
                                              &result));
        return result;
    }
    akunu_result chat(const std::vector<akunu_message> &messages,
                      const akunu_generate_options &options = generate_options(), const on_piece &see = {})
    {
        auto result = sized<akunu_result>();
        piece_callback callback(see);
        callback.check(akunu_session_chat(raw, messages.data(), messages.size(), &options, callback.function(), &callback,
                                          &result));
        return result;
    }
    /** Of the last generation. */
    std::string text() const
    {
        return akunu::text([&](char *to, std::size_t capacity, std::size_t *length) {
            return akunu_session_text(raw, to, capacity, length);
        });
    }
};

class request : public handle<akunu_request, akunu_request_free> {
public:
    /** AKUNU_PENDING where it has not ended within the time. */
    akunu_status poll(uint32_t timeout_ms, const on_piece &see = {})
    {
        piece_callback callback(see);
        return callback.check(akunu_request_poll(raw, timeout_ms, callback.function(), &callback));
    }
    /** What polls have shown so far. */
    std::string text() const
    {
        return akunu::text([&](char *to, std::size_t capacity, std::size_t *length) {
            return akunu_request_text(raw, to, capacity, length);
        });
    }

private:
    friend class service;
};

class service : public handle<akunu_service, akunu_service_free> {
public:
    explicit service(const model &model, const akunu_service_options *options = nullptr)
    {
        check(akunu_service_start(model.get(), options, &raw));
    }
    request submit(std::string_view text, const akunu_generate_options &options = generate_options(),
                   uint32_t flags = AKUNU_ADD_SPECIAL)
    {
        request made;
        check(akunu_service_submit(raw, text.data(), text.size(), flags, &options, &made.raw));
        return made;
    }
};

} // namespace akunu

#endif
