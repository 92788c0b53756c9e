//! Template expressions rewritten so that every operation that makes or looks at texts and lists pays for it.
//!
//! The operands of `+` pass a filter that counts them, those of `~` one that also writes them as Python does; `*` becomes a
//! filter that counts before it repeats, and slices and subscripts that are no constants become filters too. What is compared,
//! searched, looped over or used as a key passes a filter that pays for looking at it, unless the other side is a short literal.
//! The filters give back what they got, so the value of an expression stays what it was, with one difference that is wanted:
//! what is added to a text marked `|safe` is escaped, as Python's markup strings do.

use super::budget::{COUNT, CYCLE, ITEM, KEEP, MARKUP, NUMBER, READ, REPEAT, SEARCH, TEXT, WALK};
use super::scan::{KEYWORDS, SHORT, assigned, is_near, is_word, literals_follow, next, string_end, word_end};
use super::slice::SLICE;

/// What an open bracket is.
#[derive(Default, PartialEq)]
enum Bracket {
    /// Of a call, or of names that are declared.
    #[default]
    Other,
    /// `(…)`, which is a list if it has commas.
    Group,
    /// `[…]`
    List,
    /// `x[…]`, and where `x` begins in what is written.
    Subscript(usize),
    /// `{…}`
    Dictionary,
    /// Of a call that compares its arguments.
    Compared,
    /// Of a call of `x.cycle`: where `x` begins, and the dot.
    Cycle(usize, usize),
}

/// Where in a test the last token is.
#[derive(Clone, Copy, Default, PartialEq)]
enum Test {
    #[default]
    No,
    /// It is `is`, with or without `not`.
    Is,
    /// It is the test's name: an argument may follow.
    Name,
}

/// An open bracket (or the whole expression), and which operations are under way directly inside it.
#[derive(Default)]
struct Frame {
    bracket: Bracket,
    /// A colon made a subscript a slice, and a comma a group a list.
    sliced: bool,
    listed: bool,
    /// Something in it is not a constant.
    varies: bool,
    /// Where, in what is written, the operand begins that the bracket is a part of, the bracket's inside, and what comes after its last comma.
    begins: usize,
    inside: usize,
    part: usize,
    /// Tokens since then.
    tokens: usize,
    /// It is a list or dictionary of arguments.
    splat: bool,
    /// Where the operand of a comparison begins, and whether it has operators.
    term: Option<usize>,
    compound: bool,
    /// The filter for the right side of `in`, which is in brackets.
    searched: Option<&'static str>,
    sum: bool,
    /// The sum has a term marked `|safe`.
    safe_sum: bool,
    text: bool,
    /// What ends the right operand of `*`.
    factor: Option<Factor>,
    /// `/`, `%` or `**` came before: the left operand of a following `*` is not the last word.
    quotient: bool,
}

#[derive(Clone, Copy)]
enum Factor {
    /// It is the argument of a filter.
    Argument,
    /// It must be a number.
    Number,
}

impl Frame {
    /// Ends the right operand of `*`.
    fn end_factor(&mut self, out: &mut String) {
        match self.factor.take() {
            None => return,
            Some(Factor::Argument) => out.push(')'),
            Some(Factor::Number) => pipe(NUMBER, out),
        }
        self.quotient = false;
    }

    /// Ends the sums that are under way.
    fn end_sums(&mut self, out: &mut String) {
        self.end_factor(out);
        for (active, filter) in [(&mut self.safe_sum, MARKUP), (&mut self.text, TEXT), (&mut self.sum, COUNT)] {
            if std::mem::take(active) {
                pipe(filter, out);
            }
        }
        self.quotient = false;
    }

    /// Ends every operation that is under way.
    fn end(&mut self, out: &mut String) {
        self.end_sums(out);
        if let Some(filter) = self.searched.take() {
            out.push(')');
            pipe(filter, out);
        }
        (self.term, self.compound) = (None, false);
    }

    /// Ends the left side of a comparison, which is paid for.
    fn end_compared(&mut self, out: &mut String) {
        self.end_sums(out);
        match self.term.filter(|_| self.compound && self.searched.is_none()) {
            Some(at) => enclose(READ, at, out),
            None => {
                self.end(out);
                pipe(READ, out);
            }
        }
        self.end(out);
    }

    /// Ends an argument of a call, which is paid for if it is compared or stands for many.
    fn end_part(&mut self, operand: bool, out: &mut String) {
        let filter = match self.bracket {
            Bracket::Compared => READ,
            _ if self.splat => COUNT,
            _ => return,
        };
        if operand {
            enclose(filter, self.part, out);
        }
    }

    /// Begins what comes after a comma.
    fn next_part(&mut self, out: &str) {
        (self.part, self.tokens, self.splat) = (out.len(), 0, false);
    }
}

