//! Keeping secrets out of logs and pages.

use regex_lite::Regex;

use crate::value::{Refusal, Rules, Value};

/// What is shown instead of a secret.
pub const REDACTED: &str = "*********(redacted)";

/// The pattern of `spark.redaction.regex`.
#[derive(Clone, Debug)]
pub struct Redaction(Regex);

impl Redaction {
    /// The value as it may be shown: hidden when the pattern is found in the key or in the value.
    pub fn apply<'a>(&self, key: &str, value: &'a str) -> &'a str {
        if self.0.is_match(key) || self.0.is_match(value) { REDACTED } else { value }
    }
}

impl Value for Redaction {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        Regex::new(text)
            .map(Self)
            .map_err(|error| Refusal { reason: format!("expected {}: {error}", Self::kind(rules)) })
    }

    fn kind(_: &Rules) -> String {
        "a regular expression".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::REDACTION_REGEX;

    #[test]
    fn secrets_are_hidden_by_key_or_by_value() {
        let redaction = REDACTION_REGEX.default_value();
        for (key, value, hidden) in [
            ("spark.my.PASSWORD", "x", true),
            ("spark.hadoop.fs.s3a.access.key", "x", true),
            ("spark.hadoop.fs.s3a.accesskey", "x", true),
            ("spark.x", "token=1", true),
            ("spark.app.name", "count", false),
        ] {
            let shown = redaction.apply(key, value);
            assert_eq!(shown == REDACTED, hidden, "{key}");
        }
    }
}
