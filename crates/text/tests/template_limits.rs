//! Templates that do not end, recurse or allocate without end are stopped; template features that no fixture shows.

use std::time::{Duration, Instant};

use akunu_text::{ChatTemplate, Error};
use serde_json::{Value, json};

fn render(source: &str, input: Value) -> Result<String, Error> {
    ChatTemplate::new(source)?.render(&input, "<s>", "</s>")
}

#[test]
fn runaway_templates_are_stopped() {
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}";
    let cases = [
        format!("{endless}{{% endfor %}}{{% endfor %}}"),
        format!("{endless}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{% endfor %}}{{% endfor %}}"),
        format!("{{% set x %}}{endless}{}{{% endfor %}}{{% endfor %}}{{% endset %}}{{{{ x }}}}", "long ".repeat(1000)),
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}".into(),
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}".into(),
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s * 9 %}{% endfor %}{{ ns.s }}".into(),
        "{% set ns = namespace(s=['x']) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = ns.s.replace('x', ns.s) %}{% endfor %}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = ns.s | replace('x', ns.s) %}{% endfor %}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = ns.s.join([ns.s, ns.s]) %}{% endfor %}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] | join %}{% endfor %}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% endfor %}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] | tojson %}{% endfor %}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] | string %}{% endfor %}".into(),
        "{% set ns = namespace(s='xy') %}{% for i in range(99) %}{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}{% endfor %}".into(),
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}".into(),
        "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x | tojson }}".into(),
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}".into(),
        "{% macro f(s) %}{{ f(s + s) }}{% endmacro %}{{ f('x') }}".into(),
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}".into(),
        "{% set s = 'x' * 9999999 %}{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [s[1:]] %}{% endfor %}".into(),
        "{% set s = 'x' * 9999999 %}{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [s | upper] %}{% endfor %}".into(),
        "{% set s = 'x' * 9999999 %}{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [s.upper()] %}{% endfor %}".into(),
        "{% set s = 'x' * 9999999 %}{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + ['' + s] %}{% endfor %}".into(),
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + ['x' * 9999999] %}{% endfor %}".into(),
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [2 ** 0 * ('x' * 9999999)] %}{% endfor %}".into(),
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [range(99999) | list] %}{% endfor %}".into(),
        "{% set l = ['x' * 999999] * 999 %}{% set x = l | string %}{% set y = l | join %}".into(),
        "{% set l = ['x' * 999999] * 999 %}{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = ns.l + [l | map('upper') | list] %}{% endfor %}".into(),
        "{{ 'x' * 99999999999 }}".into(),
        "{{ '{:>9999999999}'.format('x') }}".into(),
        "{{ 'a\nb' | indent(9999999999) }}".into(),
        "{{ [1] | tojson(indent=9999999999) }}".into(),
        "{{ range(99999999999) | list }}".into(),
        "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}".into(),
        "{% set ns = namespace() %}{% set ns.self = ns %}{{ ns | tojson }}".into(),
    ];
    let input = json!({"messages": [{"role": "user", "content": "Hi"}]});
    for source in cases {
        let started = Instant::now();
        let result = render(&source, input.clone());
        let took = started.elapsed();
        let error = result.err().unwrap_or_else(|| panic!("{source:.120} was rendered"));
        assert!(took < Duration::from_secs(120), "{source:.120} took {took:?}");
        println!("{took:>10.1?} {error} <- {source:.80}");
    }
}

#[test]
fn deep_templates_and_inputs_are_refused() {
    for source in [
        "{{ ".to_owned() + &"(".repeat(100_000),
        "{{ ".to_owned() + &"[".repeat(100_000) + &"]".repeat(100_000) + " }}",
        "{{ ".to_owned() + &"-".repeat(100_000) + "1 }}",
        "{{ ".to_owned() + &"not ".repeat(100_000) + "1 }}",
        "{% if x %}".repeat(50_000),
        "{{ x".to_owned() + &"|upper".repeat(200_000) + " }}",
        "{{ 1".to_owned() + &"+1".repeat(400_000) + " }}",
        "{{ ".to_owned() + &"x if y else ".repeat(50_000) + "z }}",
        "{% if x %}".to_owned() + &"{% elif x %}".repeat(50_000) + "{% endif %}",
        "{{ x".to_owned() + &".x".repeat(200_000) + " }}",
        "{{ x".to_owned() + &"[0]".repeat(200_000) + " }}",
        "{{ x".to_owned() + &"()".repeat(200_000) + " }}",
        "{{ 1".to_owned() + &"*1".repeat(200_000) + " }}",
        "{{ 1".to_owned() + &" and 1".repeat(100_000) + " }}",
        "{{ 1".to_owned() + &" is defined".repeat(90_000) + " }}",
        "x".repeat(2 << 20),
        "{{ 'abc".to_owned(),
        "{% for x in y %}".to_owned(),
        "{% nonsense %}".to_owned(),
    ] {
        let result = render(&source, json!({"messages": []}));
        assert!(result.is_err(), "{source:.60}");
    }
    // What is just within the limit compiles on the stack of a test's thread.
    for (first, repeated) in
        [("1", "+1"), ("x", "|upper"), ("1", " and 1"), ("x", ".x"), ("1", "*1"), ("", "-"), ("", "not ")]
    {
        let _ = ChatTemplate::new(&format!("{{{{ {first}{} 1 }}}}", repeated.repeat(900)));
    }
    assert!(ChatTemplate::new(&format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(499))).is_ok());
    let nested = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}.{% endif %}{% endmacro %}{{ f(40) }}";
    assert_eq!(render(nested, json!({})).unwrap(), ".".repeat(40));
    let mut deep = json!([]);
    for _ in 0..125 {
        deep = json!([deep]);
    }
    assert!(render("{{ x | tojson }}", json!({"x": deep.clone()})).is_ok());
    for _ in 0..100 {
        deep = json!([deep]);
    }
    assert!(matches!(render("{{ x | tojson }}", json!({"x": deep})), Err(Error::TemplateStopped(_))));
}

