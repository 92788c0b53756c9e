//! Templates that make an engine compare, search, sort, copy or recurse without end: each is a typed error or a prompt, soon.

use std::time::{Duration, Instant};

use akunu_text::{ChatTemplate, Error};
use serde_json::json;

fn render(source: &str) -> Result<String, Error> {
    ChatTemplate::new(source)?.render(&json!({"messages": [{"role": "user", "content": "Hi"}]}), "<s>", "</s>")
}

/// One test by the name of each case, which ends in a sentence and in time.
macro_rules! stopped {
    ($($name:ident: $source:expr;)*) => {$(
        #[test]
        fn $name() {
            let source: String = $source.into();
            let started = Instant::now();
            let error = render(&source).err().unwrap_or_else(|| panic!("it was rendered")).to_string();
            assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
            assert!(error.len() < 2000 && !error.contains('\n'), "{error:.300}");
            println!("{:?}: {error}", started.elapsed());
        }
    )*};
}

/// `{% set … %}` and a condition that is tried 100,000 times.
fn often(set: &str, condition: &str) -> String {
    format!("{set}{{% for i in range(100000) %}}{{% if {condition} %}}{{% endif %}}{{% endfor %}}")
}

fn texts(condition: &str) -> String {
    often("{% set a = 'x' * 20000000 %}{% set b = 'x' * 20000000 %}", condition)
}

fn lists(condition: &str) -> String {
    often("{% set a = range(100000)|list %}{% set b = range(100000)|list %}", condition)
}

const SELF: &str = "{% set ns=namespace() %}{% set ns.x=[ns] %}{% set n2=namespace() %}{% set n2.x=[n2] %}";

