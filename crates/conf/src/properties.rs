//! Java's properties format, which `spark-defaults.conf` is written in.
//!
//! ```text
//! # a comment, and ! starts one too
//! spark.master            local[4]
//! spark.app.name        = word count
//! spark.local.dir       : /disk1,\
//!                         /disk2
//! spark.greeting          caf\u00e9
//! ```

use std::fmt::Write;

/// One setting of a properties text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The key, with escapes resolved.
    pub key: String,
    /// The value without the whitespace around it.
    pub value: String,
    /// The line it starts in, from 1.
    pub line: usize,
}

/// A text that is not in the properties format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PropertiesError {
    /// The line, from 1, where the setting starts.
    pub line: usize,
    /// The only mistake the format allows.
    pub problem: EscapeError,
}

/// A `\u` escape that names no character.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\\u{digits} is not a character: write \\u and four hexadecimal digits, or \\\\ for a backslash"
)]
pub struct EscapeError {
    /// What came after `\u`.
    pub digits: String,
}

/// Reads a properties text. A key that is there twice is returned twice.
pub fn parse(text: &str) -> Result<Vec<Property>, PropertiesError> {
    let lines = logical_lines(text);
    lines.iter().map(|(line, text)| parse_line(*line, text)).collect()
}

/// Joins continued lines, and drops blank lines and comments.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.split('\n').enumerate() {
        let line = line.trim_start_matches(is_blank);
        if !continues && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        if !continues {
            joined.push((index + 1, String::new()));
        }
        continues = line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1;
        let part = if continues { &line[..line.len() - 1] } else { line };
        joined.last_mut().expect("a line was pushed above").1.push_str(part);
    }
    joined
}

/// What separates a key from its value besides `=` and `:`.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

fn parse_line(line: usize, text: &str) -> Result<Property, PropertiesError> {
    let (key, rest) = text.split_at(key_end(text));
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    let unescape = |text| unescape(text).map_err(|problem| PropertiesError { line, problem });
    Ok(Property { key: unescape(key)?, value: unescape(value)?.trim().to_owned(), line })
}

/// Where the key ends: at the first separator that is not escaped.
fn key_end(text: &str) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        if !escaped && (is_blank(c) || c == '=' || c == ':') {
            return index;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

fn unescape(text: &str) -> Result<String, EscapeError> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        rest = match after.strip_prefix('u') {
            Some(digits) => unescape_unicode(digits, &mut plain)?,
            None => unescape_char(after, &mut plain),
        };
    }
    plain.push_str(rest);
    Ok(plain)
}

/// Reads the character after a backslash and returns what follows it.
fn unescape_char<'a>(text: &'a str, plain: &mut String) -> &'a str {
    let mut chars = text.chars();
    plain.extend(chars.next().map(|c| match c {
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        'f' => '\x0c',
        other => other,
    }));
    chars.as_str()
}

/// Reads the digits after `\u`, and a second escape when the first is half of a surrogate pair.
fn unescape_unicode<'a>(text: &'a str, plain: &mut String) -> Result<&'a str, EscapeError> {
    let refused = || EscapeError { digits: text.chars().take(4).collect() };
    let (first, mut rest) = code_unit(text).ok_or_else(refused)?;
    let mut units = vec![first];
    if (0xD800..0xDC00).contains(&first) {
        let low = rest.strip_prefix("\\u").and_then(code_unit).ok_or_else(refused)?;
        units.push(low.0);
        rest = low.1;
    }
    plain.push_str(&String::from_utf16(&units).map_err(|_| refused())?);
    Ok(rest)
}

/// Four hexadecimal digits and what follows them.
fn code_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let all_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    all_digits.then(|| u16::from_str_radix(digits, 16).ok()).flatten().map(|unit| (unit, rest))
}

/// Writes settings so that [`parse`] reads them back; the whitespace around values is not kept.
pub fn write<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in settings {
        escape(key, |c| is_blank(c) || "=:#!".contains(c), &mut text);
        text.push('=');
        escape(value.trim(), |c| "=:#!".contains(c), &mut text);
        text.push('\n');
    }
    text
}

fn escape(text: &str, special: impl Fn(char) -> bool, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)).expect("a string grows"),
            c => out.extend(special(c).then_some('\\').into_iter().chain([c])),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let properties = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        properties.into_iter().map(|property| (property.key, property.value)).collect()
    }

    #[test]
    fn a_setting_is_split_as_java_does() {
        for (text, key, value) in [
            ("key value", "key", "value"),
            ("key=value", "key", "value"),
            ("key: value", "key", "value"),
            ("  key \t = \t value \t", "key", "value"),
            ("key==value", "key", "=value"),
            ("key = = value", "key", "= value"),
            ("key", "key", ""),
            ("key=", "key", ""),
            ("=value", "", "value"),
            ("key a b=c # no comment", "key", "a b=c # no comment"),
            ("k\\=e\\:y\\ s value", "k=e:y s", "value"),
            ("key a\\\n   b", "key", "ab"),
            ("key a\\\r\n   b", "key", "ab"),
            ("key \\\n   # b", "key", "# b"),
            ("ke\\\n  y value", "key", "value"),
            ("key a\\\\", "key", "a\\"),
            ("key a\\", "key", "a"),
            ("key a\\tb\\nc\\q", "key", "a\tb\ncq"),
            ("key caf\\u00e9", "key", "café"),
            ("key \\uD83D\\uDE00!", "key", "😀!"),
            ("key C:\\\\temp", "key", "C:\\temp"),
        ] {
            assert_eq!(pairs(text), [(key.to_owned(), value.to_owned())], "{text:?}");
        }
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_and_lines_are_counted() {
        let text = "# one\\\n! two\n\n  \t\nspark.a 1\r  # five\r\nspark.b a\\\n  b\nspark.c 3";
        let found: Vec<(String, usize)> =
            parse(text).unwrap().into_iter().map(|p| (p.key, p.line)).collect();
        let expected = [("spark.a", 5), ("spark.b", 7), ("spark.c", 9)];
        assert_eq!(found, expected.map(|(key, line)| (key.to_owned(), line)));
    }

    #[test]
    fn a_broken_escape_is_refused_with_its_line() {
        for text in
            ["k \\u12", "k \\uxyzt", "k \\ud800", "k \\ud800\\u0041", "k \\udc00", "k \\u+123"]
        {
            let error = parse(&format!("# comment\n{text}")).unwrap_err();
            assert_eq!(error.line, 2, "{text}");
            assert!(error.to_string().contains("four hexadecimal digits"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c\\\\\\\\u09=:#! \t\r\n\\PC]*") {
            let _ = parse(&text);
        }

        #[test]
        fn written_settings_read_back(settings: Vec<(String, String)>) {
            let text = write(settings.iter().map(|(key, value)| (key.as_str(), value.as_str())));
            let expected: Vec<(String, String)> =
                settings.into_iter().map(|(key, value)| (key, value.trim().to_owned())).collect();
            prop_assert_eq!(pairs(&text), expected);
        }
    }
}