#[test]
fn features_of_transformers() {
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "é<>&'\""}]);
    for (source, expected) in [
        ("{{ messages[1].content | tojson }}", r#""é<>&'\"""#),
        ("{{ messages[1].content | tojson(ensure_ascii=True) }}", r#""\u00e9<>&'\"""#),
        ("{{ {'b': 1, 'a': [1, {}]} | tojson }}", r#"{"b": 1, "a": [1, {}]}"#),
        ("{{ {'b': 1, 'a': [1, {}]} | tojson(sort_keys=true) }}", r#"{"a": [1, {}], "b": 1}"#),
        ("{{ {'b': [1, 2]} | tojson(indent=2) }}", "{\n  \"b\": [\n    1,\n    2\n  ]\n}"),
        ("{{ {'b': [1, 2]} | tojson(separators=(',', ':')) }}", r#"{"b":[1,2]}"#),
        ("{{ [1.0, 1e20, true, none, 3] | tojson }}", "[1.0, 1e+20, true, null, 3]"),
        ("{{ [true, none, 1.5, 'x', {'a': 1}] }}", "[True, None, 1.5, 'x', {'a': 1}]"),
        ("{{ true }} {{ none }} {{ 2.0 }} {{ missing }}", "True None 2.0 "),
        ("{{ 'a' ~ true ~ none ~ 1.0 }}", "aTrueNone1.0"),
        ("{{ tools is none }} {{ documents is defined }} {{ add_generation_prompt }}", "True True False"),
        ("{{ bos_token }}{{ eos_token }}", "<s></s>"),
        ("{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %},{% endfor %}", "user,assistant,"),
        ("{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "user"),
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% endfor %}", "assistant"),
        ("{% if true %}\n  a\n{% endif %}\nb\n", "  a\nb"),
        ("{{ messages[::-1][0].role }} {{ messages[1:] | length }} {{ messages[-1].role }}", "assistant 1 assistant"),
        (
            "{{ 'a,b'.split(',') }} {{ ' x '.strip() }} {{ 'ab'.startswith('a') }} {{ 'x'.upper() }}",
            "['a', 'b'] x True X",
        ),
        ("{{ messages[0].get('name', 'nobody') }} {{ messages[0].items() | list | length }}", "nobody 2"),
        (
            "{{ 'x' is sequence }} {{ messages is iterable }} {{ 1 is sequence }} {{ {} is mapping }}",
            "True True False True",
        ),
        ("{{ strftime_now('%Y') | length }}", "4"),
        (
            "{{ 2 * 3 }} {{ 2 * 1.5 }} {{ 6 / 4 * 2 }} {{ 'ab' * 2 }} {{ [1] * 2 }} {{ true * 2 }} {{ -2 * 3 + 1 }}",
            "6 3.0 3.0 abab [1, 1] 2 -5",
        ),
        ("{{ range(3) | list }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 3 }}", "[0, 1, 2] 3 3 8"),
        ("{% set x = 'a' + 'b' %}{{ x }}{% set x %}c{% endset %}{{ x }}", "abc"),
    ] {
        let got = render(source, json!({"messages": messages})).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(got, expected, "{source}");
    }
}

#[test]
fn refusals_carry_the_templates_own_words() {
    let error = render(
        "{{ raise_exception('Only user and assistant roles, not ' + messages[0].role) }}",
        json!({"messages": [{"role": "narrator", "content": ""}]}),
    );
    match error {
        Err(Error::TemplateRaised(message)) => assert_eq!(message, "Only user and assistant roles, not narrator"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(render("{{ x.y.z }}", json!({"messages": []})), Err(Error::TemplateFailed(_))));
    assert!(matches!(render("{{ 'a' + 1 }}", json!({"messages": []})), Err(Error::TemplateFailed(_))));
    assert!(matches!(ChatTemplate::new("x").unwrap().render(&json!([]), "", ""), Err(Error::TemplateFailed(_))));
}
