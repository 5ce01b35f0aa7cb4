//! What can be said of a query's text before it is parsed: where a bracket or a string breaks off, and that parsing it
//! will not take long. In: text of a stranger. Out: nothing, or what is wrong and at which character. Pure.
//!
//! The parser walks by recursion, compiles every regular expression it meets, and panics at a duration it cannot hold;
//! so depth, expressions and numbers are bounded here.

use super::bad;
use crate::fault::ReadFault;

/// Deepest nesting of brackets; with the length it bounds the depth of the tree.
pub const MAX_NESTING: usize = 64;
/// Most operators in one query: each adds a level to the tree.
pub(super) const MAX_OPERATORS: usize = 256;
/// Longest regular expression, bytes.
pub const MAX_REGEX_BYTES: usize = 1_024;
/// Most copies of its parts that the counts of a regular expression may ask for, nested ones multiplied: an automaton
/// is built of all copies. `[a-z0-9]{8,10}-[a-z0-9]{5}` asks for 50.
pub const MAX_REGEX_COPIES: u64 = 1_000;
/// Most Unicode classes (`\w`, `\d`, `\pL`) in all regular expressions of one query, copies included: each is hundreds
/// of ranges.
pub(super) const MAX_REGEX_CLASSES: u64 = 1_000;
/// Most digits of one part of a duration; 999,999,999 s are 31 years.
const MAX_DURATION_DIGITS: usize = 9;
/// Most digits, and largest exponent, of a number: more is no precision.
const MAX_NUMBER_DIGITS: usize = 16;

/// Checks the text.
///
/// # Errors
/// [`ReadFault::BadQuery`] with the character at which it goes wrong.
pub(super) fn check(query: &str) -> Result<(), ReadFault> {
    check_depth(query)?;
    // Where such a string ends is read in two ways, and what one takes for text is a query for the other.
    if let Some(at) = query.find("\\`") {
        return Err(bad(format!("a backtick after a backslash, {}, is not supported", place(query, at))));
    }
    let mut reader = Reader { query, at: 0, open: Vec::new(), classes: 0, after: After::Other };
    while let Some(c) = reader.peek() {
        reader.step(c)?;
    }
    match reader.open.pop() {
        Some((bracket, at)) => Err(bad(format!("`{bracket}` {} is never closed", place(query, at)))),
        None => Ok(()),
    }
}

/// Bounds the tree before it is built, as it is walked by recursion. Brackets and operators inside strings are counted
/// as well: that errs on the side of refusing, and rests on nobody's idea of where a string ends.
fn check_depth(query: &str) -> Result<(), ReadFault> {
    let mut depth = 0usize;
    let mut operators = 0usize;
    for byte in query.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'<' | b'>' | b'=' => operators += 1,
            _ => {}
        }
        if MAX_NESTING < depth {
            return Err(bad(format!("it is nested deeper than {MAX_NESTING} brackets")));
        }
    }
    if MAX_OPERATORS < operators {
        return Err(bad(format!("it has more than {MAX_OPERATORS} operator signs")));
    }
    Ok(())
}

/// What a string or a number stands behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Matches,
    Offset,
    Other,
}