stopped! {
    // Values that hold themselves.
    ct_ns_self_eq: format!("{SELF}{{{{ ns.x == n2.x }}}}");
    ct_ns_self_ne: format!("{SELF}{{{{ (ns.x + [1]) != n2.x }}}}");
    ct_ns_self_lt: format!("{SELF}{{{{ 1 if ns.x < n2.x else 2 }}}}");
    ct_ns_self_key: format!("{SELF}{{{{ {{ns.x: 1}} }}}}");
    ct_ns_self_get: format!("{SELF}{{{{ {{'a': 1}}.get(ns.x) }}}}");
    ct_ns_self_item: format!("{SELF}{{{{ {{'a': 1}}[ns.x] }}}}");
    ct_ns_self_in: format!("{SELF}{{{{ ns.x in [n2.x] }}}}");
    ct_ns_self_is: format!("{SELF}{{{{ ns.x is eq(n2.x) }}}}");
    ct_ns_self_sort: format!("{SELF}{{{{ [ns.x, n2.x]|sort }}}}");
    ct_ns_self_unique: format!("{SELF}{{{{ [ns.x, n2.x]|unique }}}}");
    ct_ns_self_max: format!("{SELF}{{{{ [ns.x, n2.x]|max }}}}");
    ct_ns_self_select: format!("{SELF}{{{{ [ns.x]|select('eq', n2.x)|list }}}}");
    ct_ns_self_upper: format!("{SELF}{{{{ ns.x|upper }}}}");
    ct_ns_self_join: format!("{SELF}{{{{ ['a', 'b']|join(ns.x) }}}}");
    ct_ns_self_raise: format!("{SELF}{{{{ raise_exception(ns.x) }}}}");
    ct_ns_self_strftime: format!("{SELF}{{{{ strftime_now(ns.x) }}}}");
    ct_ns_self_changed: format!("{SELF}{{% for i in [1, 2] %}}{{{{ loop.changed(ns.x if loop.first else n2.x) }}}}{{% endfor %}}");
    ct_ns_self_block: "{% set ns=namespace() %}{% set ns.x|default([ns], true) %}{% endset %}{{ ns.x == [ns] ~ '' }}{{ ns|string }}";
    ct_ns_self_debug: "{% set ns=namespace() %}{% set ns.x=ns %}{{ debug() }}";
    combo_chat_eq: format!("{SELF}{{{{ ns.x == n2.x }}}}");
    // Text that nobody paid for.
    ct_big_literal_raw: format!("{{% for i in range(100000) %}}{{% raw %}}{}{{% endraw %}}{{% endfor %}}", "x".repeat(900_000));
    combo_chat_raw: format!("{{% for i in range(100000) %}}{{%- raw -%}}{}{{% endraw %}}{{% endfor %}}", "x".repeat(900_000));
    ct_tojson_sep: "{{ range(100000)|list|tojson(separators=('a'*1000000,'b')) }}";
    ct_tojson_key_sep: "{{ messages|tojson }}{% for i in range(1000) %}{{ {'a': 1}|tojson(separators=('b', 'a'*1000000)) }}{% endfor %}";
    ct_debug3: "{% set a = 'x' * 60000000 %}{% set b=[a,a,a,a,a,a,a,a,a] %}{% set c=[b,b,b,b,b,b] %}{% set x = debug() %}{{ x|length }}";
    ct_setfilter_add: format!("{{% set y = 'a' * 10000000 %}}{{% set x | default({}) %}}b{{% endset %}}", ["y"; 900].join("+"));
    ct_setfilter_cat: format!("{{% set y = 'a' * 10000000 %}}{{% set x | default({}) %}}b{{% endset %}}", ["y"; 900].join("~"));
    ct_set_eq: format!("{{% set y = 'a' * 10000000 %}}{{% set x | default(1 == ({})) %}}b{{% endset %}}", ["y"; 900].join("+"));
    ct_strftime_w: "{% set f = '%A' * 10000000 %}{% for i in range(100) %}{% set x = strftime_now(f) %}{% endfor %}{{ x|length }}";
    ct_strftime_w2: often("{% set f = '%A' * 5000000 %}", "strftime_now(f) == ''");
    ct_split_mem: "{% set a = 'x ' * 15000000 %}{% set b = a.split(' ') %}{{ b|length }}";
    ct_split_filter_mem: "{% set a = 'x ' * 15000000 %}{% set b = a|split(' ') %}{{ b|length }}";
    ct_lines_mem: "{% set a = '\\n' * 30000000 %}{% set b = a|lines %}{{ b|length }}";
    ct_list_mem: "{% set a = 'x' * 30000000 %}{{ a|list|length }}";
    // Work over large texts.
    ct_in_time: texts("'y' in a");
    ct_not_in_time: texts("'y' not in a ~ ''");
    ct_eq_time: texts("a == b");
    ct_eq_sum_time: texts("a != '' + b");
    ct_lt_time: texts("a < b");
    ct_chain_time: texts("0 == 1 == a == b or a == b == 1");
    ct_length_time: texts("a|length == 1");
    ct_upper_test: often("{% set a = 'X' * 20000000 %}", "a is upper");
    ct_test_eq: texts("a is eq(b)");
    ct_test_eq_bare: texts("a is eq b");
    ct_startswith_test: texts("a is startingwith(b)");
    ct_select_time: texts("[a, a, a]|select('eq', b)|list == 1");
    ct_slice_time: texts("a[1:].b");
    ct_slice_test_time: texts("1 is eq a[1:].b");
    ct_changed_time: texts("loop.changed(a ~ '') or loop.changed([a])");
    ct_for_time: texts("a").replace("{% endif %}", "{% for c in a %}{% break %}{% endfor %}{% endif %}");
    ct_key_time: texts("{a: 1}[b]");
    ct_get_time: texts("{'a': 1}.get(b)");
    ct_int_time: often("{% set a = '1' * 20000000 %}", "a|int(default=0) == 1");
    ct_strip_time: "{% set a = 'b' * 1000000 %}{{ a.strip('a' * 1000000 ~ 'b') }}";
    ct_trim_time: "{% set a = 'b' * 1000000 %}{{ a|trim('a' * 1000000 ~ 'b') }}";
    ct_sort_path_time: "{{ range(100000)|sort(attribute='a.' * 500000 ~ 'b') }}";
    ct_map_path_time: "{{ range(100000)|map(attribute='a.' * 500000 ~ 'b')|list }}";
    ct_index_time: texts("a[19999999] or b[-1]");
    // Work over large lists.
    ct_index_range_time: often("{% set a = range(100000) %}", "a[99999] or a[i]");
    ct_index_sum_time: often("{% set a = range(100000)|list + range(100000)|list %}", "a[199999]");
    ct_attr_range_time: often("{% set a = range(100000) %}", "a|attr(99999)");
    ct_splat_time: lists("loop.cycle(*a)");
    ct_max_time: lists("a|max == 1");
    ct_sum_time: often("{% set a = range(100000) %}", "a|sum == 1");
    ct_inlist_time: lists("-1 in a");
    ct_eqlist_time: lists("a == b");
    ct_eq_sumlist_time: lists("a + [1] == b + [1]");
    ct_count_time: lists("a.count(1) == 2");
    ct_sort_time: lists("a|sort == 1");
    ct_last_time: often("{% set a = range(100000) %}", "a|last == 1");
    ct_select_none: often("", "range(100000)|select('eq', -1)|first");
    ct_dag_eq24: "{% set ns=namespace(x=[1],y=[1]) %}{% for i in range(20) %}{% set ns.x=[ns.x,ns.x] %}{% set ns.y=[ns.y,ns.y] %}{% endfor %}{% for i in range(10000) %}{% if ns.x == ns.y %}{% endif %}{% endfor %}";
    ct_debug: "{% set a = 'x' * 30000000 %}{% for i in range(100000) %}{% set x = debug() %}{% endfor %}";
    // Panics of the engine.
    loop_cycle_of_nothing: "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}";
    range_of_the_least_step: "{{ range(9223372036854775807, -9223372036854775807, -9223372036854775807 - 1)|list|length }}{{ x.y.z }}";
}

