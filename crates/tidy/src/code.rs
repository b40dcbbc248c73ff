//! Blanks out what is not code: comments and the insides of literals.
//!
//! Not a Rust parser: it knows just enough of the lexical grammar that a rule about the word
//! `unsafe` is not set off by a comment, a string or this sentence. Line breaks and byte positions
//! stay where they were, so a position in the result is a position in the file.

/// Returns `text` with comments and the contents of literals replaced by spaces.
pub(crate) fn only_code(text: &str) -> String {
    let mut blanker =
        Blanker { bytes: text.as_bytes(), at: 0, out: Vec::with_capacity(text.len()) };
    while blanker.at < blanker.bytes.len() {
        blanker.step();
    }
    String::from_utf8(blanker.out).expect("blanking replaces whole characters by spaces")
}

struct Blanker<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Blanker<'_> {
    fn step(&mut self) {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            self.blank(length);
        } else if rest.starts_with(b"/*") {
            self.blank(block_comment_length(rest));
        } else if let Some(length) = raw_string_length(rest).filter(|_| !self.inside_a_word()) {
            self.blank(length);
        } else if rest[0] == b'"' {
            self.blank(string_length(rest));
        } else if let Some(length) = char_length(rest) {
            self.blank(length);
        } else {
            self.keep();
        }
    }

    fn inside_a_word(&self) -> bool {
        self.at > 0 && is_word(self.bytes[self.at - 1])
    }

    fn keep(&mut self) {
        let byte = self.bytes[self.at];
        self.out.push(byte);
        self.at += 1;
    }

    fn blank(&mut self, length: usize) {
        let blanked = &self.bytes[self.at..self.at + length];
        self.out.extend(blanked.iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
        self.at += length;
    }
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Block comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, `br"…"`, `cr"…"`; not `r#ident`.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = [&b"br"[..], b"cr", b"r"].into_iter().find(|p| rest.starts_with(p))?.len();
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    let body = prefix + hashes + 1;
    if rest.get(body - 1) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let found = rest[body..].windows(end.len()).position(|w| w == end);
    Some(found.map_or(rest.len(), |position| body + position + end.len()))
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character literal, told from a lifetime by its closing quote.
fn char_length(rest: &[u8]) -> Option<usize> {
    if rest[0] != b'\'' || rest.len() < 3 {
        return None;
    }
    if rest[1] == b'\\' {
        let close = rest.get(3..)?.iter().position(|b| *b == b'\'')?;
        return Some(3 + close + 1);
    }
    let width = match rest[1] {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[cfg(test)]
mod tests {
    use super::only_code;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let blanked = only_code(text);
        assert_eq!(blanked.len(), text.len(), "positions moved in {text:?}");
        assert_eq!(blanked.split_whitespace().collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn comments_are_blanked_and_code_around_them_stays() {
        check("a // b\nc", "a c");
        check("/// doc\na", "a");
        check("a /* b /* c */ d */ e", "a e");
        check("a /* never closed", "a");
    }

    #[test]
    fn strings_are_blanked_whatever_their_quoting() {
        check(r#"a("b");"#, "a( );");
        check(r#"a("b\"c") d"#, "a( ) d");
        check(r##"a(r"b\") c"##, "a( ) c");
        check("a(r#\"b \" c\"#) d", "a( ) d");
        check("a(br#\"b\"#, b\"c\") d", "a( , b ) d");
        check("a(\"// b\") c", "a( ) c");
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        check("a('\"') b", "a( ) b");
        check("a('\\'', 'é', '\\u{1F600}') b", "a( , , ) b");
        check("fn a<'b>(c: &'b str) {}", "fn a<'b>(c: &'b str) {}");
    }

    #[test]
    fn raw_identifiers_and_words_that_end_in_r_are_code() {
        check("r#type", "r#type");
        check("for\"a\"", "for");
    }
}
