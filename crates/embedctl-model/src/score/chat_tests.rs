//! Templates that are read, run and refused.

use super::*;
use crate::score::template_source::MOST_OPERATORS;

fn template(source: &str) -> Result<ChatTemplate> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
    let names = [("eos_token".to_owned(), "</s>".to_owned())];
    ChatTemplate::read(folder.path(), None, "qwen3", &names, &Map::new())
}

#[test]
fn a_pair_is_two_messages_and_a_prompt_the_systems() {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m['content'].strip() }}{{ eos_token }}{% endfor %}\
                  {% if add_generation_prompt %}x{% endif %}";
    let template = template(source).unwrap();
    let pair = TextPair {
        first: " q ",
        second: "d",
    }
    .joined();
    let text = template.of_text("judge", &pair, true).unwrap();
    assert_eq!(text, "<system>judge</s><query>q</s><document>d</s>");
    assert_eq!(template.of_text("", "t", false).unwrap(), "<user>t</s>");
    assert!(template.check_roles().is_ok());
}

/// Each of these was a stack overflow, which ends the process.
#[test]
fn deep_expressions_and_values_are_bounded() {
    for (start, level, end) in [
        ("{{ ", "not ", "1 }}"),
        ("{{ ", "-", "1 }}"),
        ("{{ 'a'", "|string", " }}"),
        ("{{ a", ".a", " }}"),
        ("{{ a", "[0]", " }}"),
        ("{{ a", "()", " }}"),
        ("{{ 1", "+1", " }}"),
        ("{{ 1", "**1", " }}"),
        ("{{ 1", "~1", " }}"),
        ("{{ 1", " is odd", " }}"),
        ("{{ 1", " if 1 else 1", " }}"),
        ("{{ 1", " and 1", " }}"),
        ("{{ ", "[", "1 }}"),
        ("{{ ", "(", "1 }}"),
        ("{% if 1 %}", "{% elif 1 %}", "{% endif %}"),
        ("", "{% if 1 %}", ""),
        ("", "{% filter upper %}", ""),
    ] {
        let source = |levels: usize| format!("{start}{}{end}", level.repeat(levels));
        let most = (MOST_BYTES - start.len() - end.len()) / level.len();
        // Whether it is read, run, or refused: the process goes on.
        if let Ok(template) = template(&source(most)) {
            let _ = template.of_text("", "a", false);
        }
        let error = template(&source(100_000)).unwrap_err().to_string();
        assert!(error.contains("but the limit is 65536"), "{level}: {error}");
    }
    for (value, shown) in [
        ("[n.x]", "{{ n.x }}"),
        ("[[[[[[[[n.x]]]]]]]]", "{{ n.x }}"),
        ("{'a': n.x}", "{{ n.x|tojson }}"),
        ("[n.x]", "{{ n.x|tojson }}"),
        ("[n.x]", "{{ n.x == [n.x] }}"),
        ("[n.x]", ""),
    ] {
        let source = format!(
            "{{% set n = namespace(x=1) %}}{{% for i in range(9000) %}}{{% set n.x = {value} %}}{{% endfor %}}{shown}"
        );
        let _ = template(&source).unwrap().of_text("", "a", false);
    }
}

/// Reading a chain takes the square of its length: 30,000 terms took more than half a minute.
#[test]
fn operators_of_a_tag_are_counted_before_it_is_read() {
    for term in [
        "+x",
        "-x",
        "~x",
        "*1",
        "/x",
        "//x",
        "%x",
        "**1",
        "==x",
        "<x",
        " and x",
        " or x",
        " in x",
        " not in x",
        " + -x",
        " and not x",
    ] {
        let chain = |terms: usize| format!("a\n{{{{ x{} }}}}", term.repeat(terms));
        let error = template(&chain(MOST_OPERATORS + 1))
            .unwrap_err()
            .to_string();
        let said = "the expression on line 2 has more than 500 operators, the limit";
        assert!(error.contains(said), "{term}: {error}");
        // What follows it is not read, either.
        let cut = format!("{}{{{{ 'open", chain(MOST_OPERATORS + 1));
        assert!(template(&cut).unwrap_err().to_string().contains(said));
    }
    for source in [
        format!(
            "{{% set x = 1 %}}{{{{ x{} }}}}",
            "+x".repeat(MOST_OPERATORS)
        ),
        "{{ 1 + 1 }}{% if 1 == 1 and 1 %}{% endif %}".repeat(1000),
        format!("{{{{ [{}1]|length }}}}", "1,".repeat(2000)),
        "a + b - c\n".repeat(2000),
    ] {
        template(&source).unwrap();
    }
}

