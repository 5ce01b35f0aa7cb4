//! Label selectors as they come in a query string. In: text such as `app=web,tier in (a,b),!canary`. Out: kube's
//! own expressions, which do the matching; kube has no parser for them.

use std::collections::BTreeSet;

use kube::core::{Expression, Selector};

/// The selector, or the part of it that cannot be read.
pub(crate) fn parse(text: &str) -> Result<Selector, String> {
    let mut selector = Selector::default();
    for part in split_outside_parentheses(text) {
        let part = part.trim();
        if !part.is_empty() {
            selector
                .extend(requirement(part).ok_or_else(|| format!("cannot read the label selector {part:?}"))?);
        }
    }
    Ok(selector)
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|character| {
        inside = character == '(' || inside && character != ')';
        character == ',' && !inside
    })
    .collect()
}

fn requirement(part: &str) -> Option<Expression> {
    if let Some(rest) = part.strip_suffix(')') {
        let (head, values) = rest.split_once('(')?;
        let values: BTreeSet<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = head.trim().rsplit_once(' ')?;
        let key = label_key(key)?;
        return match operator {
            "in" => Some(Expression::In(key, values)),
            "notin" => Some(Expression::NotIn(key, values)),
            _ => None,
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Some(Expression::NotEqual(label_key(key)?, value.trim().to_owned()));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Expression::Equal(label_key(key)?, value.trim().to_owned()));
    }
    match part.strip_prefix('!') {
        Some(key) => Some(Expression::DoesNotExist(label_key(key)?)),
        None => Some(Expression::Exists(label_key(part)?)),
    }
}

fn label_key(text: &str) -> Option<String> {
    let key = text.trim();
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    (!key.is_empty() && key.chars().all(plain)).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::SelectorExt;

    #[test]
    fn selectors_match_as_the_api_server_would() {
        let labels =
            [("app", "web"), ("tier", "front")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = labels.into_iter().collect();
        let cases = [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app=api", false),
            ("app!=web", false),
            ("canary!=yes", true),
            ("app in (web, api),tier", true),
            ("app notin (web,api)", false),
            ("!canary", true),
            ("canary", false),
        ];
        for (text, matches) in cases {
            assert_eq!(parse(text).unwrap().matches(&labels), matches, "{text}");
        }
    }

    #[test]
    fn junk_is_refused_and_named() {
        for text in ["=web", "app within (web)", "a b", "app=web,)(", "in (a)"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("app=web,a b").unwrap_err().contains("\"a b\""));
    }
}
