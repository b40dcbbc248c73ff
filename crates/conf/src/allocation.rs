//! The pools of the fair scheduler, in Spark's `fairscheduler.xml` format.
//!
//! Spark warns about an invalid value and goes on with a default; here it is refused, because a
//! pool that silently has another weight is found only when it matters.

use roxmltree::{Document, Node};

use crate::SchedulingMode;
use crate::value::{Rules, Value};

/// What the file says about one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Whether jobs inside the pool share its cores; first come, first served otherwise.
    pub fair: bool,
    /// The pool's share of the cores in comparison with others.
    pub weight: u32,
    /// How many cores the pool gets before others get more than theirs.
    pub min_share: u32,
}

impl Default for PoolSettings {
    /// A pool that the file does not describe.
    fn default() -> Self {
        Self { fair: false, weight: 1, min_share: 0 }
    }
}

/// A file that does not describe pools.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// It is not XML.
    #[error("the allocation file is not valid XML: {0}")]
    Xml(#[from] roxmltree::Error),
    /// An element where none of its name belongs.
    #[error("line {line}: <{element}> is not expected here: expected {expected}")]
    UnexpectedElement {
        /// Its name as written.
        element: String,
        /// The elements that may stand there.
        expected: &'static str,
        /// Its line, from 1.
        line: u32,
    },
    /// A pool without a name.
    #[error("line {line}: a pool has no name: write <pool name=\"...\">")]
    UnnamedPool {
        /// Its line, from 1.
        line: u32,
    },
    /// Two pools of one name.
    #[error("line {line}: the pool {pool:?} is described twice")]
    DuplicatePool {
        /// The name that both have.
        pool: String,
        /// The second one's line, from 1.
        line: u32,
    },
    /// An element of a pool that has no valid value.
    #[error("line {line}: <{element}> of the pool {pool:?} is {value:?}: expected {expected}")]
    InvalidValue {
        /// The name of the pool with the element.
        pool: String,
        /// `schedulingMode`, `weight` or `minShare`.
        element: &'static str,
        /// The text in it, as written.
        value: String,
        /// The values that are accepted, for the message.
        expected: String,
        /// Its line, from 1.
        line: u32,
    },
}

/// Reads an allocation file.
///
/// ```
/// let pools = firesteel_conf::allocation::parse(
///     "<allocations><pool name='reports'><weight>2</weight></pool></allocations>",
/// )?;
/// assert_eq!(pools[0].0, "reports");
/// assert_eq!(pools[0].1.weight, 2);
/// # Ok::<(), firesteel_conf::allocation::AllocationError>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<(String, PoolSettings)>, AllocationError> {
    let document = Document::parse(text)?;
    let root = document.root_element();
    expect_name(root, &["allocations"], "<allocations>")?;
    let mut pools: Vec<(String, PoolSettings)> = Vec::new();
    for node in root.children().filter(Node::is_element) {
        expect_name(node, &["pool"], "<pool name=\"...\">")?;
        let (name, settings) = parse_pool(node)?;
        if pools.iter().any(|(other, _)| *other == name) {
            return Err(AllocationError::DuplicatePool { pool: name, line: line(node) });
        }
        pools.push((name, settings));
    }
    Ok(pools)
}

fn parse_pool(pool: Node<'_, '_>) -> Result<(String, PoolSettings), AllocationError> {
    let name = pool.attribute("name").map_or("", str::trim);
    if name.is_empty() {
        return Err(AllocationError::UnnamedPool { line: line(pool) });
    }
    let mut settings = PoolSettings::default();
    for node in pool.children().filter(Node::is_element) {
        match node.tag_name().name() {
            "schedulingMode" => {
                settings.fair = value::<SchedulingMode>(name, "schedulingMode", node, 0)?
                    == SchedulingMode::Fair;
            }
            "weight" => settings.weight = value(name, "weight", node, 1)?,
            "minShare" => settings.min_share = value(name, "minShare", node, 0)?,
            _ => expect_name(node, &[], "<schedulingMode>, <weight> or <minShare>")?,
        }
    }
    Ok((name.to_owned(), settings))
}

fn expect_name(
    node: Node<'_, '_>,
    names: &[&str],
    expected: &'static str,
) -> Result<(), AllocationError> {
    let element = node.tag_name().name();
    if names.contains(&element) {
        return Ok(());
    }
    let element = element.to_owned();
    Err(AllocationError::UnexpectedElement { element, expected, line: line(node) })
}

fn value<T: Value>(
    pool: &str,
    element: &'static str,
    node: Node<'_, '_>,
    least: u32,
) -> Result<T, AllocationError> {
    let rules = Rules { range: crate::Range::AtLeast(least), ..Rules::NONE };
    let text = node.text().map_or("", str::trim);
    T::parse(text, &rules).map_err(|_| AllocationError::InvalidValue {
        pool: pool.to_owned(),
        element,
        value: text.to_owned(),
        expected: T::kind(&rules),
        line: line(node),
    })
}

fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pools_are_read_with_defaults_for_what_is_not_said() {
        let text = r#"<?xml version="1.0"?>
            <!-- pools -->
            <allocations>
              <pool name="production">
                <schedulingMode>FAIR</schedulingMode>
                <weight> 2 </weight>
                <minShare>3</minShare>
              </pool>
              <pool name="test"><schedulingMode>fifo</schedulingMode></pool>
              <pool name="bare"/>
            </allocations>"#;
        let production = PoolSettings { fair: true, weight: 2, min_share: 3 };
        assert_eq!(
            parse(text).unwrap(),
            [
                ("production".to_owned(), production),
                ("test".to_owned(), PoolSettings::default()),
                ("bare".to_owned(), PoolSettings::default()),
            ]
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_pool_element_and_value() {
        let pool =
            |inside: &str| format!("<allocations>\n<pool name=\"x\">{inside}</pool></allocations>");
        for (text, part) in [
            ("".to_owned(), "not valid XML"),
            ("<pool name='x'/>".to_owned(), "<pool> is not expected here: expected <allocations>"),
            ("<allocations><pol/></allocations>".to_owned(), "line 1: <pol> is not expected here"),
            ("<allocations><pool/></allocations>".to_owned(), "a pool has no name"),
            (pool("</pool><pool name=\"x\">"), "line 2: the pool \"x\" is described twice"),
            (pool("<wieght>1</wieght>"), "expected <schedulingMode>, <weight> or <minShare>"),
            (
                pool("<weight>0</weight>"),
                "line 2: <weight> of the pool \"x\" is \"0\": expected a whole number of at least 1",
            ),
            (
                pool("<minShare>-1</minShare>"),
                "<minShare> of the pool \"x\" is \"-1\": expected a whole number of at least 0",
            ),
            (
                pool("<schedulingMode>NONE</schedulingMode>"),
                "<schedulingMode> of the pool \"x\" is \"NONE\": expected FIFO or FAIR",
            ),
            (pool("<weight/>"), "<weight> of the pool \"x\" is \"\""),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(inside in "(<weight>|</weight>|<pool name='x'>|</pool>|[0-9<>&]|\\PC)*") {
            let _ = parse(&format!("<allocations>{inside}</allocations>"));
            let _ = parse(&inside);
        }
    }
}
