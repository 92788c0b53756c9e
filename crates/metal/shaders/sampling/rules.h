// The rules of a transcribed text, as the plan defines them (`rules.rs`).
#pragma once
#include "sampling/order.h"
#include "steps.h"

inline bool is_timestamp(device const Rules &rules, uint token) { return token >= rules.first_timestamp; }

inline bool text_ended(device const Rules &rules, device const RuleVars &text) { return text.count > 0 && text.last == rules.end; }

// A sum that stops at the largest number.
inline uint saturated(uint a, uint b) { return a > ~b ? ~0u : a + b; }

// Which tokens the text so far leaves possible, those that the rules list aside: words from one on, and a range of timestamps.
struct Possible {
    uint first_timestamp;
    uint word_from;
    uint time_from;
    uint time_to;

    bool has(uint token) const {
        return token < first_timestamp ? token >= word_from : token >= time_from && token < time_to;
    }
};

inline Possible possible(device const Rules &rules, device const RuleVars &text) {
    const uint first = rules.first_timestamp;
    Possible p = {first, 0, first, ~0u};
    if (rules.timestamps == 0) {
        p.time_to = 0;
        return p;
    }
    if (text.count == 0) {
        p.word_from = first;
        p.time_to = saturated(first, saturated(rules.latest_start, 1));
        return p;
    }
    // Timestamps come in pairs, but for one before the end.
    const bool last = is_timestamp(rules, text.last);
    const bool closes = last && text.count > 1 && !is_timestamp(rules, text.before);
    if (closes) p.word_from = min(rules.end, first);
    else if (last) p.time_to = 0;
    // They never go back, and a segment is never empty.
    if (is_timestamp(rules, text.latest)) p.time_from = saturated(text.latest, uint(!closes));
    return p;
}

// Goes on with a token; nothing follows the end.
inline void push(device const Rules &rules, device RuleVars &text, uint token, float logit, float total) {
    if (text_ended(rules, text)) return;
    text.count = saturated(text.count, 1);
    text.before = text.last;
    text.last = token;
    if (is_timestamp(rules, token)) text.latest = token;
    text.sum = text.sum + (logit - total);
    text.total = total;
}
