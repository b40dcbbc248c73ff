//! The reduce side: records decoded one after the other from a slice.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use firesteel_closure::WireError;

use crate::Slice;

/// The records of one slice, in the order they were written.
#[derive(Debug)]
pub struct Records<T> {
    slice: Slice,
    position: usize,
    left: u64,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Records<T> {
    /// Reads `slice`.
    pub fn new(slice: Slice) -> Self {
        let left = slice.records();
        Records { slice, position: 0, left, item: PhantomData }
    }

    /// All records were read, but not all bytes: a type's two serde halves do not agree.
    #[cold]
    fn unread(&mut self) -> Option<WireError> {
        let unread = self.slice.bytes().len() > self.position;
        self.position = self.slice.bytes().len();
        unread.then(|| WireError::Unread { type_name: std::any::type_name::<T>() })
    }

    fn decode(&mut self) -> Result<T, WireError> {
        let bytes = &self.slice.bytes()[self.position..];
        let (record, rest) = postcard::take_from_bytes(bytes).map_err(|source| {
            WireError::Decode { type_name: std::any::type_name::<T>(), source }
        })?;
        self.position += bytes.len() - rest.len();
        Ok(record)
    }
}

impl<T: DeserializeOwned> Iterator for Records<T> {
    type Item = Result<T, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return self.unread().map(Err);
        }
        self.left -= 1;
        let record = self.decode();
        if record.is_err() {
            self.left = 0;
            self.position = self.slice.bytes().len();
        }
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buckets, MapOutput};

    fn read<T: DeserializeOwned>(output: &MapOutput, partition: u32) -> Vec<T> {
        Records::new(output.slice(partition).unwrap()).map(Result::unwrap).collect()
    }

    #[test]
    fn each_reader_gets_its_records_in_order() {
        let mut buckets = Buckets::new(3);
        for n in 0..100u64 {
            buckets.push((n % 2) as u32, &(n, n.to_string())).unwrap();
        }
        let output = buckets.finish();
        let even: Vec<(u64, String)> = read(&output, 0);
        assert_eq!(even.len(), 50);
        assert!(even.iter().all(|(n, text)| n % 2 == 0 && *text == n.to_string()));
        assert!(even.is_sorted());
        assert!(read::<(u64, String)>(&output, 2).is_empty());
        assert!(output.slice(3).is_none());
        assert_eq!(output.records(), 100);
    }

    #[test]
    fn records_that_take_no_bytes_are_still_counted() {
        let mut buckets = Buckets::new(1);
        (0..5).for_each(|_| buckets.push(0, &()).unwrap());
        assert_eq!(read::<()>(&buckets.finish(), 0).len(), 5);
    }

    #[test]
    fn cut_off_bytes_end_in_an_error_and_not_in_a_loop() {
        let mut bytes = firesteel_closure::to_bytes(&"hello".to_string()).unwrap();
        bytes.pop();
        let results: Vec<_> = Records::<String>::new(Slice::whole(bytes, 3)).collect();
        assert_eq!(results.len(), 1);
        assert!(results[0].is_err());
    }
}