#[test]
fn views_of_views_are_lists() {
    for step in ["ns.x[0:2]", "ns.x|reverse", "ns.x|map('string')", "ns.x|chain([])", "ns.x|select"] {
        let source = format!(
            "{{% set ns=namespace(x=range(3)) %}}{{% for i in range(20000) %}}{{% set ns.x={step} %}}{{% endfor %}}{{{{ ns.x|length }}}}"
        );
        assert!(matches!(render(&source).unwrap().as_str(), "2" | "3"), "{step}");
    }
    let maps = "{% set ns=namespace(x={'a': 1}) %}{% for i in range(20000) %}{% set ns.x=ns.x|chain({'b': i}) %}{% endfor %}{{ ns.x }}";
    assert_eq!(render(maps).unwrap(), "{'a': 1, 'b': 19999}");
}

#[test]
fn what_panicked_or_hung_has_an_answer() {
    assert_eq!(
        render("{{ 5 is divisibleby 0 }} {{ 6 is divisibleby(3) }} {{ 'a' is divisibleby 1 }}").unwrap(),
        "False True False"
    );
    assert_eq!(render("{{ 'aba'.count('a') }} {{ 'ab'.count('') }} {{ [1, 2, 1].count(1) }}").unwrap(), "2 3 2");
    assert_eq!(render("{% for i in [1, 1, 2] %}{{ loop.changed(i) }} {% endfor %}").unwrap(), "True False True ");
    assert_eq!(
        render("{{ [3, 1, 2][0:2] + [4] }} {{ 'abc'[::-1] }} {{ messages[0:][0].role }}").unwrap(),
        "[3, 1, 4] cba user"
    );
    assert_eq!(
        render("{{ 1 in [1] }} {{ 'b' not in {'a': 1} }} {{ {'k' ~ 1: 2}['k' + '1'] }}").unwrap(),
        "True True 2"
    );
}

#[test]
fn namespaces_that_hold_themselves_are_freed() {
    // Each rendering makes a megabyte that only a namespace holds, which holds itself: alone, in a list, in a circle of two, as
    // a block, from its first values, in a macro, and where the template fails.
    for source in [
        "{% set ns = namespace(text='x' * 1000000) %}{% set ns.me = ns %}",
        "{% set ns = namespace() %}{% set ns.text = 'x' * 1000000 %}{% set ns.me = [{'a': [ns]}] %}",
        "{% set a = namespace(text='x' * 1000000) %}{% set b = namespace(a=a) %}{% set a.b = b %}",
        "{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.text | upper %}{{ 'x' * 1000000 }}{% endset %}",
        "{% set a = namespace() %}{% set b = namespace({'a': a}, text='x' * 1000000) %}{% set a.b = b %}",
        "{% macro f() %}{% set ns = namespace(t='x' * 1000000) %}{% set ns.me = ns %}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(text='x' * 1000000) %}{% set ns.me = ns %}{{ raise_exception('no') }}",
    ] {
        let template = ChatTemplate::new(source).unwrap();
        let before = resident();
        for _ in 0..200 {
            let _ = template.render(&json!({}), "", "");
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 60 << 20, "{source}: {grown} bytes");
    }
}

/// Bytes of this process in memory; other tests of it use far less than is looked for.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

#[test]
fn loop_cycle_goes_through_what_it_is_given() {
    let cycle = "{% for i in range(4) %}{{ loop.cycle('a', 'b' ~ i) + loop . cycle (*[1, 2])|string }} {% endfor %}";
    assert_eq!(render(cycle).unwrap(), "a1 b12 a1 b32 ");
    for nothing in ["{{ loop.cycle() }}", "{{ loop.cycle(*[]) }}", "{{ (loop).cycle( ) }}"] {
        let error = render(&format!("{{% for i in [1] %}}{nothing}{{% endfor %}}")).unwrap_err().to_string();
        assert!(error.contains("cycle takes what it goes through"), "{nothing}: {error}");
    }
}

