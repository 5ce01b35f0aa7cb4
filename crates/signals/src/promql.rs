//! What a policy's PromQL may be. Its author is not trusted: the query runs with the operator's credentials.
//!
//! In: a query as written. Out: the text that is sent, bounded in cost and, where the source says so, bound to the
//! policy's namespace in every selector. Pure. Text is never pasted into text: the query is parsed, changed as a tree,
//! written out, parsed again, and refused unless both trees are equal.

use std::panic::catch_unwind;
use std::time::Duration;

use promql_parser::label::{METRIC_NAME, MatchOp, Matcher};
use promql_parser::parser::{self, Expr, VectorSelector};

use crate::config::is_label_name;
use crate::fault::{ReadFault, printable};

mod shape;

pub use shape::{MAX_NESTING, MAX_REGEX_BYTES, MAX_REGEX_COPIES};

/// Longest query, bytes.
pub const MAX_QUERY_BYTES: usize = 4_096;
/// Longest range of a range selector or subquery. A day at 15-s scrapes is 5,760 samples per series.
pub const MAX_RANGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Most selectors in one query.
pub const MAX_SELECTORS: usize = 32;
/// Most evaluations that subqueries may ask for, nested ones multiplied.
pub const MAX_SUBQUERY_STEPS: u64 = 11_000;
/// Most seconds of samples that one selector may read for one answer: its range, times the evaluations that subqueries
/// and range queries ask for. At 15-s scrapes it is 2.7 million samples a series; Prometheus itself gives up at 50 million
/// in all.
pub const MAX_READ_SECS: u64 = 40_000_000;
/// Step of a subquery that names none: Prometheus' default evaluation interval.
const DEFAULT_SUBQUERY_STEP: Duration = Duration::from_secs(60);

/// A label that every selector must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confinement<'a> {
    /// Name of the label.
    pub label: &'a str,
    /// Its only value.
    pub value: &'a str,
}

/// The text to send for `query`: unchanged without a confinement, else with the matcher added to every selector.
///
/// # Errors
/// [`ReadFault::BadQuery`] when it is not PromQL, costs too much, or cannot be confined for certain.
pub fn admit(query: &str, confinement: Option<Confinement<'_>>) -> Result<String, ReadFault> {
    admit_for(1, query, confinement)
}

/// As [`admit`], for a range query that evaluates it so many times.
///
/// # Errors
/// As [`admit`]; what is cheap once may be too dear for so many instants.
pub fn admit_for(
    evaluations: u64,
    query: &str,
    confinement: Option<Confinement<'_>>,
) -> Result<String, ReadFault> {
    let tree = check(query, evaluations)?;
    let Some(confinement) = confinement else {
        return Ok(query.trim().to_owned());
    };
    let confined = written_out(confine(tree, confinement))?;
    if MAX_QUERY_BYTES < confined.len() {
        return Err(bad(format!(
            "with the matcher on {} it is longer than {MAX_QUERY_BYTES} bytes",
            confinement.label
        )));
    }
    Ok(confined)
}

/// One selector from a metric name and the text between the braces; the text cannot become anything else.
///
/// # Errors
/// [`ReadFault::BadQuery`] when the text is not a list of label matchers, or touches the name or `le`.
pub(crate) fn selector(metric: &str, matchers: &str) -> Result<VectorSelector, ReadFault> {
    if !is_metric_name(metric) {
        return Err(bad(format!("{:?} is not a metric name", printable(metric))));
    }
    let Expr::VectorSelector(selector) = check(&format!("{metric}{{{matchers}}}"), 1)? else {
        return Err(bad("the matchers must be label matchers only, such as app=\"web\""));
    };
    let VectorSelector { name, matchers: found, offset, at } = &selector;
    if name.as_deref() != Some(metric) || offset.is_some() || at.is_some() {
        return Err(bad("the matchers must be label matchers only, such as app=\"web\""));
    }
    if let Some(taken) =
        found.matchers.iter().find(|matcher| matcher.name == METRIC_NAME || matcher.name == "le")
    {
        return Err(bad(format!("the matchers must leave {} alone", taken.name)));
    }
    Ok(in_written_order(selector))
}

