//! Where the output of an executor is to be read, by a pattern of the user's: Spark's `ExecutorLogUrlHandler`.

use std::collections::BTreeMap;

use firesteel_types::ExecutorId;

use crate::AppId;

/// The place of the name of a file.
const FILE_NAME: &str = "FILE_NAME";
/// The attribute that names the files, where a cluster manager tells.
const LOG_FILES: &str = "LOG_FILES";

/// The URLs that a pattern gives for an executor with these attributes and these URLs of its cluster manager, by name; the error is
/// a name in the pattern that nobody knows.
pub fn apply(
    pattern: &str,
    (app, executor): (&AppId, ExecutorId),
    attributes: &BTreeMap<String, String>,
    urls: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let value = |name: &str, file: &str| match name {
        FILE_NAME => Some(file.to_owned()),
        name => attributes.get(name).cloned().or_else(|| match name {
            "APP_ID" => Some(app.0.to_string()),
            "EXECUTOR_ID" => Some(executor.to_string()),
            _ => None,
        }),
    };
    let fill = |file: &str| fill(pattern, |name| value(name, file));
    if !names(pattern).any(|name| name == FILE_NAME) {
        return Ok(BTreeMap::from([("log".to_owned(), fill("")?)]));
    }
    let told = attributes.get(LOG_FILES).map(|files| files.split(',').map(str::trim).collect());
    let files: Vec<&str> = told.unwrap_or_else(|| urls.keys().map(String::as_str).collect());
    if files.is_empty() {
        return Err(FILE_NAME.to_owned());
    }
    files.into_iter().map(|file| Ok((file.to_owned(), fill(file)?))).collect()
}

/// The texts before each `{{NAME}}` of a pattern with the name, and the rest without one.
fn parts(pattern: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(pattern);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let found = text.match_indices("{{").find_map(|(begin, _)| {
            let name = text[begin + 2..].split_once("}}")?.0;
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            (is_name && !name.is_empty()).then_some((begin, name))
        });
        let Some((begin, name)) = found else { return Some((text, None)) };
        rest = Some(&text[begin + 4 + name.len()..]);
        Some((&text[..begin], Some(name)))
    })
}

fn names(pattern: &str) -> impl Iterator<Item = &str> {
    parts(pattern).filter_map(|(_, name)| name)
}

fn fill(pattern: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::new();
    for (text, name) in parts(pattern) {
        filled.push_str(text);
        if let Some(name) = name {
            filled.push_str(&value(name).ok_or_else(|| name.to_owned())?);
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn names_are_replaced_and_one_that_nobody_knows_is_told() {
        let app = AppId::new("app-1");
        let urls = map(&[("stderr", "u"), ("stdout", "v")]);
        let attributes = map(&[("ZONE", "{{APP_ID}}"), ("LOG_FILES", "a, b")]);
        let with = |pattern, attributes| apply(pattern, (&app, ExecutorId(7)), attributes, &urls);
        let none = BTreeMap::new();
        let both = map(&[("stderr", "h/app-1/7/stderr"), ("stdout", "h/app-1/7/stdout")]);
        assert_eq!(with("h/{{APP_ID}}/{{EXECUTOR_ID}}/{{FILE_NAME}}", &none), Ok(both));
        let named = map(&[("a", "{{APP_ID}}/a/{{}}{{"), ("b", "{{APP_ID}}/b/{{}}{{")]);
        assert_eq!(with("{{ZONE}}/{{FILE_NAME}}/{{}}{{", &attributes), Ok(named));
        assert_eq!(with("h/{{APP_ID}}", &none), Ok(map(&[("log", "h/app-1")])));
        assert_eq!(with("h/{{ZONE}}", &none), Err("ZONE".to_owned()));
        let nowhere = apply("{{FILE_NAME}}", (&app, ExecutorId(7)), &none, &none);
        assert_eq!(nowhere, Err("FILE_NAME".to_owned()));
    }
}