/// Expected values are Python's.
#[test]
fn slices_of_extreme_numbers() {
    const LEAST: &str = "(-9223372036854775807 - 1)";
    const MOST: &str = "9223372036854775807";
    for (slice, text, list) in [
        ("::-1", "dcba", "[4, 3, 2, 1]"),
        (":", "abcd", "[1, 2, 3, 4]"),
        ("1:3", "bc", "[2, 3]"),
        ("-3:-1", "bc", "[2, 3]"),
        ("::2", "ac", "[1, 3]"),
        ("3:0:-2", "db", "[4, 2]"),
        ("0:2:-1", "", "[]"),
        ("2::-1", "cba", "[3, 2, 1]"),
        (":2:-1", "d", "[4]"),
        ("-1:-3:-1", "dc", "[4, 3]"),
        ("9:", "", "[]"),
        ("3:1", "", "[]"),
        ("LEAST:", "abcd", "[1, 2, 3, 4]"),
        (":LEAST", "", "[]"),
        ("MOST:", "", "[]"),
        (":MOST", "abcd", "[1, 2, 3, 4]"),
        ("::LEAST", "d", "[4]"),
        ("::MOST", "a", "[1]"),
        ("LEAST::LEAST", "", "[]"),
        ("MOST:LEAST:LEAST", "d", "[4]"),
        ("MOST:LEAST:-1", "dcba", "[4, 3, 2, 1]"),
        ("LEAST:MOST:MOST", "a", "[1]"),
        ("1:MOST:MOST", "b", "[2]"),
    ] {
        let slice = slice.replace("LEAST", LEAST).replace("MOST", MOST);
        for (value, expected) in
            [("'abcd'", text), ("[1, 2, 3, 4]", list), ("range(1, 5)", list), ("[]", "[]"), ("''", "")]
        {
            assert_eq!(render(&format!("{{{{ {value}[{slice}] }}}}")).unwrap(), expected, "{value}[{slice}]");
        }
    }
    assert_eq!(render("{{ 'aé字🚀'[1:3] }}{{ 'aé字🚀'[-1:] }}{{ 'aé字🚀'[:-3] }}").unwrap(), "é字🚀a");
    for wrong in ["'a'[::0]", "{'a': 1}[1:]", "5[1:]", "'a'['b':]", "'a'[1.5:]", "'a'[:9223372036854775807 * 9]"] {
        assert!(matches!(render(&format!("{{{{ {wrong} }}}}")), Err(Error::TemplateFailed(_))), "{wrong}");
    }
}

#[test]
fn attributes_of_namespaces_are_set() {
    for (source, expected) in [
        ("{% set n = namespace(a=1) %}{% set n.b = n.a + 1 %}{{ n.a }}{{ n.b }}{{ n }}", "12{'a': 1, 'b': 2}"),
        ("{% set n = namespace({'a': 1}, b=2) %}{% set n.a = 3, 4 %}{{ n.a }}{{ n.c is defined }}", "[3, 4]False"),
        ("{% set n = namespace() %}{% set n.m = namespace() %}{% set n.m.x %} y{% endset %}{{ n.m.x }}.", " y."),
        ("{% set n = namespace() %}{%- set n.x|upper -%} y {%- endset -%} {{ n.x }}", "Y"),
        ("{% set n = namespace(i=0) %}{% for i in range(3) %}{% set n.i = n.i + i %}{% endfor %}{{ n.i }}", "3"),
        ("{% set n = namespace(i=0) %}{% for k, v in n.items() %}{{ k }}{{ v }}{% endfor %}{{ n.get('j', 5) }}", "i05"),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
    for source in ["{% set x = {} %}{% set x.a = 1 %}", "{% set x.a = 1 %}", "{{ namespace(1) }}"] {
        let error = render(source).unwrap_err().to_string();
        assert!(error.contains("namespace"), "{source}: {error}");
    }
}

#[test]
fn err_raise_10mb() {
    let error = render("{{ raise_exception('x\n' * 5000000) }}").unwrap_err().to_string();
    assert!(error.len() < 1000 && !error.contains('\n'), "{}", error.len());
}

#[test]
fn values_nest_by_recursion_without_end() {
    let nested = format!(
        "{{% macro f(x, n) %}}{{% if n %}}{{{{ f({}x{}, n - 1) }}}}{{% endif %}}{{% endmacro %}}{{{{ f(1, 20) }}}}",
        "[".repeat(60),
        "]".repeat(60)
    );
    assert!(matches!(render(&nested), Err(Error::TemplateStopped(_))));
    for grow in ["dict(a=x)", "(x, 1)", "[[[x]], 1][0]", "[x]|zip", "{'a': x}.items()|list", "namespace(a=x)"] {
        let nested = "{% macro f(x, n) %}{{ f(GROW, n - 1) }}{% endmacro %}{{ f(1, 1) }}".replace("GROW", grow);
        assert!(matches!(render(&nested), Err(Error::TemplateStopped(_))), "{grow}");
    }
}
