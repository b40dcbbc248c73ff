//! The reduce side: records decoded one after the other from a slice.

use std::marker::PhantomData;

use bytes::Bytes;

use firesteel_closure::{Data, Taker, WireError};

use crate::output::Encoded;
use crate::{ReadError, Slice};

/// The records of one slice, in the order they were written. Ends after the first error.
pub struct Records<T> {
    slice: Slice,
    taker: Taker,
    run: Encoded,
    position: usize,
    left: u64,
    item: PhantomData<fn() -> T>,
}

impl<T: Data> Records<T> {
    pub fn new(slice: Slice) -> Self {
        Records {
            slice,
            taker: Taker::of::<T>(),
            run: Encoded::Owned(Bytes::new()),
            position: 0,
            left: 0,
            item: PhantomData,
        }
    }

    /// Goes to the next run of records that has any.
    #[cold]
    fn advance(&mut self) -> Result<bool, ReadError> {
        if self.position < self.run.len() {
            // Its two serde halves do not agree.
            return Err(WireError::Unread { type_name: std::any::type_name::<T>() }.into());
        }
        while self.left == 0 {
            let Some((run, records)) = self.slice.next_run()? else { return Ok(false) };
            self.run = run;
            self.left = records;
            self.position = 0;
        }
        Ok(true)
    }

    #[inline]
    fn decode(&mut self) -> Result<T, ReadError> {
        let (record, length) = self.taker.take(&self.run[self.position..])?;
        self.position += length;
        self.left -= 1;
        Ok(record)
    }

    /// Lets go of all that it read: who has read it may wait for the next slice, with this one in a place that is free again by
    /// the books.
    #[cold]
    fn end(&mut self) {
        self.left = 0;
        self.position = 0;
        self.run = Encoded::Owned(Bytes::new());
        self.slice = Slice::whole(Vec::new(), 0);
    }
}