fn pipe(filter: &str, out: &mut String) {
    out.push('|');
    out.push_str(filter);
    out.push(' ');
}

/// Puts all from `at` on into brackets, and through a filter.
fn enclose(filter: &str, at: usize, out: &mut String) {
    let stars = out[at..].find(|c: char| c != '*' && !c.is_ascii_whitespace()).unwrap_or(0);
    out.insert(at + stars, '(');
    out.push(')');
    pipe(filter, out);
}

/// Appends the rewritten `body` to `out`.
pub(super) fn counted(body: &str, out: &mut String) {
    let bytes = body.as_bytes();
    let mut frames = vec![Frame { inside: out.len(), part: out.len(), ..Frame::default() }];
    let mut at = 0;
    let mut operand = false; // The last token ends an operand.
    let mut literal = false; // It is a short literal.
    let mut begins = 0; // Where it begins in what is written.
    let mut piped = false; // The last token is `|`.
    let mut dotted = None; // Where, if the last token is `.`.
    let mut safe_term = false; // The last term ends in `|safe`.
    let mut compares = false; // The last token is a method that compares its arguments.
    let mut cycles = None; // The last token is `cycle` after this dot.
    let mut test = Test::No;
    let mut loops = false; // The `in` of a loop is still to come.
    let mut declares = false; // Names are declared: those of a loop, or the arguments of a block.
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        if byte.is_ascii_whitespace() {
            out.push(byte as char);
            at += 1;
            continue;
        }
        let was_piped = std::mem::take(&mut piped);
        let dot = std::mem::take(&mut dotted);
        let was_dotted = dot.is_some();
        let was_test = std::mem::take(&mut test);
        let compared = std::mem::take(&mut compares);
        let cycled = std::mem::take(&mut cycles);
        // Never empty: the first frame is not popped.
        let Some(frame) = frames.last_mut() else { return };
        frame.tokens += 1;
        match byte {
            b'\'' | b'"' => {
                at = string_end(bytes, at, byte).unwrap_or(bytes.len());
                begins = out.len();
                frame.term.get_or_insert(begins);
                out.push_str(&body[start..at]);
                (operand, safe_term, literal) = (true, false, at - start <= SHORT);
            }
            _ if is_word(byte) => {
                at = word_end(bytes, at);
                let word = &body[start..at];
                if KEYWORDS.contains(&word) && !was_piped && !was_dotted {
                    let left = std::mem::replace(&mut operand, false);
                    match word {
                        "is" if left => {
                            frame.end_sums(out);
                            frame.compound = true;
                        }
                        "in" if left && loops => frame.end(out),
                        "in" | "not" if left => {
                            if literal && !frame.compound {
                                frame.end(out)
                            } else {
                                frame.end_compared(out)
                            }
                        }
                        _ if left => frame.end(out),
                        _ => {}
                    }
                    out.push_str(word);
                    match word {
                        "for" => (loops, declares) = (true, true),
                        "call" => declares = true,
                        "is" => test = Test::Is,
                        "not" => test = was_test,
                        "in" if was_test == Test::Is => test = Test::Name,
                        "in" => {
                            let filter = if std::mem::take(&mut loops) { WALK } else { SEARCH };
                            declares = false;
                            if filter == WALK || !literals_follow(bytes, at) {
                                out.push('(');
                                frame.searched = Some(filter);
                            }
                        }
                        _ => {}
                    }
                    continue;
                }
                if !was_piped && !was_dotted {
                    begins = out.len();
                    frame.term.get_or_insert(begins);
                }
                out.push_str(word);
                let constant =
                    byte.is_ascii_digit() || matches!(word, "none" | "true" | "false" | "None" | "True" | "False");
                frame.varies |= !constant;
                literal = constant && word.len() <= SHORT && !was_piped && !was_dotted && was_test != Test::Is;
                (operand, safe_term) = (true, was_piped && word == "safe");
                compares = was_dotted && word == "changed";
                cycles = dot.filter(|_| word == "cycle");
                if was_test == Test::Is {
                    test = Test::Name;
                }
            }
            b'+' if operand => {
                frame.end_factor(out);
                if frame.safe_sum {
                    pipe(MARKUP, out);
                }
                if std::mem::take(&mut frame.text) {
                    pipe(TEXT, out);
                }
                pipe(COUNT, out);
                frame.safe_sum |= safe_term;
                (frame.sum, frame.quotient, frame.compound) = (true, false, true);
                out.push('+');
                (at, operand) = (at + 1, false);
            }
            b'~' if operand => {
                frame.end_factor(out);
                pipe(TEXT, out);
                (frame.text, frame.quotient, frame.compound) = (true, false, true);
                out.push('~');
                (at, operand) = (at + 1, false);
            }
            b'*' | b'/' | b'%' if operand => {
                let double = byte != b'%' && bytes.get(at + 1) == Some(&byte);
                at += 1 + usize::from(double);
                frame.compound = true;
                match (byte, double) {
                    (b'*', false) => {
                        frame.end_factor(out);
                        if frame.quotient {
                            out.push('*');
                            frame.factor = Some(Factor::Number);
                        } else {
                            out.push('|');
                            out.push_str(REPEAT);
                            out.push('(');
                            frame.factor = Some(Factor::Argument);
                        }
                    }
                    // Binds tighter than `*`: part of the operand.
                    (b'*', true) => {
                        frame.quotient |= frame.factor.is_none();
                        out.push_str("**");
                    }
                    _ => {
                        frame.end_factor(out);
                        frame.quotient = true;
                        out.push_str(&body[start..at]);
                    }
                }
                operand = false;
            }
            b'(' | b'[' | b'{' => {
                let bracket = match byte {
                    b'[' if operand && was_test != Test::Name => Bracket::Subscript(begins),
                    b'[' if was_test != Test::Name => Bracket::List,
                    b'{' => Bracket::Dictionary,
                    b'(' if compared => Bracket::Compared,
                    b'(' if let Some(dot) = cycled => Bracket::Cycle(begins, dot),
                    b'(' if !operand && !declares => Bracket::Group,
                    _ => Bracket::Other,
                };
                frame.varies |= operand;
                declares &= loops;
                if !operand {
                    begins = out.len();
                    frame.term.get_or_insert(begins);
                }
                out.push(byte as char);
                // A frame remembers for the operand that it is a part of where that begins.
                frames.push(Frame { bracket, inside: out.len(), part: out.len(), begins, ..Frame::default() });
                (at, operand, literal) = (at + 1, false, false);
            }
            b')' | b']' | b'}' => {
                frame.tokens -= 1;
                if operand {
                    frame.end(out);
                }
                frame.end_part(operand, out);
                let sliced = frame.sliced;
                let filter = match frame.bracket {
                    Bracket::Subscript(base) if sliced => Some((SLICE, base, frame.inside - 1)),
                    Bracket::Subscript(base) if operand && !is_near(&out[frame.inside..]) => {
                        Some((ITEM, base, frame.inside - 1))
                    }
                    Bracket::Cycle(base, dot) => Some((CYCLE, base, dot)),
                    _ => None,
                };
                match filter {
                    Some((filter, base, open)) => {
                        if sliced && frame.tokens == 0 {
                            out.push_str("none");
                        }
                        out.replace_range(open..frame.inside, &format!("|{filter}("));
                        out.insert(base, '(');
                        out.push_str("))");
                    }
                    None => out.push(byte as char),
                }
                at += 1;
                let closed = if frames.len() > 1 { frames.pop() } else { None }.unwrap_or_default();
                begins = closed.begins;
                if let Some(outer) = frames.last_mut() {
                    outer.varies |= closed.varies;
                    let kept = match closed.bracket {
                        Bracket::List | Bracket::Dictionary => {
                            !matches!(outer.bracket, Bracket::List | Bracket::Dictionary)
                        }
                        Bracket::Group => closed.listed && !assigned(bytes, at),
                        _ => false,
                    };
                    match next(bytes, at) {
                        _ if !kept || !closed.varies => {}
                        Some(b'[' | b'.' | b'(') => {
                            out.insert(begins, '(');
                            pipe(KEEP, out);
                            out.push(')');
                        }
                        _ => pipe(KEEP, out),
                    }
                }
                (operand, safe_term, literal) = (true, false, false);
            }
            b'=' | b'<' | b'>' | b'!' if byte == b'<' || byte == b'>' || bytes.get(at + 1) == Some(&b'=') => {
                at += 1 + usize::from(bytes.get(at + 1) == Some(&b'='));
                if operand {
                    let short = literal && !frame.compound || literals_follow(bytes, at);
                    if short { frame.end(out) } else { frame.end_compared(out) }
                }
                out.push_str(&body[start..at]);
                (operand, safe_term, literal) = (false, false, false);
            }
            b'-' | b'+' => {
                if operand {
                    frame.end_sums(out);
                }
                frame.term.get_or_insert(out.len());
                frame.compound = true;
                out.push(byte as char);
                (at, operand, safe_term, literal) = (at + 1, false, false, false);
            }
            b',' | b':' | b'=' => {
                frame.tokens -= 1;
                if operand {
                    frame.end(out);
                }
                if byte == b',' {
                    frame.end_part(operand, out);
                } else if byte == b':'
                    && frame.bracket == Bracket::Dictionary
                    && operand
                    && !(literal && frame.tokens == 1)
                {
                    enclose(READ, frame.part, out);
                }
                frame.listed |= byte == b',';
                match frame.bracket {
                    Bracket::Subscript(_) if byte == b':' => {
                        out.push_str(if frame.tokens == 0 { "none," } else { "," });
                        frame.sliced = true;
                    }
                    _ => out.push(byte as char),
                }
                frame.next_part(out);
                (at, operand, safe_term, literal) = (at + 1, false, false, false);
            }
            _ => {
                frame.splat |= byte == b'*';
                (piped, dotted) = (byte == b'|', (byte == b'.').then_some(out.len()));
                (operand, safe_term, literal) = (false, false, false);
                at += 1;
                out.push(byte as char);
            }
        }
    }
    if operand && let Some(frame) = frames.last_mut() {
        frame.end(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_text_is_counted() {
        let mut wrong = Vec::new();
        for (body, expected) in [
            ("a + b", "a |__count + b|__count "),
            ("+1", "+1"),
            ("a.b + c[0] - d", "a.b |__count + c[0] |__count - d"),
            ("'a + b' ~ x ~ y", "'a + b' |__text ~ x |__text ~ y|__text "),
            ("a + b ~ c + d", "a |__count + b |__text ~ c |__text |__count + d|__count "),
            ("f(a + b, c)", "f(a |__count + b|__count , c)"),
            ("a + b if c else d", "a |__count + b |__count if c else d"),
            ("a + b == 1", "a |__count + b |__count == 1"),
            ("x | default('a') | map('b')", "x | default('a') | map('b')"),
            ("s[1:]", "(s|__slice(1,none))"),
            ("f(s)[:][0]", "(f(s)|__slice(none,none))[0]"),
            ("a.b[1 : ][::c - 1].d", "((a.b|__slice(1 , none))|__slice(none,none,c - 1)).d"),
            ("loop.cycle(a + b)", "(loop|__cycle(a |__count + b|__count ))"),
            ("loop . cycle () ~ c", "(loop |__cycle()) |__text ~ c|__text "),
            ("[1, a][b]", "(([1, a]|__keep )|__item(b))"),
            ("a['b'][0][c - 1].d[-1]", "((a['b'][0]|__item(c - 1)).d|__item(-1))"),
            ("f(a, *b, **c) * 2", "f(a, *(b)|__count , **(c)|__count ) |__repeat( 2)"),
            ("[1, [a]]", "[1, [a]]|__keep "),
            ("f((1, {'a': b}))", "f((1, {'a': b}|__keep )|__keep )"),
            ("for (a, b) in [(1, 2)]", "for (a, b) in( [(1, 2)])|__walk "),
            ("call(a, b) f((a, 1))", "call(a, b) f((a, 1)|__keep )"),
            ("with (a, b) = (c, 1)", "with (a, b) = (c, 1)|__keep "),
            ("{'a': b, c: 1}['c']", "({'a': b, (c)|__read : 1}|__keep )['c']"),
            ("x is eq [b]", "x is eq [b]"),
            ("a == 'b' and 1 != c and -a < b", "a == 'b' and 1 != c and (-a )|__read < b"),
            ("a == b or c + 'd' >= e", "a |__read == b or (c |__count + 'd' |__count )|__read >= e"),
            ("'a' in b and c in d", "'a' in( b )|__search and c |__read in( d)|__search "),
            ("c not in d + e", "c |__read not in( d |__count + e|__count )|__search "),
            ("a in ['b', \"c\"] or d in ('e')", "a |__read in ['b', \"c\"] or d |__read in ('e')"),
            ("for a in b if c in d", "for a in( b )|__walk if c |__read in( d)|__search "),
            ("for a, b in c.items() recursive", "for a, b in( c.items() )|__walk recursive"),
            ("loop.changed(a, *b)", "loop.changed((a)|__read , *(b)|__read )"),
            ("a * b", "a |__repeat( b)"),
            ("a * b * c", "a |__repeat( b )|__repeat( c)"),
            ("a * b + c", "a |__repeat( b )|__count + c|__count "),
            ("a / b * c + d", "a / b * c |__number |__count + d|__count "),
            ("a * b ** c * d", "a |__repeat( b ** c )|__repeat( d)"),
            ("a ** b * c", "a ** b * c|__number "),
            ("a % b // c", "a % b // c"),
            ("-a * -b", "-a |__repeat( -b)"),
            ("f(*args)", "f(*(args)|__count )"),
            ("'x'|safe + f(a) + c", "'x'|safe |__count + f(a) |__markup |__count + c|__markup |__count "),
            ("[a|safe + b, c]", "[a|safe |__count + b|__markup |__count , c]|__keep "),
            ("x is in + y", "x is in + y"),
            ("é ~ 'ü'", "é |__text ~ 'ü'|__text "),
        ] {
            let mut out = String::new();
            counted(body, &mut out);
            if out != expected {
                wrong.push(format!("{body:?}: {out:?}, not {expected:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
