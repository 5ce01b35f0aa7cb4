//! Every way we know to read another namespace with a query, each tried. In all of them the matcher on the namespace
//! stands in every selector of what is sent, or nothing is sent.

use super::{Confinement, admit};

/// What comes of an attempt.
enum Outcome {
    /// This is sent: every selector is confined.
    Sent(&'static str),
    /// Nothing is sent; the reason contains this.
    Refused(&'static str),
}
use Outcome::{Refused, Sent};

const ATTEMPTS: &[(&str, &str, Outcome)] = &[
    (
        "the other namespace by name",
        r#"secret{namespace="other"}"#,
        Sent(r#"secret{namespace="other",namespace="shop"}"#),
    ),
    (
        "all namespaces by pattern",
        r#"secret{namespace=~".+"}"#,
        Sent(r#"secret{namespace="shop",namespace=~".+"}"#),
    ),
    ("any but ours", r#"secret{namespace!="shop"}"#, Sent(r#"secret{namespace!="shop",namespace="shop"}"#)),
    ("no namespace at all", r#"secret{namespace=""}"#, Sent(r#"secret{namespace="",namespace="shop"}"#)),
    (
        "the label in quotes",
        r#"secret{"namespace"="other"}"#,
        Sent(r#"secret{namespace="other",namespace="shop"}"#),
    ),
    (
        "the label with an escape",
        r#"secret{"n\x61mespace"="other"}"#,
        Sent(r#"secret{namespace="other",namespace="shop"}"#),
    ),
    (
        "a label that only looks like it",
        "secret{\"n\u{430}mespace\"=\"other\"}",
        Sent("secret{\"n\u{430}mespace\"=\"other\",namespace=\"shop\"}"),
    ),
    (
        "the label in capitals",
        r#"secret{Namespace="other"}"#,
        Sent(r#"secret{Namespace="other",namespace="shop"}"#),
    ),
    ("every metric", r#"{__name__=~".+"}"#, Refused("must name its metric")),
    ("every metric but one", r#"{__name__!="a",namespace="other"}"#, Refused("must name its metric")),
    ("every metric with a label", r#"{namespace="other"}"#, Refused("must name its metric")),
    ("the metric by its label", r#"{__name__="secret"}"#, Sent(r#"{__name__="secret",namespace="shop"}"#)),
    ("the metric in quotes", r#"{"secret"}"#, Sent(r#"{__name__="secret",namespace="shop"}"#)),
    (
        "a metric whose name closes the braces",
        r#"{"a} or secret{"}"#,
        Sent(r#"{__name__="a} or secret{",namespace="shop"}"#),
    ),
    (
        "a label whose name closes the braces",
        r#"a{"x=\"\"} or secret{y"="z"}"#,
        Sent(r#"a{"x=\"\"} or secret{y"="z",namespace="shop"}"#),
    ),
    (
        "a value that closes its quotes",
        r#"a{b="\"} or secret{c=\""}"#,
        Sent(r#"a{b="\"} or secret{c=\"",namespace="shop"}"#),
    ),
    (
        "a value in other quotes",
        "a{b='\"} or secret{c=\"'}",
        Sent(r#"a{b="\"} or secret{c=\"",namespace="shop"}"#),
    ),
    ("a raw value that ends in an escape", "a{b=`\\`}", Refused("a backtick after a backslash")),
    ("a value over two lines", "a{b=`\n} or secret{`}", Sent(r#"a{b="\n} or secret{",namespace="shop"}"#)),
    ("an escape that is none", r#"a{b="\q"}"#, Refused("not PromQL")),
    ("a zero byte", "a{b=\"\\x00\"}", Sent("a{b=\"\0\",namespace=\"shop\"}")),
    ("a comment that swallows ours", "a # {", Sent(r#"a{namespace="shop"}"#)),
    ("a comment between", "a{ # }\n} or secret", Sent(r#"a{namespace="shop"} or secret{namespace="shop"}"#)),
    (
        "a comment that ends in another way",
        "a{b=\"c\"} #\u{2028} or secret",
        Sent(r#"a{b="c",namespace="shop"}"#),
    ),
    ("or between matchers", r#"a{namespace="shop" or namespace="other"}"#, Refused("`or` between matchers")),
    ("or between selectors", "a or secret", Sent(r#"a{namespace="shop"} or secret{namespace="shop"}"#)),
    ("a time of its own", "secret @ 1600000000", Sent(r#"secret{namespace="shop"} @ 1600000000.000"#)),
    ("the end of the range", "secret @ end()", Sent(r#"secret{namespace="shop"} @ end()"#)),
    ("the past", "secret offset 1w", Sent(r#"secret{namespace="shop"} offset 1w"#)),
    ("the future", "secret offset -5m", Sent(r#"secret{namespace="shop"} offset -5m"#)),
    (
        "a time and an offset in a range",
        "rate(secret[5m] @ start() offset 1h)",
        Sent(r#"rate(secret{namespace="shop"}[5m] @ start() offset 1h)"#),
    ),
    (
        "a subquery",
        "max_over_time((a * secret)[10m:1m])",
        Sent(r#"max_over_time((a{namespace="shop"} * secret{namespace="shop"})[10m:1m])"#),
    ),
    (
        "a subquery with a time",
        "sum_over_time(secret[10m:] @ 0 offset 5m)",
        Sent(r#"sum_over_time(secret{namespace="shop"}[10m:] @ 0.000 offset 5m)"#),
    ),
    (
        "labels rewritten",
        r#"label_replace(secret, "namespace", "shop", "", "")"#,
        Sent(r#"label_replace(secret{namespace="shop"}, "namespace", "shop", "", "")"#),
    ),
    (
        "labels joined",
        r#"label_join(secret, "namespace", "", "x")"#,
        Sent(r#"label_join(secret{namespace="shop"}, "namespace", "", "x")"#),
    ),
    (
        "joined from the other side",
        "a * on (pod) group_left (owner) secret",
        Sent(r#"a{namespace="shop"} * on (pod) group_left (owner) secret{namespace="shop"}"#),
    ),
    (
        "joined ignoring the label",
        "a * ignoring (namespace) group_right () secret",
        Sent(r#"a{namespace="shop"} * ignoring (namespace) group_right () secret{namespace="shop"}"#),
    ),
    (
        "a parameter of an aggregation",
        "topk(scalar(secret), a)",
        Sent(r#"topk(scalar(secret{namespace="shop"}), a{namespace="shop"})"#),
    ),
    (
        "a parameter of a function",
        "histogram_quantile(scalar(secret), a)",
        Sent(r#"histogram_quantile(scalar(secret{namespace="shop"}), a{namespace="shop"})"#),
    ),
    (
        "values as labels",
        r#"count_values("v", secret)"#,
        Sent(r#"count_values("v", secret{namespace="shop"})"#),
    ),
    ("what is absent", "absent(secret)", Sent(r#"absent(secret{namespace="shop"})"#)),
    ("a sign in front", "-secret", Sent(r#"-secret{namespace="shop"}"#)),
    (
        "a recording rule over all namespaces",
        "cluster:secret:sum",
        Sent(r#"cluster:secret:sum{namespace="shop"}"#),
    ),
    (
        "a recording rule by namespace",
        r#"namespace:secret:sum{namespace="other"}"#,
        Sent(r#"namespace:secret:sum{namespace="other",namespace="shop"}"#),
    ),
    ("series that a function reads by itself", "info(a)", Refused("info() is not supported")),
    ("a second query", "a; secret", Refused("not PromQL")),
    ("a parameter of the form", "a&query=secret", Refused("not PromQL")),
    ("a template of another dialect", "WITH (x = secret) x", Refused("not PromQL")),
    ("another dialect's filter", r#"a{b="c"} keep_metric_names"#, Refused("not PromQL")),
];

#[test]
fn no_query_gets_round_the_namespace() {
    let confinement = Some(Confinement { label: "namespace", value: "shop" });
    let mut wrong = Vec::new();
    for (what, query, expected) in ATTEMPTS {
        let came = admit(query, confinement);
        match (expected, &came) {
            (Sent(text), Ok(sent)) if sent == text => {}
            (Refused(why), Err(fault)) if fault.to_string().contains(why) => {}
            _ => wrong.push(format!("{what}: {query}\n    gave {came:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
