//! For fuzz targets and the tests beside them: types drawn from bytes, as serde's derive would implement them with the attributes
//! that were drawn, and values of them. What comes back is equal, or was refused.

mod derived;
mod draw;

use std::rc::Rc;

use crate::value::{check_anew, from_bytes, to_bytes};
use derived::{Drawn, TYPE};
use draw::{Draw, Type};

/// How a type and its values fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It came back.
    Equal,
    /// It was refused.
    Refused,
}

/// Draws a type and three values and sends each.
///
/// # Panics
/// If another value comes back.
pub fn types(bytes: &[u8]) -> [Fate; 3] {
    let mut draw = Draw(bytes);
    let drawn = Rc::new(Type::draw(&mut draw, 3));
    let values = [(); 3].map(|()| Drawn(drawn.value(&mut draw)));
    TYPE.set(Some(drawn.clone()));
    values.map(|value| {
        if check_anew(&value).is_err() {
            return Fate::Refused;
        }
        let encoded = to_bytes(&value).expect("it was encoded a moment ago");
        match from_bytes::<Drawn>(&encoded) {
            Err(_) => Fate::Refused,
            Ok(found) => {
                assert_eq!(found.0, drawn.as_it_arrives(&value.0), "{drawn:?}");
                Fate::Equal
            }
        }
    })
}

/// Draws a type and reads what is left of the bytes as a value of it.
pub fn values(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    TYPE.set(Some(Rc::new(Type::draw(&mut draw, 3))));
    let _ = from_bytes::<Drawn>(draw.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        (0..length).map(|_| byte()).collect()
    }

    #[test]
    fn drawn_types_come_back_or_are_refused_and_never_otherwise() {
        let runs = if cfg!(miri) { 20 } else { 30_000 };
        let fates: Vec<Fate> = (0..runs).flat_map(|seed| types(&noise(seed, 200))).collect();
        let equal = fates.iter().filter(|fate| **fate == Fate::Equal).count();
        assert!(equal > fates.len() / 4 && equal < fates.len(), "{equal} of {}", fates.len());
    }

    #[test]
    fn noise_is_read_as_a_value_or_refused_whatever_the_type() {
        let runs = if cfg!(miri) { 20 } else { 50_000 };
        (0..runs).for_each(|seed| values(&noise(seed, 120)));
    }
}
