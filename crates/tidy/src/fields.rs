//! Who may change what: structs that keep something have to keep it themselves.
//!
//! A struct with methods that take `&mut self` in its own file has something to keep in order. If every sibling may
//! set its fields, it keeps nothing: a reader of an invariant has to read all of them. So a struct whose fields are all
//! open to siblings (`pub(super)`, `pub(crate)`, `pub(in ..)`) must have fewer than [`FEW`] of them, and one that has
//! private fields too must not have more than [`MANY`] open ones: cut it into sub-states with private fields and methods, one file each.
//!
//! Plain data is not meant: a struct that its file never changes through `&mut self` is a message, a record or a row
//! of somebody's table, and may be as open as it likes.

use crate::code::is_word;
use crate::rules::positions;
use crate::source::braces_length;

/// From so many fields on, not all of them may be open.
pub(crate) const FEW: usize = 4;
/// More fields than this are never open.
pub(crate) const MANY: usize = 10;

/// A struct with fields by name.
pub(crate) struct Fields<'a> {
    pub(crate) name: &'a str,
    /// Where its declaration begins.
    pub(crate) position: usize,
    pub(crate) all: usize,
    /// Of those, the ones that siblings may set.
    pub(crate) open: usize,
}

/// Structs in `code` that change themselves and are too open.
pub(crate) fn open_structs(code: &str) -> impl Iterator<Item = Fields<'_>> {
    let structs = positions(code, "struct").filter_map(|position| declared(code, position));
    structs.filter(|found| {
        let wide = found.all >= FEW && found.open == found.all || found.open > MANY;
        wide && changes_itself(code, found.name)
    })
}

fn declared(code: &str, position: usize) -> Option<Fields<'_>> {
    let header = &code[position + "struct".len()..];
    let name = first_word(header);
    let body = header.find(['{', ';', '(']).filter(|at| header.as_bytes()[*at] == b'{')?;
    let block = &header[body..body + braces_length(&header[body..])];
    let fields = block.trim_start_matches('{').trim_end_matches('}');
    let fields: Vec<&str> = split_fields(fields).map(visibility).collect();
    let open = fields.iter().filter(|field| field.starts_with("pub(")).count();
    Some(Fields { name, position, all: fields.len(), open })
}

/// Does an `impl` of `name`, of a trait or not, have a method that takes `&mut self`?
fn changes_itself(code: &str, name: &str) -> bool {
    positions(code, "impl").any(|position| {
        let rest = &code[position..];
        let Some(body) = rest.find('{') else { return false };
        let header = &rest["impl".len()..body];
        let header = header.split(" where").next().unwrap_or(header);
        let of = header.rsplit(" for ").next().unwrap_or(header).trim_start();
        let of = if of.starts_with('<') { after_brackets(of) } else { of };
        let block = &rest[body..body + braces_length(&rest[body..])];
        first_word(of) == name && block.contains("&mut self")
    })
}

fn first_word(code: &str) -> &str {
    let code = code.trim_start();
    let length = code.bytes().take_while(|byte| is_word(*byte)).count();
    &code[..length]
}

/// What follows the `<…>` at the start of `code`.
fn after_brackets(code: &str) -> &str {
    let mut depth = 0_usize;
    let end = code.bytes().position(|byte| {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or("", |end| &code[end + 1..])
}

/// The fields between the braces, one by one.
fn split_fields(fields: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut before) = (0_usize, ' ');
    let parts = fields.split(move |c| {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = c;
        c == ',' && depth == 0
    });
    parts.filter(|field| !field.trim().is_empty())
}

/// A field without its attributes.
fn visibility(field: &str) -> &str {
    let field = field.trim_start();
    match field.strip_prefix("#[").and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => visibility(rest),
        None => field,
    }
}

#[cfg(test)]
mod tests {
    use super::open_structs;

    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        let found: Vec<&str> = open_structs(code).map(|found| found.name).collect();
        assert_eq!(found, expected, "{code}");
    }

    fn with(fields: &str, rest: &str) -> String {
        format!("pub struct A<'a, T> where T: Copy {{ {fields} }}\n{rest}")
    }

    const OPEN: &str = "pub(super) a: u8, pub(crate) b: BTreeMap<u8, u8>, #[cfg(any(c, d))] \
                        pub(super) c: fn(u8, u8) -> u8, pub(in crate::d) d: (u8, u8),";
    const CHANGES: &str = "impl<'a, T> A<'a, T> { fn b(&mut self) {} }";

    #[test]
    fn a_struct_that_changes_itself_and_leaves_all_its_fields_open_is_found() {
        check(&with(OPEN, CHANGES), &["A"]);
        check(&with(OPEN, "impl<T> Iterator for A<'_, T> { fn next(&mut self) {} }"), &["A"]);
        check(
            &with(OPEN, "impl B {} impl A { fn c(&self) {} fn d(&'a mut self, &mut self) {} }"),
            &["A"],
        );
    }

    #[test]
    fn plain_data_small_structs_and_those_with_something_of_their_own_are_not() {
        check(&with(OPEN, "impl A { fn b(&self) {} }\nimpl B { fn c(&mut self) {} }"), &[]);
        check(&with(OPEN, "impl A for B { fn c(&mut self) {} }"), &[]);
        check(&with("pub(super) a: u8, pub(super) b: u8, pub(super) c: u8", CHANGES), &[]);
        check(&with(&format!("{OPEN} e: u8"), CHANGES), &[]);
        check("struct A(pub(super) u8, pub(super) u8, pub(super) u8, pub(super) u8);", &[]);
        check("struct A;", &[]);
    }

    #[test]
    fn a_private_field_does_not_excuse_a_dozen_open_ones() {
        let open: String = (0..11).map(|n| format!("pub(super) a{n}: u8, ")).collect();
        check(&with(&format!("{open} e: u8"), CHANGES), &["A"]);
        check(&with(&format!("{open} e: u8"), ""), &[]);
    }
}
