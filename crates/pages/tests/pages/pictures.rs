//! The pictures of the guide. `UPDATE_EXPECT=1 ./test pages` makes them anew, light and dark: they are of a moment, so no other run does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What all of them may weigh.
const AT_MOST: u64 = 400 << 10;

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images")
}

/// Width and height, as its head says.
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "no PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn the_guide_shows_each_picture_light_and_dark_and_all_of_them_are_small() {
    let guide = std::fs::read_to_string(folder().join("../pages.md")).unwrap();
    let script = include_str!("browser.mjs");
    let files = std::fs::read_dir(folder()).unwrap();
    let names: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let (mut weight, mut count) = (0, 0);
    for light in names.iter().filter(|name| !name.ends_with("-dark.png")) {
        let title = light.strip_suffix(".png").expect("pictures are PNGs");
        let dark = format!("{title}-dark.png");
        let [one, other] =
            [light, &dark].map(|name| std::fs::read(folder().join(name)).expect("both are there"));
        assert_eq!(size(&one), size(&other), "{title}");
        assert_ne!(one, other, "{title} is the same in the dark");
        weight += (one.len() + other.len()) as u64;
        count += 1;
        let shown =
            format!("<source media=\"(prefers-color-scheme: dark)\" srcset=\"images/{dark}\">");
        assert!(guide.contains(&shown), "the guide does not show {dark}");
        let shown = format!("src=\"images/{light}\"");
        let (_, behind) = guide.split_once(&shown).unwrap_or_else(|| panic!("no {light}"));
        let tag = behind.split('>').next().unwrap();
        assert!(tag.contains(" alt=\""), "{light} is not told to those who cannot see it: {tag}");
        assert!(script.contains(&format!("[\"{title}\",")), "nothing makes {light}");
    }
    assert_eq!(names.len(), 2 * count, "{names:?}");
    assert!(count > 1 && weight <= AT_MOST, "{count} pictures of {weight} bytes");
}
