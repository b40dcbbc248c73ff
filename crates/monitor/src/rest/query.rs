//! The parameters of a request.

use super::Answer;

/// Names and values, decoded, in the order they came.
#[derive(Clone, Debug)]
pub struct Query(Vec<(String, String)>);

/// So many parameters of one request are looked at.
const PARAMETERS: usize = 1000;

impl Query {
    /// What stands behind the question mark, or in a form that was sent.
    pub fn parse(text: &str) -> Self {
        let parts = text.split('&').filter(|part| !part.is_empty()).take(PARAMETERS);
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        };
        Query(parts.map(pair).collect())
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let named = self.0.iter().find(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// All values of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Names and values, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Values in capitals, all of them among `known`.
    pub(super) fn states(&self, name: &str, known: &[&str]) -> Result<Vec<String>, Answer> {
        let states: Vec<String> = self.all(name).map(str::to_uppercase).collect();
        match states.iter().all(|state| known.contains(&state.as_str())) {
            true => Ok(states),
            false => Err(Answer::not_found()),
        }
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| value.eq_ignore_ascii_case("true"))
    }

    /// A number that is not negative.
    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, Answer> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Answer::not_found())
    }

    /// Numbers with commas between them.
    pub(super) fn quantiles(&self, default: &str) -> Result<Vec<f64>, Answer> {
        let text = self.get("quantiles").unwrap_or(default);
        let read = |text: &str| {
            text.trim().parse::<f64>().map_err(|_| {
                let name = "quantiles";
                let text = format!(
                    "Bad value for parameter \"{name}\".  Expected a double, got \"{text}\""
                );
                Answer::text(400, text)
            })
        };
        text.split(',').take(PARAMETERS).map(read).collect()
    }
}

/// Without percent signs; what is no text then is replaced.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.get(..2).filter(|_| *first == b'%').and_then(|hex| {
            let hex = std::str::from_utf8(hex).ok()?;
            u8::from_str_radix(hex, 16).ok().filter(|_| hex.bytes().all(|b| b.is_ascii_hexdigit()))
        });
        bytes.push(hex.unwrap_or(*first));
        rest = if hex.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_broken_ones_are_left_as_they_are() {
        let query = Query::parse("a=1%2c2&b&a=%zz%4&c=x+y&&=%");
        assert_eq!(
            (query.get("a"), query.get("b"), query.get("c")),
            (Some("1,2"), Some(""), Some("x y"))
        );
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1,2", "%zz%4"]);
        assert_eq!(decoded("%ff%2"), "\u{fffd}%2");
    }
}
