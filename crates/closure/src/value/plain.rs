//! Which types need no watching: those made of the language's and the library's own types alone.

/// Crates of this project: their types are in no user's hands.
const OURS: [&str; 9] =
    ["types", "conf", "rdd", "shuffle", "storage", "io", "executor", "cluster", "driver"];

/// Whether all that `type_name` names are numbers, texts, collections and tuples, whose two serde halves are
/// serde's own and agree. Nobody else can implement them.
pub(crate) fn is_plain(type_name: &str) -> bool {
    let is_separator = |c: char| "<>(),[]; &".contains(c);
    type_name.split(is_separator).filter(|part| !part.is_empty()).all(is_plain_part)
}

fn is_plain_part(part: &str) -> bool {
    match part.split_once("::") {
        // A weak pointer comes back empty.
        Some(("std" | "core" | "alloc", path)) => {
            is_path(path) && !path.ends_with("::Weak") && !path.contains("PhantomData")
        }
        Some((krate, path)) => {
            let ours = krate.strip_prefix("firesteel_").is_some_and(|name| OURS.contains(&name));
            ours && is_path(path) && !path.contains("tests::")
        }
        None => is_primitive(part) || part.parse::<usize>().is_ok(),
    }
}

fn is_path(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte))
}

fn is_primitive(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32",
        "i64", "i128", "isize", "f32", "f64",
    ];
    NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::type_name;
    use std::collections::{BTreeMap, HashMap, HashSet};

    #[test]
    fn the_librarys_types_are_plain_and_others_are_not() {
        struct Mine;
        assert!(is_plain(type_name::<(String, u64)>()));
        assert!(is_plain(type_name::<Vec<Option<(u8, [i64; 4], Box<str>)>>>()));
        assert!(is_plain(type_name::<HashMap<String, BTreeMap<u8, HashSet<char>>>>()));
        assert!(is_plain(type_name::<(std::time::Duration, std::sync::Arc<f64>, ())>()));
        assert!(is_plain(type_name::<Result<std::net::IpAddr, String>>()));
        assert!(!is_plain(type_name::<Mine>()));
        assert!(!is_plain(type_name::<Vec<(u8, Mine)>>()));
        assert!(!is_plain(type_name::<Option<Box<Mine>>>()));
        assert!(!is_plain(type_name::<std::sync::Weak<u8>>()));
        assert!(!is_plain(type_name::<Box<dyn Fn() -> u8>>()));
        assert!(!is_plain(type_name::<fn(u8)>()));
    }
}
