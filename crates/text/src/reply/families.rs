//! How families write calls: a row each.
//!
//! A reply with two calls is `first NAME middle ARGUMENTS after`, `next NAME middle ARGUMENTS after`, `close`.

use super::literal::ID;

pub struct Family {
    pub name: &'static str,
    /// Before the name of the first call, and of every other one; `None`: there is only one.
    pub first: String,
    pub next: Option<String>,
    /// Between a call's name and its arguments.
    pub middle: &'static str,
    pub arguments: Arguments,
    /// After a call's arguments.
    pub after: String,
    /// After all calls.
    pub close: &'static str,
    /// Nothing but white space comes before a call: it has no marker of its own.
    pub bare: bool,
    /// Tokens that may stand before such a call.
    pub lead: &'static str,
    /// Around a reply that is text.
    pub text: (&'static str, &'static str),
    /// What stands between parts of a reply and means nothing by itself.
    pub turns: &'static [&'static str],
    /// What a reply of one call begins and ends with where a model does not keep to its template: several do not, and nothing
    /// else that begins so and names a tool can be meant.
    pub strays: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
pub enum Arguments {
    /// A JSON object.
    Json,
    /// Each between tags; strings stand there as they are.
    Tagged(Tags),
    /// `{key:value}`, with this around strings.
    Braces(&'static str),
}

/// `open KEY equals VALUE close`
#[derive(Clone, Copy)]
pub struct Tags {
    pub open: &'static str,
    /// Before a string, and before any other value.
    pub equals: [&'static str; 2],
    pub close: &'static str,
}

/// Thoughts stand between these.
pub const THOUGHTS: [(&str, &str); 8] = [
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<think:opensource>", "</think:opensource>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
];

/// Where the rest of a row comes from.
fn family(name: &'static str, first: &str, middle: &'static str, after: &str) -> Family {
    Family {
        name,
        first: first.to_owned(),
        next: None,
        middle,
        arguments: Arguments::Json,
        after: after.to_owned(),
        close: "",
        bare: false,
        lead: "",
        text: ("", ""),
        turns: &[],
        strays: &[],
    }
}

/// Calls that each have a marker.
fn marked(name: &'static str, before: &str, middle: &'static str, after: &str, between: &str) -> Family {
    Family { next: Some(format!("{between}{before}")), ..family(name, before, middle, after) }
}

/// A list of objects.
fn list(
    name: &'static str,
    open: &str,
    object: (&str, &'static str, &str),
    between: &str,
    close: &'static str,
) -> Family {
    let (before, middle, after) = object;
    Family {
        next: Some(format!("{between}{before}")),
        close,
        ..family(name, &format!("{open}{before}"), middle, after)
    }
}

fn tagged(family: Family, open: &'static str, equals: [&'static str; 2], close: &'static str) -> Family {
    Family { arguments: Arguments::Tagged(Tags { open, equals, close }), ..family }
}

const ARGUMENTS: &str = "\", \"arguments\": ";
const PARAMETERS: &str = "\", \"parameters\": ";

/// The format where a template shows none: one call, which is the whole reply.
pub fn generic() -> Family {
    Family { bare: true, ..family("json", "{\"tool\": \"", ARGUMENTS, "}") }
}

pub fn families() -> Vec<Family> {
    let object = ("{\"name\": \"", ARGUMENTS, "}");
    let with_id = format!(", \"id\": \"{ID}\"}}");
    let tool_id = format!("{{\"tool_call_id\": \"{ID}\", \"tool_name\": \"");
    let cohere = |before: &str| {
        list("cohere", "<|START_ACTION|>[\n    ", (before, PARAMETERS, "}"), ",\n    ", "\n]<|END_ACTION|>")
    };
    vec![
        Family {
            // Qwen2.5-Coder writes all its calls so.
            strays: &[("```json\n{\"name\": \"", "}\n```"), ("{\"name\": \"", "}")],
            ..marked("hermes", "<tool_call>\n{\"name\": \"", ARGUMENTS, "}\n</tool_call>", "\n")
        },
        tagged(
            marked("qwen-xml", "<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "\n"),
            "<parameter=",
            [">\n"; 2],
            "\n</parameter>\n",
        ),
        tagged(
            marked("seed-xml", "<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>", "\n"),
            "<parameter=",
            [">"; 2],
            "</parameter>\n",
        ),
        tagged(
            marked("glm", "<tool_call>", "\n", "</tool_call>", "\n"),
            "<arg_key>",
            ["</arg_key>\n<arg_value>"; 2],
            "</arg_value>\n",
        ),
        tagged(
            marked("glm", "<tool_call>", "", "</tool_call>", ""),
            "<arg_key>",
            ["</arg_key><arg_value>"; 2],
            "</arg_value>",
        ),
        list("mistral", "[TOOL_CALLS][", ("{\"name\": \"", ARGUMENTS, &with_id), ", ", "]"),
        marked("mistral-args", "[TOOL_CALLS]", "[ARGS]", "", ""),
        Family { bare: true, lead: "<|python_tag|>", ..family("llama3", "{\"name\": \"", PARAMETERS, "}") },
        list("nemotron", "<TOOLCALL>[", object, ", ", "]</TOOLCALL>"),
        list("apriel", "<tool_calls>[", object, ", ", "]</tool_calls>"),
        list("minimax-m1", "<tool_calls>\n", object, "\n", "\n</tool_calls>"),
        marked("gigachat", "<|function_call|>{\"name\": \"", ARGUMENTS, "}", ""),
        list(
            "deepseek",
            "<｜tool▁calls▁begin｜>",
            ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
            "",
            "<｜tool▁calls▁end｜>",
        ),
        list(
            "deepseek-r1",
            "<｜tool▁calls▁begin｜>",
            ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n", "\n```<｜tool▁call▁end｜>"),
            "\n",
            "<｜tool▁calls▁end｜>",
        ),
        tagged(
            list(
                "dsml",
                "<｜DSML｜tool_calls>\n",
                ("<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>"),
                "\n",
                "\n</｜DSML｜tool_calls>",
            ),
            "<｜DSML｜parameter name=\"",
            ["\" string=\"true\">", "\" string=\"false\">"],
            "</｜DSML｜parameter>\n",
        ),
        tagged(
            list(
                "hunyuan",
                "<tool_calls:opensource>\n",
                ("<tool_call:opensource>", "<tool_sep:opensource>\n", "</tool_call:opensource>"),
                "\n",
                "\n</tool_calls:opensource>",
            ),
            "<arg_key:opensource>",
            ["</arg_key:opensource>\n<arg_value:opensource>"; 2],
            "</arg_value:opensource>\n",
        ),
        Family {
            arguments: Arguments::Braces("<|\"|>"),
            ..marked("gemma4", "<|tool_call>call:", "", "<tool_call|>", "")
        },
        marked("functionary", "<function=", ">", "</function>", ""),
        Family { text: ("<|START_RESPONSE|>", "<|END_RESPONSE|>"), ..cohere(&tool_id) },
        Family { text: ("<|START_TEXT|>", "<|END_TEXT|>"), ..cohere(&tool_id) },
    ]
}

/// The format of gpt-oss: everything is in a channel.
pub fn harmony() -> Family {
    Family {
        text: ("<|channel|>final<|message|>", ""),
        turns: &["<|channel|>commentary<|message|>", "<|end|>", "<|start|>assistant"],
        ..family("harmony", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "")
    }
}

/// Its thoughts.
pub const ANALYSIS: (&str, &str) = ("<|channel|>analysis<|message|>", "<|end|>");
