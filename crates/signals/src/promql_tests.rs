//! What is admitted, what is refused, and that nobody gets out of their namespace.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::shape::MAX_OPERATORS;
use super::*;

const SHOP: Confinement<'static> = Confinement { label: "namespace", value: "shop" };

fn confined(query: &str) -> String {
    admit(query, Some(SHOP)).unwrap_or_else(|fault| format!("refused: {fault}"))
}

fn check_refused(query: &str, expected: &str) {
    for confinement in [None, Some(SHOP)] {
        let message = admit(query, confinement).expect_err(query).to_string();
        assert!(message.contains(expected), "{query}\n gave: {message}\n not: {expected}");
    }
}

#[test]
fn every_selector_carries_the_namespace_wherever_it_stands() {
    let queries = [
        "up",
        "up{}",
        r#"sum(rate(http_requests_total{app="web"}[1m]))"#,
        r#"sum by (le) (rate(x_bucket{app=~"we.*|\\d+"}[5m]))"#,
        "a / on (pod) group_left (node) b",
        "a and b unless c or vector(1)",
        "-(a + b) * -c ^ 2",
        "topk(scalar(secret_count), a)",
        "quantile without (pod) (scalar(q), a)",
        "count_values(\"version\", build_info)",
        "max_over_time(rate(a[1m])[10m:30s])",
        "max_over_time((a * b)[10m:] offset 5m)",
        "rate(a[5m] offset 1h) + a @ 1600000000 + a offset -5m + a @ end()",
        "histogram_quantile(scalar(q), sum by (le) (a))",
        "label_replace(a, \"namespace\", \"other\", \"pod\", \".*\")",
        "absent(a{b!=\"c\"}) or a{b!~\"c|d\"}",
        "{__name__=\"a\"}",
        "{\"http.requests\", app=\"web\"}",
        "a > bool 1",
        "timestamp(a)",
        "time() - 5",
    ];
    let lines: Vec<_> = queries.iter().map(|query| format!("{query}\n    {}", confined(query))).collect();
    assert_snapshot!(lines.join("\n"));
}

