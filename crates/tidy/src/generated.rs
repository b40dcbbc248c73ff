//! Parts of guides that are made from something else, between `<!-- NAME: ... -->` and `<!-- end of NAME -->`.

/// `text` with `content` between the markers of the part `name`; the reason where they are not there.
pub fn with_part(text: &str, name: &str, content: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- {name}: "), format!("<!-- end of {name} -->"));
    let begins = text.find(&begin).ok_or_else(|| format!("there is no `{begin}... -->`"))?;
    let rest = &text[begins..];
    let inside = rest.find("-->\n").ok_or_else(|| format!("`{begin}` is not closed"))? + 4;
    let ends = rest.find(&end).filter(|ends| *ends >= inside);
    let ends = ends.ok_or_else(|| format!("there is no `{end}` behind `{begin}... -->`"))?;
    let (before, after) = (&text[..begins + inside], &rest[ends..]);
    Ok(format!("{before}\n{}\n\n{after}", content.trim()))
}

/// A page as a section of another: its headings go one level down.
pub fn as_section(page: &str) -> String {
    let mut in_code = false;
    let mut line = |line: &str| {
        in_code ^= line.starts_with("```");
        let mark = if line.starts_with('#') && !in_code { "#" } else { "" };
        format!("{mark}{line}\n")
    };
    page.lines().map(&mut line).collect()
}

#[cfg(test)]
mod tests {
    use super::{as_section, with_part};

    #[test]
    fn a_part_is_replaced_between_its_markers_and_nothing_else() {
        let text = "a\n<!-- b: by c -->\nold\n<!-- end of b -->\nd\n";
        let expected = "a\n<!-- b: by c -->\n\nnew\n\n<!-- end of b -->\nd\n";
        assert_eq!(with_part(text, "b", "\nnew\n").unwrap(), expected);
        assert_eq!(with_part(expected, "b", "new").unwrap(), expected);
        with_part("a\n", "b", "new").unwrap_err();
        with_part("<!-- b: -->\n", "b", "new").unwrap_err();
        with_part("<!-- end of b -->\n<!-- b: -->\n", "b", "new").unwrap_err();
    }

    #[test]
    fn a_section_keeps_its_code() {
        let page = "# A\n```sh\n# b\n```\n## C\n";
        assert_eq!(as_section(page), "## A\n```sh\n# b\n```\n### C\n");
    }
}