/// The tree as text that means the same tree.
///
/// # Errors
/// [`ReadFault::BadQuery`] when it does not.
pub(crate) fn written_out(tree: Expr) -> Result<String, ReadFault> {
    let text = tree.to_string();
    if parse(&text)? != tree {
        return Err(bad("it cannot be rewritten without changing its meaning; write it more simply"));
    }
    Ok(text)
}

fn bad(why: impl Into<String>) -> ReadFault {
    ReadFault::BadQuery { field: "query", why: why.into() }
}

fn check(query: &str, evaluations: u64) -> Result<Expr, ReadFault> {
    if query.trim().is_empty() {
        return Err(bad("it is empty"));
    }
    if MAX_QUERY_BYTES < query.len() {
        return Err(bad(format!("it is longer than {MAX_QUERY_BYTES} bytes")));
    }
    shape::check(query)?;
    let tree = parse(query)?;
    let mut selectors = 0;
    check_cost(&tree, evaluations, &mut selectors)?;
    if MAX_SELECTORS < selectors {
        return Err(bad(format!("it has {selectors} selectors, more than {MAX_SELECTORS}")));
    }
    Ok(tree)
}

fn parse(query: &str) -> Result<Expr, ReadFault> {
    // The parser is not ours: a number it cannot hold as a duration makes it panic.
    let parsed = catch_unwind(|| parser::parse(query)).map_err(|_| bad("the parser cannot read it"))?;
    parsed.map_err(|why| bad(format!("it is not PromQL: {}", printable(&why))))
}

