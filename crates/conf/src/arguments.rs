//! The arguments an application shares with the engine: what is ours is taken out, the rest is the
//! program's.

use std::path::PathBuf;

use crate::ConfError;
use crate::conf::Origin;

/// The arguments of a process, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Settings in the order they were given.
    pub(crate) settings: Vec<(String, String, Origin)>,
    /// `--properties-file`.
    pub(crate) properties_file: Option<PathBuf>,
    /// Everything that is not ours, in order.
    pub(crate) rest: Vec<String>,
}

/// One of our flags.
#[derive(Clone, Copy)]
enum Flag {
    Setting { flag: &'static str, key: &'static str },
    Conf,
    PropertiesFile,
}

/// How each flag is spelt, what it does and how it is used.
///
/// No `--name` and no `-c`, which `submit` has: programs have flags of those names for themselves.
const FLAGS: [(&str, Flag, &str); 3] = [
    ("--master", Flag::Setting { flag: "--master", key: "spark.master" }, "--master local[4]"),
    ("--conf", Flag::Conf, "--conf spark.task.cpus=2"),
    ("--properties-file", Flag::PropertiesFile, "--properties-file my.conf"),
];

impl Arguments {
    /// Takes our flags out of `arguments` (without the program's name), up to `--`, which is
    /// dropped; everything after it is the program's.
    pub(crate) fn scan(arguments: impl IntoIterator<Item = String>) -> Result<Self, ConfError> {
        let mut found = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                found.rest.extend(arguments);
                break;
            }
            let Some((name, flag, inline, example)) = recognise(&argument) else {
                found.rest.push(argument);
                continue;
            };
            let value = inline.or_else(|| arguments.next());
            let missing = || ConfError::MissingArgument { flag: name.to_owned(), example };
            found.take(name, flag, value.ok_or_else(missing)?)?;
        }
        Ok(found)
    }

    fn take(&mut self, name: &str, flag: Flag, value: String) -> Result<(), ConfError> {
        match flag {
            Flag::Setting { flag, key } => {
                self.settings.push((key.to_owned(), value, Origin::Flag { flag }));
            }
            Flag::PropertiesFile => self.properties_file = Some(value.into()),
            Flag::Conf => match value.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => {
                    let setting = (key.to_owned(), value.to_owned(), Origin::ConfArgument);
                    self.settings.push(setting);
                }
                _ => {
                    let flag = name.to_owned();
                    return Err(ConfError::MalformedArgument { flag, argument: value });
                }
            },
        }
        Ok(())
    }
}

/// The flag an argument is, with the value it carries in `--flag=value`.
fn recognise(argument: &str) -> Option<(&'static str, Flag, Option<String>, &'static str)> {
    FLAGS.into_iter().find_map(|(name, flag, example)| {
        let rest = argument.strip_prefix(name)?;
        match rest.strip_prefix('=') {
            Some(value) => Some((name, flag, Some(value.to_owned()), example)),
            None => rest.is_empty().then_some((name, flag, None, example)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(arguments: &[&str]) -> Result<Arguments, ConfError> {
        Arguments::scan(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn our_flags_are_taken_and_the_rest_stays_in_order() {
        let found = scan(&[
            "in.txt",
            "--master",
            "local[2]",
            "-v",
            "--conf",
            "spark.a=b=c",
            "--conf=spark.d=e",
            "--conf",
            " spark.f = g ",
            "--name=x y",
            "-c",
            "4",
            "--properties-file",
            "p.conf",
            "--mastery",
            "-cx",
            "out",
            "--",
            "--master",
            "mine",
            "--",
        ])
        .unwrap();
        let setting = |key: &str, value: &str, origin| (key.to_owned(), value.to_owned(), origin);
        assert_eq!(
            found.settings,
            [
                setting("spark.master", "local[2]", Origin::Flag { flag: "--master" }),
                setting("spark.a", "b=c", Origin::ConfArgument),
                setting("spark.d", "e", Origin::ConfArgument),
                setting(" spark.f ", " g ", Origin::ConfArgument),
            ]
        );
        assert_eq!(found.properties_file, Some("p.conf".into()));
        assert_eq!(
            found.rest,
            [
                "in.txt",
                "-v",
                "--name=x y",
                "-c",
                "4",
                "--mastery",
                "-cx",
                "out",
                "--master",
                "mine",
                "--"
            ]
        );
    }

    #[test]
    fn a_flag_that_cannot_be_used_is_refused_with_how_it_is_written() {
        for (arguments, part) in [
            (&["--conf", "foo"][..], "--conf \"foo\" is not a setting: write --conf key=value"),
            (&["--conf", "=v"], "--conf \"=v\" is not a setting: write --conf key=value"),
            (&["--conf="], "--conf \"\" is not a setting"),
            (&["x", "--master"], "--master needs a value after it, such as --master local[4]"),
            (&["--properties-file"], "--properties-file needs a value after it"),
        ] {
            let error = scan(arguments).unwrap_err().to_string();
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
    }
}