struct Reader<'a> {
    query: &'a str,
    /// Byte offset of the next character.
    at: usize,
    open: Vec<(char, usize)>,
    classes: u64,
    after: After,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.query[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn step(&mut self, c: char) -> Result<(), ReadFault> {
        match c {
            '"' | '\'' | '`' => self.string(c)?,
            '#' => self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len()),
            '(' | '[' | '{' => {
                self.open.push((c, self.at));
                self.advance(c);
            }
            ')' | ']' | '}' => {
                self.close(c)?;
                self.advance(c);
            }
            _ if c.is_ascii_digit() => self.number()?,
            // Between a range and its step a colon is no part of a name.
            ':' if self.open.last().is_some_and(|(bracket, _)| *bracket == '[') => self.advance(c),
            _ if is_of_word(c) => self.word()?,
            _ if c.is_whitespace() => self.at += c.len_utf8(),
            _ => self.sign(c),
        }
        Ok(())
    }

    fn advance(&mut self, c: char) {
        self.at += c.len_utf8();
        self.after = After::Other;
    }

    fn close(&mut self, c: char) -> Result<(), ReadFault> {
        let here = place(self.query, self.at);
        let Some((bracket, at)) = self.open.pop() else {
            return Err(bad(format!("`{c}` {here} closes nothing")));
        };
        if !matches!((bracket, c), ('(', ')') | ('[', ']') | ('{', '}')) {
            let there = place(self.query, at);
            return Err(bad(format!("`{c}` {here} does not close `{bracket}` {there}")));
        }
        Ok(())
    }

    fn sign(&mut self, c: char) {
        let regex = self.rest().starts_with("=~") || self.rest().starts_with("!~");
        // A sign before a duration leaves the offset what it is.
        let keeps = self.after == After::Offset && matches!(c, '+' | '-');
        self.at += if regex { 2 } else { c.len_utf8() };
        if !keeps {
            self.after = if regex { After::Matches } else { After::Other };
        }
    }

    fn word(&mut self) -> Result<(), ReadFault> {
        let end = self.rest().find(|c: char| !is_of_word(c)).unwrap_or(self.rest().len());
        let word = self.rest()[..end].to_ascii_lowercase();
        if self.after == After::Offset && matches!(word.as_str(), "inf" | "nan") {
            return Err(bad(format!("the offset {} is no duration", place(self.query, self.at))));
        }
        self.after = if word == "offset" { After::Offset } else { After::Other };
        self.at += end;
        Ok(())
    }

    /// A number or a duration: digits with a point, an exponent or units.
    fn number(&mut self) -> Result<(), ReadFault> {
        let mut end = 0;
        let mut before = ' ';
        for c in self.rest().chars() {
            let is_exponent_sign = matches!(before, 'e' | 'E') && matches!(c, '+' | '-');
            if !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.') && !is_exponent_sign {
                break;
            }
            end += c.len_utf8();
            before = c;
        }
        let text = &self.rest()[..end];
        let too_long = || bad(format!("the number {} has too many digits", place(self.query, self.at)));
        let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
        let exponent = text.split_once(['e', 'E']).map(|(_, exponent)| exponent);
        let is_duration = !is_hexadecimal && text.contains(|c: char| "ymwdhs".contains(c));
        let most = if is_duration { MAX_DURATION_DIGITS } else { MAX_NUMBER_DIGITS };
        let runs = text.split(|c: char| !c.is_ascii_digit());
        if runs.map(str::len).max().is_some_and(|digits| most < digits)
            || (is_hexadecimal && most < text.len())
        {
            return Err(too_long());
        }
        if let (false, Some(exponent)) = (is_hexadecimal, exponent) {
            let exponent: Option<usize> = exponent.trim_start_matches(['+', '-']).parse().ok();
            if exponent.is_none_or(|exponent| MAX_NUMBER_DIGITS < exponent) {
                return Err(too_long());
            }
        }
        self.at += end;
        self.after = After::Other;
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), ReadFault> {
        let start = self.at;
        let mut escaped = false;
        let mut end = None;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' if quote != '`' => escaped = true,
                '\n' if quote != '`' => break,
                _ if c == quote => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let Some(end) = end else {
            return Err(bad(format!("the string {} never ends", place(self.query, start))));
        };
        if self.after == After::Matches {
            let expression = &self.query[start + 1..start + end];
            self.regex(expression, place(self.query, start))?;
        }
        self.at += end + 1;
        self.after = After::Other;
        Ok(())
    }

    fn regex(&mut self, expression: &str, place: String) -> Result<(), ReadFault> {
        if MAX_REGEX_BYTES < expression.len() {
            return Err(bad(format!(
                "the regular expression {place} is longer than {MAX_REGEX_BYTES} bytes"
            )));
        }
        let copies = copies(expression);
        if MAX_REGEX_COPIES < copies {
            return Err(bad(format!(
                "the counts of the regular expression {place} ask for more than {MAX_REGEX_COPIES} copies"
            )));
        }
        // Escaped escapes are counted as well: that errs on the side of refusing.
        let classes = expression
            .split('\\')
            .filter(|part| part.starts_with(['p', 'P', 'w', 'W', 'd', 'D', 's', 'S', 'b', 'B']));
        // Letters that match in either case are small classes.
        let insensitive = if expression.contains("(?") { expression.len() as u64 } else { 0 };
        let weight = (classes.count() as u64 + insensitive / 16) * copies;
        self.classes = self.classes.saturating_add(weight);
        if MAX_REGEX_CLASSES < self.classes {
            return Err(bad(format!(
                "its regular expressions have more than {MAX_REGEX_CLASSES} character classes, copies included"
            )));
        }
        Ok(())
    }
}

/// The largest counts of all `{n,m}` multiplied, as if they were all nested.
fn copies(expression: &str) -> u64 {
    let counted = |part: &str| -> Option<u64> {
        let (counts, _) = part.split_once('}')?;
        let largest = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).max()?;
        Some(largest.max(1))
    };
    expression.split('{').skip(1).filter_map(counted).fold(1, u64::saturating_mul)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Where a byte stands, for a person: characters are counted from 1, lines only where there are several.
fn place(query: &str, at: usize) -> String {
    let before = &query[..at];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let character = before[line_start..].chars().count() + 1;
    if query.trim_end().contains('\n') {
        format!("at line {}, character {character}", before.matches('\n').count() + 1)
    } else {
        format!("at character {character}")
    }
}