/// Every node of the tree by name, so that a new kind of node does not compile before somebody has thought about it.
fn check_cost(tree: &Expr, evaluations: u64, selectors: &mut usize) -> Result<(), ReadFault> {
    match tree {
        Expr::Aggregate(node) => {
            if let Some(parameter) = &node.param {
                check_cost(parameter, evaluations, selectors)?;
            }
            check_cost(&node.expr, evaluations, selectors)
        }
        Expr::Unary(node) => check_cost(&node.expr, evaluations, selectors),
        Expr::Binary(node) => {
            check_cost(&node.lhs, evaluations, selectors)?;
            check_cost(&node.rhs, evaluations, selectors)
        }
        Expr::Paren(node) => check_cost(&node.expr, evaluations, selectors),
        Expr::Subquery(node) => {
            check_range(node.range)?;
            let step = node.step.unwrap_or(DEFAULT_SUBQUERY_STEP).as_millis().max(1);
            let steps = u64::try_from(node.range.as_millis() / step).unwrap_or(u64::MAX).saturating_add(1);
            let evaluations = evaluations.saturating_mul(steps);
            if MAX_SUBQUERY_STEPS < evaluations {
                return Err(bad(format!(
                    "its subqueries ask for more than {MAX_SUBQUERY_STEPS} evaluations"
                )));
            }
            check_cost(&node.expr, evaluations, selectors)
        }
        // `info` reads series of its own, which no matcher of ours would confine.
        Expr::Call(node) if node.func.name == "info" => Err(bad("info() is not supported")),
        Expr::Call(node) => {
            node.args.args.iter().try_for_each(|argument| check_cost(argument, evaluations, selectors))
        }
        Expr::VectorSelector(node) => check_selector(node, selectors),
        Expr::MatrixSelector(node) => {
            check_range(node.range)?;
            let read_secs = evaluations.saturating_mul(node.range.as_secs().max(1));
            if MAX_READ_SECS < read_secs {
                return Err(bad(format!(
                    "a range of {} s evaluated {evaluations} times reads more than {MAX_READ_SECS} s of samples",
                    node.range.as_secs()
                )));
            }
            check_selector(&node.vs, selectors)
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(()),
        Expr::Extension(_) => Err(bad("it uses an extension of PromQL")),
    }
}

fn check_range(range: Duration) -> Result<(), ReadFault> {
    if MAX_RANGE < range {
        return Err(bad(format!(
            "a range of {} s is longer than {} s",
            range.as_secs(),
            MAX_RANGE.as_secs()
        )));
    }
    Ok(())
}

/// A selector names its metric, or several joined by `|`; one that takes any metric, or all but a few, would read the
/// whole database.
fn check_selector(selector: &VectorSelector, selectors: &mut usize) -> Result<(), ReadFault> {
    *selectors += 1;
    if !selector.matchers.or_matchers.is_empty() {
        return Err(bad("`or` between matchers is not PromQL"));
    }
    let names = |matcher: &Matcher| match &matcher.op {
        MatchOp::Equal => !matcher.value.is_empty(),
        MatchOp::Re(_) => matcher.value.split('|').all(is_metric_name),
        MatchOp::NotEqual | MatchOp::NotRe(_) => false,
    };
    let mut by_name = selector.matchers.matchers.iter().filter(|matcher| matcher.name == METRIC_NAME);
    let named = selector.name.is_some() || by_name.any(names);
    if named { Ok(()) } else { Err(bad("every selector must name its metric, or several as a|b")) }
}

fn confine(tree: Expr, to: Confinement<'_>) -> Expr {
    let boxed = |tree: Box<Expr>| Box::new(confine(*tree, to));
    match tree {
        Expr::Aggregate(mut node) => {
            node.param = node.param.map(boxed);
            node.expr = boxed(node.expr);
            Expr::Aggregate(node)
        }
        Expr::Unary(mut node) => {
            node.expr = boxed(node.expr);
            Expr::Unary(node)
        }
        Expr::Binary(mut node) => {
            node.lhs = boxed(node.lhs);
            node.rhs = boxed(node.rhs);
            Expr::Binary(node)
        }
        Expr::Paren(mut node) => {
            node.expr = boxed(node.expr);
            Expr::Paren(node)
        }
        Expr::Subquery(mut node) => {
            node.expr = boxed(node.expr);
            Expr::Subquery(node)
        }
        Expr::Call(mut node) => {
            node.args.args = node.args.args.into_iter().map(boxed).collect();
            Expr::Call(node)
        }
        Expr::VectorSelector(node) => Expr::VectorSelector(confine_selector(node, to)),
        Expr::MatrixSelector(mut node) => {
            node.vs = confine_selector(node.vs, to);
            Expr::MatrixSelector(node)
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => tree,
        Expr::Extension(_) => unreachable!("check_cost refuses extensions"),
    }
}

/// Matchers of one selector are joined by AND, so one that contradicts ours selects nothing.
fn confine_selector(mut selector: VectorSelector, to: Confinement<'_>) -> VectorSelector {
    // A quoted name such as {"http.requests"} is written out as a matcher: outside quotes it would mean something else.
    if let Some(name) = selector.name.take_if(|name| !is_metric_name(name)) {
        selector.matchers.matchers.push(Matcher::new(MatchOp::Equal, METRIC_NAME, &name));
    }
    selector.matchers.matchers.push(Matcher::new(MatchOp::Equal, to.label, to.value));
    in_written_order(selector)
}

/// Matchers are written out sorted; a tree in the same order can be compared with what is read back.
pub(crate) fn in_written_order(mut selector: VectorSelector) -> VectorSelector {
    selector.matchers.matchers.sort_by_cached_key(ToString::to_string);
    selector
}

fn is_metric_name(text: &str) -> bool {
    !text.starts_with(':') && is_label_name(&text.replace(':', "_"))
}

#[cfg(test)]
mod attempts;

#[cfg(test)]
#[path = "promql_tests.rs"]
mod tests;