/// Each of these took gigabytes or minutes within a few steps.
#[test]
fn values_that_grow_are_bounded() {
    let loops = |start: &str, step: &str| {
        format!(
            "{{% set n = namespace({start}) %}}{{% for i in range(60) %}}{step}{{% endfor %}}{{{{ n.a|length }}}}"
        )
    };
    for source in [
        loops("a='xxxxxxxx'", "{% set n.a = n.a + n.a %}"),
        loops("a='xxxxxxxx'", "{% set n.a = n.a ~ n.a %}"),
        loops("a='x'", "{% set n.a = n.a * 10 %}"),
        loops("a=[1]", "{% set n.a = n.a + n.a %}"),
        loops("a=[1]", "{% set n.a = n.a * 10 %}"),
        loops("a=[1]", "{% set n.a = [n.a, n.a] %}"),
        loops("a={}", "{% set n.a = {'a': n.a, 'b': n.a} %}"),
        loops("a='x'", "{% set n.a = n.a|replace('x', 'xxxxxxxxxx') %}"),
        loops("a='x'", "{% set n.a = n.a.replace('x', 'xxxxxxxxxx') %}"),
        loops("a='x'", "{% set n.a = [n.a, n.a, n.a]|join(n.a) %}"),
        loops("a='x'", "{% set n.a = n.a.join([n.a, n.a, n.a]) %}"),
        loops("a='xx'", "{% set n.a = n.a|join(n.a) %}"),
        loops("a='xxxxxxxx'", "{% set b %}{{ n.a }}{{ n.a }}{% endset %}{% set n.a = b %}"),
        loops("a='x'", &format!("{{% set n.a %}}{{{{ n.a }}}}{}{{% endset %}}", "y".repeat(50_000))),
        loops("a=[1]", "{% set n.a = range(90000)|map('replace', '1', 'x' * 9000)|list %}"),
        loops("a=range(90000)|list", "{% set b = n.a|sort + n.a|sort + n.a|sort + n.a|sort %}"),
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% else %}{{ 'x' * 100000 }}{% endif %}{% endmacro %}{{ m(12) }}".into(),
        "{{ '%10000000000s'|format('x') }}".into(),
        "{{ '%*s'|format(10000000000, 'x') }}".into(),
        "{{ '{:>10000000000}'.format('x') }}".into(),
        "{{ 'x\ny'|indent(10000000000) }}".into(),
        "{{ [1]|batch(10000000000, 0)|list|length }}".into(),
        "{{ [1]|slice(10000000000)|list|length }}".into(),
        "{{ [1, [2]]|tojson(indent=1000000000) }}".into(),
        "{% set a = 'x' * 90000000 %}".repeat(1000),
        "{% set a = ('x' * 3) * (30000000 * 1) %}".repeat(1000),
    ] {
        let error = template(&source).unwrap().of_text("", "a", false).unwrap_err();
        let limits = ["limit of memory", "200 deep"];
        let is_bounded = limits.iter().any(|limit| error.reason.contains(limit));
        assert!(is_bounded, "{source:.200}: {}", error.reason);
    }
}

/// The interpreter would go around in them until its stack is full.
#[test]
fn circles_are_refused() {
    for (set, shown) in [
        ("{% set n.x = n %}", "{{ n }}"),
        ("{% set n.x = [n] %}", "{{ n.x|tojson }}"),
        ("{% set n.x = {'a': [n]} %}", "{{ n.x == n.x }}"),
        ("{% set l = [n] %}{% set n.x = l %}", "{{ l == l }}"),
        ("{% set m = namespace(n=n) %}{% set n.x = m %}", "{{ m }}"),
        ("{% set m = dict(n=n) %}{% set n.x = m %}", "{{ m }}"),
    ] {
        let source = format!("{{% set n = namespace(x=1) %}}{set}{shown}");
        let error = template(&source)
            .unwrap()
            .of_text("", "a", false)
            .unwrap_err();
        assert!(
            error.reason.contains("a namespace into a value"),
            "{source}: {}",
            error.reason
        );
    }
}