// A policy's author writes another namespace, or a pattern for all of them: both matchers hold, nothing is selected.
#[test]
fn a_contradicting_matcher_does_not_get_round_the_namespace() {
    for query in [
        r#"a{namespace="other"}"#,
        r#"a{namespace=~".*"}"#,
        r#"a{namespace!="shop"}"#,
        r#"a{namespace=""}"#,
        r#"a{"namespace"="other"}"#,
        r#"a{namespace='other',}"#,
    ] {
        let confined = confined(query);
        assert!(
            confined.starts_with("a{") && confined.contains(r#"namespace="shop""#),
            "{query} gave {confined}"
        );
    }
}

#[test]
fn text_that_tries_to_close_its_quotes_stays_text() {
    let tricky = r#"a{app="x\"} or secret{y=\"z"}"#;
    assert_eq!(confined(tricky), r#"a{app="x\"} or secret{y=\"z",namespace="shop"}"#);
    assert_eq!(confined("a{app=`x\"} or secret #`}"), r#"a{app="x\"} or secret #",namespace="shop"}"#);
    assert_eq!(confined("a # } or secret"), r#"a{namespace="shop"}"#);
    assert_eq!(confined("{\"a} or secret{\"}"), r#"{__name__="a} or secret{",namespace="shop"}"#);
}

#[test]
fn a_namespace_is_quoted_whatever_it_holds() {
    let odd = Confinement { label: "namespace", value: "a\"} or b{c=\"" };
    assert_eq!(admit("up", Some(odd)).unwrap(), r#"up{namespace="a\"} or b{c=\""}"#);
}

#[test]
fn without_confinement_the_text_is_sent_as_it_is_written() {
    assert_eq!(admit("  sum( rate(a[1m]) )\n", None).unwrap(), "sum( rate(a[1m]) )");
}

#[test]
fn what_is_not_promql_is_refused_with_the_reason() {
    check_refused("", "it is empty");
    check_refused("  ", "it is empty");
    check_refused("sum() by", "not PromQL");
    check_refused("http://prometheus/", "not PromQL");
    check_refused("select * from x", "not PromQL");
    check_refused("a{b=\"c\",,}", "not PromQL");
    check_refused("a{b=~\"(\"}", "not PromQL");
    check_refused("a{b=\"c\" or d=\"e\"}", "`or` between matchers");
    check_refused("a[1e30]", "the number at character 3 has too many digits");
    check_refused("a[5m:1e300]", "the number at character 6 has too many digits");
    check_refused("a offset 1e30", "too many digits");
    check_refused("a offset -inf", "the offset at character 11 is no duration");
    // The parser leaves out a part that it cannot hold; the source would not.
    check_refused("rate(a[9999999999s1m])", "the number at character 8 has too many digits");
}

#[test]
fn a_bracket_or_string_that_breaks_off_is_named_with_its_place() {
    for (query, expected) in [
        ("sum(rate(a[5m])", "`(` at character 4 is never closed"),
        ("sum(a))", "`)` at character 7 closes nothing"),
        ("rate(a[5m)", "`)` at character 10 does not close `[` at character 7"),
        ("a{b=\"c\"", "`{` at character 2 is never closed"),
        ("a{b=\"c}", "the string at character 5 never ends"),
        ("a{b=`c`", "`{` at character 2 is never closed"),
        ("a{b=`c\\`}", "a backtick after a backslash, at character 7"),
        ("a # (\r)", "`)` at character 7 closes nothing"),
        ("a{b=\"c\n\"}", "the string at line 1, character 5 never ends"),
        ("sum(\n  rate(a[5m])\n))", "`)` at line 3, character 2 closes nothing"),
        ("größe{}) ", "`)` at character 8 closes nothing"),
        ("a # (\n)", "`)` at line 2, character 1 closes nothing"),
    ] {
        check_refused(query, expected);
    }
    for fine in ["a{b=\")\"}", "a{b='\\'('}", "a # ( [ {", "sum(a{b=`\"[`})"] {
        assert!(admit(fine, None).is_ok(), "{fine}: {:?}", admit(fine, None));
    }
}

#[test]
fn a_regular_expression_is_bounded_before_it_is_compiled() {
    let regex = |expression: &str| format!("a{{b=~\"{expression}\"}}");
    assert!(admit(&regex(r"web-[a-f0-9]{8,10}-[a-z0-9]{5}"), None).is_ok());
    assert!(admit(&regex(&"x".repeat(MAX_REGEX_BYTES)), None).is_ok());
    check_refused(
        &regex(&"x".repeat(MAX_REGEX_BYTES + 1)),
        "the regular expression at character 6 is longer",
    );
    assert!(admit(&regex("(x{10}){100}"), None).is_ok());
    check_refused(&regex("(x{11}){100}"), "ask for more than 1000 copies");
    check_refused(&regex("(x{1,11}){0,100}"), "ask for more than 1000 copies");
    check_refused(&regex("x{99999999999999999999}"), "not PromQL");
    check_refused(&regex(r"(\\w\\w){501}"), "more than 1000 character classes");
    check_refused(
        &format!("a{{{}}}", [r#"b=~"\\pL{300}""#; 4].join(",")),
        "more than 1000 character classes",
    );
    // A value that is compared is no expression.
    assert!(admit("a{b=\"{999999}{999999}\"}", None).is_ok());
}

#[test]
fn what_is_cheap_once_may_be_too_dear_for_a_range_of_instants() {
    let points = crate::prometheus::MAX_POINTS_PER_QUERY as u64;
    assert!(admit_for(points, "rate(a[1h])", None).is_ok());
    assert!(admit_for(points, "rate(a[2h])", None).is_err());
    assert!(admit("max_over_time(rate(a[5m])[1h:])", None).is_ok());
    assert!(admit_for(points, "max_over_time(rate(a[5m])[1h:])", None).is_err());
}

#[test]
fn a_query_is_bounded_in_cost() {
    check_refused("{job=~\".+\"}", "must name its metric");
    check_refused("{__name__=~\".+\"}", "must name its metric");
    check_refused("{__name__!=\"a\"}", "non-empty matcher");
    check_refused("{__name__!=\"\"}", "must name its metric");
    // All metrics but those that begin as the one nobody has.
    check_refused("{__name__=~\"[^r].*|r[^l].*\"}", "must name its metric");
    check_refused("{__name__=~\"a|\",b=\"c\"}", "must name its metric");
    check_refused("{__name__=\"\",b=\"c\"}", "must name its metric");
    assert!(admit("{__name__=~\"a|b\"}", None).is_ok());
    assert!(admit("rate(a[1d])", None).is_ok());
    check_refused("rate(a[1d1s])", "a range of 86401 s is longer");
    assert!(admit("max_over_time(a[3h:1s])", None).is_ok());
    check_refused("max_over_time(a[4h:1s])", "more than 11000 evaluations");
    check_refused("max_over_time(max_over_time(a[3h:])[3h:])", "more than 11000 evaluations");
    check_refused("max_over_time(a[1h:1ms])", "more than 11000 evaluations");
    assert!(admit("max_over_time(rate(a[1h])[1d:1m])", None).is_ok());
    check_refused("max_over_time(rate(a[1d])[1d:10s])", "reads more than 40000000 s of samples");
    check_refused("info(a)", "info() is not supported");
    let selectors = |n: usize| vec!["a"; n].join("+");
    assert!(admit(&selectors(MAX_SELECTORS), None).is_ok());
    check_refused(&selectors(MAX_SELECTORS + 1), "33 selectors");
    check_refused(&format!("topk(scalar({}), a)", selectors(MAX_SELECTORS)), "33 selectors");
}

#[test]
fn long_and_deep_queries_are_refused_before_they_are_parsed() {
    check_refused(&format!("a{}", " ".repeat(MAX_QUERY_BYTES)), "longer than 4096 bytes");
    let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    assert!(admit(&nested(MAX_NESTING), None).is_ok());
    check_refused(&nested(MAX_NESTING + 1), "nested deeper");
    check_refused(&"-".repeat(4_000), "operator signs");
    check_refused(&"(".repeat(4_000), "nested deeper");
    assert!(admit(&vec!["1"; MAX_OPERATORS].join("+"), Some(SHOP)).is_ok());
    // Word operators make levels as well.
    let words = vec!["a"; 800].join(" or ");
    check_refused(&words, "selectors");
    for operand in [("1", " atan2 "), ("vector(1)", " or "), ("time()", "==bool ")] {
        let chain = vec![operand.0; MAX_QUERY_BYTES].join(operand.1);
        let longest = chain[..MAX_QUERY_BYTES].rsplit_once(operand.1).unwrap().0;
        // Admitted or not, its tree must fit on the stack of a worker thread.
        let _ = admit(longest, Some(SHOP));
    }
}

#[test]
fn a_confined_query_that_grew_too_long_is_refused() {
    let long = format!("a{{b=\"{}\"}}", "x".repeat(MAX_QUERY_BYTES - 7));
    assert_eq!(long.len(), MAX_QUERY_BYTES);
    assert!(admit(&long, None).is_ok());
    assert!(admit(&long, Some(SHOP)).unwrap_err().to_string().contains("with the matcher on namespace"));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(query in ".{0,200}") {
        let _ = admit(&query, Some(SHOP));
    }

    // The strongest property: whatever is admitted, every selector of what is sent ends with our matcher.
    #[test]
    fn whatever_is_admitted_is_confined(query in "[a-c{}()\\[\\]\"'`=~!,:#+ *@0-9ms\\\\]{0,40}|(sum|topk|rate|max_over_time|a|b|secret|[ (){}\\[\\],]|5m|:|1|\"x\"|=|offset |by ){0,25}") {
        if let Ok(sent) = admit(&query, Some(SHOP)) {
            let tree = parse(&sent).unwrap();
            let mut count = 0;
            all_confined(&tree, &mut count);
            let mut selectors = 0;
            check_cost(&tree, 1, &mut selectors).unwrap();
            prop_assert_eq!(count, selectors);
        }
    }
}

/// Looks at the tree's debug text rather than walking it as the code under test does.
fn all_confined(tree: &Expr, count: &mut usize) {
    let text = format!("{tree:?}");
    let ours = r#"Matcher { op: Equal, name: "namespace", value: "shop" }"#;
    *count = text.matches("VectorSelector {").count();
    assert_eq!(text.matches(ours).count(), *count, "{text}");
}
