//! Foreign text made fit for messages, statuses, events, logs and metrics. In: anything. Out: one line of bounded
//! length in which nothing moves the cursor, hides, or changes the direction of what stands beside it. Pure.

use std::fmt;

/// The first `max_chars` characters, each that cannot be seen as what it is replaced by a space.
#[must_use]
pub fn visible(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

/// Control characters, line and paragraph separators, marks of direction, zero-width characters, tags and variation
/// selectors: what a terminal obeys or swallows instead of showing.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Numbers from here on are written with an exponent: a float has no more digits to tell apart, and 1e300 would fill
/// a screen.
const LONGEST_FIXED: f64 = 1e15;

/// The number with so many decimals, with an exponent where it would be longer than a person reads.
pub fn fixed(value: f64, decimals: usize) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        if value.abs() < LONGEST_FIXED { write!(f, "{value:.decimals$}") } else { write!(f, "{value:.2e}") }
    })
}

/// As [`fixed`], with the sign in front of a positive number too.
pub fn signed(value: f64, decimals: usize) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        if value.abs() < LONGEST_FIXED { write!(f, "{value:+.decimals$}") } else { write!(f, "{value:+.2e}") }
    })
}

/// The shortest text that reads back as the same number.
pub fn exact(value: f64) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        let is_long = LONGEST_FIXED <= value.abs() || (value != 0.0 && value.abs() < 1.0 / LONGEST_FIXED);
        if is_long && value.is_finite() { write!(f, "{value:e}") } else { write!(f, "{value}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_fills_a_screen_and_an_exact_one_reads_back() {
        for value in
            [0.0, -0.0, 0.1, 250.0, 1e15, 1e300, -1e300, 5e-324, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY]
        {
            for text in [fixed(value, 6).to_string(), signed(value, 0).to_string(), exact(value).to_string()]
            {
                assert!(text.len() <= 25, "{value:e} became {text}");
            }
            assert_eq!(exact(value).to_string().parse(), Ok(value));
        }
        let shown = [0.0, 12.345, 999.0, 2e18].map(|value| fixed(value, 1).to_string());
        assert_eq!(shown, ["0.0", "12.3", "999.0", "2.00e18"]);
        assert_eq!([signed(12.0, 0).to_string(), signed(-1e20, 0).to_string()], ["+12", "-1.00e20"]);
    }

    #[test]
    fn what_a_terminal_obeys_or_swallows_becomes_a_space() {
        for (hidden, name) in [
            ('\n', "line feed"),
            ('\r', "carriage return"),
            ('\0', "nul"),
            ('\u{1b}', "escape"),
            ('\u{7f}', "delete"),
            ('\u{9b}', "control sequence introducer"),
            ('\u{85}', "next line"),
            ('\u{2028}', "line separator"),
            ('\u{202e}', "right-to-left override"),
            ('\u{2066}', "left-to-right isolate"),
            ('\u{61c}', "arabic letter mark"),
            ('\u{200b}', "zero-width space"),
            ('\u{feff}', "byte order mark"),
            ('\u{e0041}', "tag letter"),
        ] {
            assert_eq!(visible(&format!("a{hidden}b"), 9), "a b", "{name}");
        }
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["p99 < 250 ms", "Größe", "数据", "a\"b\\c{d}", "naïve…", "🙂"] {
            assert_eq!(visible(text, 99), text);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(visible("ääää", 3), "äää");
        assert_eq!(visible("ab", 3), "ab");
        assert_eq!(visible("", 3), "");
    }
}