/// What templates do with values, as Jinja does it: the program that runs is another than the one that was read.
#[test]
fn programs_within_the_budget_write_what_they_should() {
    for (source, text) in [
        (
            "{{ 2 * 3 }}|{{ 'ab' * 2 }}|{{ 2 * 'ab' }}|{{ [1, 2] * 2 }}|{{ 2.5 * 2 }}|{{ 2 ** 3 * 2 }}|{{ -2 * 3 }}",
            "6|abab|abab|[1, 2, 1, 2]|5.0|16|-6",
        ),
        (
            "{% for m in messages %}{{ loop.index }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}",
            "1",
        ),
        (
            "{% for i in range(5) if i is odd %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% else %}-{% endfor %}",
            "1",
        ),
        (
            "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
            "13",
        ),
        (
            "{% macro m(a, b='x') %}<{{ a }}{{ b }}{{ caller() if caller }}>{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m(*[1, 3]) }}\
          {% call m(3) %}in{% endcall %}",
            "<1x><12><13><3xin>",
        ),
        (
            "{% set n = namespace(a=1, l=[]) %}{% for i in [2, 3] %}{% set n.a = n.a * i %}{% set n.l = n.l + [i] %}{% endfor %}\
          {{ n.a }}{{ n.l }}",
            "6[2, 3]",
        ),
        (
            "{% set b %}a{{ 1 + 1 }}{% endset %}{{ b ~ b }}{{ 'a' in b and 1 < 2 < 3 }}{{ b[0] }}{{ b[::-1] }}",
            "a2a2Truea2a",
        ),
        (
            "{{ messages[0].content.upper().split('-')|length }}{{ messages[0]['role'] }}{{ x is defined }}{{ x or 'y' }}",
            "1userFalsey",
        ),
        (
            "{{ {'a': [1, {'b': 2}]}|tojson }}{{ {'a': 1}.items()|list }}{{ ['b', 'a']|sort|join(', ') }}",
            "{\"a\": [1, {\"b\": 2}]}[('a', 1)]a, b",
        ),
        (
            "{{ '%s-%d'|format('a', 3) }}{{ 'a\nb'|indent(2) }}{{ 'a b'.split()|first }}{{ ' a '|trim }}{{ 'a-b'.replace('-', '+') }}",
            "a-3a\n  baaa+b",
        ),
        (
            "{% for x in [[1], [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}",
            "(1)(2(3))",
        ),
        (
            "{% if false %}a{% elif 1 %}b{% else %}c{% endif %}{{ 'd' if 0 else 'e' }}{{ 0 or 'f' }}{{ 1 and 'g' }}{% raw %}{{ h * 2 }}{% endraw %}",
            "befg{{ h * 2 }}",
        ),
        (
            "{% filter upper %}a{{ 'b' }}{% endfilter %}{% with c = 1 %}{{ c }}{% endwith %}{% block d %}e{% endblock %}",
            "AB1e",
        ),
    ] {
        let written = template(source).unwrap().of_text("", "a", false);
        assert_eq!(
            written.map_err(|error| error.reason).as_deref(),
            Ok(text),
            "{source}"
        );
    }
}

#[test]
fn a_template_that_leaves_a_text_out_or_never_ends_is_refused() {
    let lost = template("{% for m in messages if m.role == 'query' %}{{ m.content }}{% endfor %}");
    let error = lost.unwrap().check_roles().unwrap_err().to_string();
    assert!(error.contains("'document'"), "{error}");
    let endless =
        template("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}");
    let error = endless.unwrap().check_roles().unwrap_err().to_string();
    let paths = error.matches("chat_template.jinja").count();
    assert_eq!(paths, 1, "{error}");
    let error = template("{{ raise_exception('no such role') }}")
        .unwrap()
        .check_roles();
    assert!(error.unwrap_err().to_string().contains("no such role"));
    assert!(template("{% if %}").is_err());
    let long = "x".repeat(1000);
    for (times, limit) in [
        (3000, "writes more than 262156 bytes"),
        (60_000, "limit of memory"),
    ] {
        let long = template(&format!(
            "{{% for a in range({times}) %}}{long}{{% endfor %}}{{{{ messages[0].content }}}}"
        ));
        let error = long.unwrap().of_text("", "a", false).unwrap_err();
        assert!(error.reason.contains(limit), "{}", error.reason);
    }
    let parts = template("{{ messages[0].content[0].text }}|{{ messages[1].content[0]['text'] }}");
    assert!(parts.unwrap().check_roles().is_ok());
}