impl<T: Data> Iterator for Records<T> {
    type Item = Result<T, ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            match self.advance() {
                Ok(true) => {}
                Ok(false) => {
                    self.end();
                    return None;
                }
                Err(error) => {
                    self.end();
                    return Some(Err(error));
                }
            }
        }
        let record = self.decode();
        if record.is_err() {
            self.end();
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buckets, Codec, Compared, MapOutput, Scratch};
    use firesteel_storage::{LocalDirs, MemoryManager};
    use firesteel_types::TaskId;
    use std::sync::Arc;

    fn read<T: Data>(output: &MapOutput, partition: u32) -> Vec<T> {
        Records::new(output.slice(partition).unwrap()).map(Result::unwrap).collect()
    }

    fn scratch(budget: u64, codec: Codec) -> (Scratch, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let dirs = Arc::new(LocalDirs::new(vec![root.path().to_owned()]));
        (Scratch::new(Arc::new(MemoryManager::new(budget, 0.5)), dirs, codec), root)
    }

    fn write(scratch: &Scratch, records: u64) -> MapOutput {
        let mut buckets = Buckets::new(3, scratch, TaskId(1));
        for n in 0..records {
            buckets.push((n % 2) as u32, &(n, n.to_string())).unwrap();
        }
        buckets.finish().unwrap()
    }

    fn check(output: &MapOutput, records: u64) {
        let even: Vec<(u64, String)> = read(output, 0);
        assert_eq!(even.len() as u64, records.div_ceil(2));
        assert!(even.iter().all(|(n, text)| n % 2 == 0 && *text == n.to_string()));
        assert!(even.is_sorted());
        assert!(read::<(u64, String)>(output, 2).is_empty());
        assert!(output.slice(3).is_none());
        assert_eq!(output.records(), records);
    }

    #[test]
    fn each_reader_gets_its_records_in_order_from_memory_and_from_disk() {
        for codec in [Codec::None, Codec::Lz4] {
            let (scratch, _root) = scratch(1 << 30, codec);
            let small = write(&scratch, 100);
            assert!(!small.is_on_disk());
            check(&small, 100);
            let large = write(&scratch, 300_000);
            assert!(large.is_on_disk());
            check(&large, 300_000);
            let copy: MapOutput =
                firesteel_closure::from_bytes(&firesteel_closure::to_bytes(&large).unwrap())
                    .unwrap();
            check(&copy, 300_000);
            // As what came from another process, they are within the budget or in a file.
            let stored = copy.stored(&scratch).unwrap();
            assert!(stored.is_on_disk());
            check(&stored, 300_000);
            let bytes = firesteel_closure::to_bytes(&small).unwrap();
            let copy: MapOutput = firesteel_closure::from_bytes(&bytes).unwrap();
            let before = scratch.memory().used().0;
            let stored = copy.stored(&scratch).unwrap();
            assert!(!stored.is_on_disk() && scratch.memory().used().0 > before);
            check(&stored, 100);
        }
    }

    #[test]
    fn buffers_that_get_no_memory_are_spilled_and_merged_and_nothing_is_left() {
        let (scratch, root) = scratch(2 << 20, Codec::Lz4);
        let mut buckets = Buckets::new(3, &scratch, TaskId(1));
        for n in 0..1_000_000u64 {
            buckets.push((n % 2) as u32, &(n, n.to_string())).unwrap();
        }
        assert!(buckets.spills() > 2, "{}", buckets.spills());
        let output = buckets.finish().unwrap();
        check(&output, 1_000_000);
        assert_eq!(scratch.memory().used().1, 0);
        assert!(scratch.memory().peak() <= 2 << 20);
        drop(output);
        assert_eq!(scratch.memory().used(), (0, 0));
        let own = std::fs::read_dir(root.path()).unwrap().next().unwrap().unwrap();
        assert_eq!(std::fs::read_dir(own.path()).unwrap().count(), 1, "only the lock");
    }

    #[test]
    fn a_reader_at_its_end_holds_nothing_of_what_it_read() {
        for records in [100, 300_000] {
            let (scratch, root) = scratch(1 << 30, Codec::None);
            let output = write(&scratch, records);
            let mut reader = Records::<(u64, String)>::new(output.slice(0).unwrap());
            drop(output);
            let own = std::fs::read_dir(root.path()).unwrap().next().map(|own| own.unwrap().path());
            let files = || own.iter().flat_map(|own| std::fs::read_dir(own).unwrap()).count();
            assert!(scratch.memory().used() != (0, 0) || files() > 1, "it holds the whole slice");
            assert_eq!(reader.by_ref().count() as u64, records / 2);
            assert_eq!(scratch.memory().used(), (0, 0));
            assert!(files() <= 1, "only the lock");
        }
    }

    #[test]
    fn a_large_buffer_asks_for_its_old_and_its_new_place_before_it_grows() {
        let (scratch, _root) = scratch(64 << 20, Codec::Lz4);
        let mut buckets = Buckets::new(1, &scratch, TaskId(1));
        (0..15_000u64).for_each(|n| buckets.push(0, &(n, "x".repeat(1000))).unwrap());
        assert_eq!(buckets.spills(), 0);
        let granted = scratch.memory().peak();
        assert!((23 << 20..=25 << 20).contains(&granted), "about 8 and 16 MiB: {granted}");
        let held = scratch.memory().used().1;
        assert!((15 << 20..=16 << 20).contains(&held), "about 16 MiB: {held}");
        (0..60_000u64).for_each(|n| buckets.push(0, &(n, "x".repeat(1000))).unwrap());
        assert_eq!(buckets.spills(), 2, "no place besides 32 MiB for more than 40");
    }

    #[test]
    fn parts_of_many_runs_come_together_whatever_their_size() {
        let (scratch, _root) = scratch(8 << 20, Codec::None);
        let mut buckets = Buckets::new(2, &scratch, TaskId(1));
        let text = |n: u64| format!("{n:0>1000}");
        (0..30_000u64).for_each(|n| buckets.push(u32::from(n == 77), &text(n)).unwrap());
        assert!(buckets.spills() > 2, "{}", buckets.spills());
        let output = buckets.finish().unwrap();
        assert!(
            read::<String>(&output, 0).into_iter().eq((0..30_000).filter(|n| *n != 77).map(text))
        );
        assert_eq!(read::<String>(&output, 1), [text(77)]);
    }

    fn compared<T: Data>(compared: Compared, budget: u64, records: &[(u32, T)]) -> u64 {
        let (scratch, _root) = scratch(budget, Codec::None);
        let mut buckets = Buckets::new(3, &scratch, TaskId(1));
        buckets.compute_checksum(compared);
        records.iter().for_each(|(reader, record)| buckets.push(*reader, record).unwrap());
        assert!(budget > 4 << 20 || buckets.spills() > 1);
        buckets.checksum()
    }

    #[test]
    fn by_placement_only_the_number_of_records_of_each_reader_makes_a_difference() {
        let placement = |records: &[(u32, &str)]| {
            let owned: Vec<(u32, String)> =
                records.iter().map(|(reader, text)| (*reader, (*text).into())).collect();
            compared(Compared::Placement, 1 << 30, &owned)
        };
        assert_eq!(placement(&[(0, "a"), (1, "b")]), placement(&[(1, "x"), (0, "yz")]));
        assert_ne!(placement(&[(0, "a"), (1, "b")]), placement(&[(1, "a"), (1, "b")]));
        assert_ne!(placement(&[(0, "a")]), placement(&[(0, "a"), (0, "a")]));
        assert_ne!(placement(&[]), 0);
        assert_eq!(compared(Compared::Nothing, 1 << 30, &[(0, 1)]), 0);
    }

    #[test]
    fn order_and_spills_make_no_difference_to_a_checksum_and_everything_else_does() {
        let checksum = |records: &[(u32, u64)]| compared(Compared::Records, 1 << 30, records);
        let records = [(0, 1), (1, 2), (0, 1), (2, 300)];
        let mut turned = records;
        turned.reverse();
        assert_eq!(checksum(&records), checksum(&turned));
        assert_ne!(checksum(&records), checksum(&records[1..]), "a record less");
        assert_ne!(checksum(&records), checksum(&records[..3]), "the last record less");
        assert_ne!(checksum(&[(0, 1), (1, 2)]), checksum(&[(1, 1), (0, 2)]));
        assert_ne!(checksum(&[(0, 256)]), checksum(&[(0, 1)]));
        assert_ne!(checksum(&[]), 0);
        let nothing = |count| compared(Compared::Records, 1 << 30, &vec![(0, ()); count]);
        assert_ne!(nothing(1), nothing(2), "records without bytes");

        let many: Vec<(u32, String)> =
            (0..30_000u32).map(|n| (n % 3, "x".repeat(n as usize % 700))).collect();
        let of_many = compared(Compared::Records, 1 << 30, &many);
        assert_eq!(of_many, compared(Compared::Records, 2 << 20, &many), "spilled");
    }

    #[test]
    fn records_pushed_in_different_ways_are_all_in_the_checksum() {
        let (scratch, _root) = scratch(1 << 30, Codec::None);
        let pushed = |ways: [u8; 4]| {
            let mut buckets = Buckets::new(1, &scratch, TaskId(1));
            buckets.compute_checksum(Compared::Records);
            for (n, way) in (0u8..).zip(ways) {
                match way {
                    0 => buckets.push(0, &n).unwrap(),
                    1 => buckets.push_by_content(7, &n).unwrap(),
                    _ => buckets.push_encoded(0, &[n], 1).unwrap(),
                }
            }
            buckets.checksum()
        };
        assert_eq!(pushed([0, 0, 0, 0]), pushed([0, 1, 2, 0]));
        assert_eq!(pushed([0, 0, 0, 0]), pushed([2, 2, 1, 1]));
    }

    #[test]
    fn records_that_were_encoded_elsewhere_come_back_whole_from_memory_disk_and_spills() {
        // Lines: a form that nobody here knows.
        let line = |n: u64| format!("{n} {}\n", "x".repeat(200));
        for (budget, lines, spills) in
            [(1 << 30, 10, false), (1 << 30, 9_000, false), (2 << 20, 90_000, true)]
        {
            let (scratch, _root) = scratch(budget, Codec::Lz4);
            let mut buckets = Buckets::new(2, &scratch, TaskId(1));
            buckets.compute_checksum(Compared::Records);
            for n in (0..lines).step_by(3) {
                let three: String = (n..n + 3).map(line).collect();
                buckets.push_encoded(1, three.as_bytes(), 3).unwrap();
            }
            assert_eq!(buckets.spills() > 1, spills);
            assert_ne!(buckets.checksum(), 0);
            let output = buckets.finish().unwrap();
            let (mut text, mut records) = (Vec::new(), 0);
            for run in output.slice(1).unwrap().runs() {
                let run = run.unwrap();
                assert_eq!(run.bytes().last(), Some(&b'\n'), "no record is cut in two");
                text.extend_from_slice(run.bytes());
                records += run.records();
            }
            let lines = lines.next_multiple_of(3);
            assert_eq!((records, output.records()), (lines, lines));
            assert!(text == (0..lines).map(line).collect::<String>().into_bytes());
            assert_eq!(output.slice(0).unwrap().runs().count(), 0);
        }
    }

    #[test]
    fn records_that_take_no_bytes_are_still_counted() {
        let (scratch, _root) = scratch(1 << 30, Codec::Lz4);
        let mut buckets = Buckets::new(1, &scratch, TaskId(1));
        (0..5).for_each(|_| buckets.push(0, &()).unwrap());
        assert_eq!(read::<()>(&buckets.finish().unwrap(), 0).len(), 5);
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
