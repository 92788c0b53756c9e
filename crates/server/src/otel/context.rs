//! `traceparent` of W3C Trace Context: the trace that a request belongs to.

/// Who asks.
#[derive(Debug, PartialEq)]
pub struct Parent {
    pub trace: String,
    pub span: String,
    pub sampled: bool,
}

impl Parent {
    /// `None` where it is not as the specification has it: then the request begins a trace of its own.
    pub fn parse(header: &str) -> Option<Parent> {
        let mut fields = header.split('-');
        let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        // Versions to come may add fields; the first has none.
        let known = is_hex(version, 2) && version != "ff" && (version != "00" || fields.next().is_none());
        let named =
            is_hex(trace, 32) && is_hex(span, 16) && [trace, span].iter().all(|id| id.bytes().any(|b| b != b'0'));
        let flags = if is_hex(flags, 2) { u8::from_str_radix(flags, 16).ok()? } else { return None };
        (known && named).then(|| Parent { trace: trace.into(), span: span.into(), sampled: flags & 1 == 1 })
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_parent_is_read() {
        let parent = Parent::parse(&format!("00-{TRACE}-00f067aa0ba902b7-01")).unwrap();
        assert_eq!(parent, Parent { trace: TRACE.into(), span: "00f067aa0ba902b7".into(), sampled: true });
        assert!(!Parent::parse(&format!("00-{TRACE}-00f067aa0ba902b7-00")).unwrap().sampled);
        assert!(Parent::parse(&format!("01-{TRACE}-00f067aa0ba902b7-03-more")).unwrap().sampled);
    }

    #[test]
    fn what_is_none_begins_a_trace_of_its_own() {
        let (zeros, span) = ("0".repeat(32), "00f067aa0ba902b7");
        for header in [
            "",
            "00",
            &format!("00-{zeros}-{span}-01"),
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("ff-{TRACE}-{span}-01"),
            &format!("00-{TRACE}-{span}-01-more"),
            &format!("00-{}-{span}-01", TRACE.to_uppercase()),
            &format!("00-{TRACE}-{span}-1"),
            &format!("00-{TRACE}-{span}-xx"),
            &format!("00-{TRACE}é-{span}-01"),
        ] {
            assert_eq!(Parent::parse(header), None, "{header}");
        }
    }
}
