//! What tasks cost: added up, and packed for the many tasks that are remembered.

use firesteel_types::event::PushedShuffleMetrics;
use firesteel_types::{ExecutorMetrics, TaskMetrics};

/// Calls `$with!` with all numbers of [`TaskMetrics`] that add up, those together that are often all zero.
macro_rules! groups {
    ($with:ident) => {
        $with! {
            [run_time_us cpu_time_ns gc_time_ms]
            [deserialize_time_us deserialize_cpu_time_ns result_serialize_time_us result_bytes
             getting_result_time_ms]
            [input_records input_bytes output_records output_bytes]
            [shuffle_read_records shuffle_local_bytes shuffle_local_blocks shuffle_remote_bytes
             shuffle_remote_blocks shuffle_remote_bytes_to_disk shuffle_fetch_wait_us
             shuffle_remote_requests_us]
            [shuffle_write_records shuffle_write_bytes shuffle_write_time_ns memory_bytes_spilled
             disk_bytes_spilled]
        }
    };
}

macro_rules! number {
    ($([$($name:ident)*])*) => {
        /// Every number that is packed, in the order of their bits.
        #[allow(non_camel_case_types, dead_code)]
        #[derive(Clone, Copy)]
        enum Number { peak_memory_bytes, $($($name,)*)* }
    };
}
groups!(number);

/// Adds up what tasks cost; of peaks the highest stays. What their executors used is of no use in a sum.
pub(crate) fn add(sum: &mut TaskMetrics, one: &TaskMetrics) {
    macro_rules! add {
        ($([$($name:ident)*])*) => {$(
            if 0 $(| one.$name)* != 0 {
                $(sum.$name = sum.$name.saturating_add(one.$name);)*
            }
        )*};
    }
    groups!(add);
    sum.peak_memory_bytes = sum.peak_memory_bytes.max(one.peak_memory_bytes);
    if let Some(one) = &one.pushed {
        add_pushed(sum.pushed.get_or_insert_default(), one);
    }
}

fn add_pushed(sum: &mut PushedShuffleMetrics, one: &PushedShuffleMetrics) {
    macro_rules! add {
        ($($name:ident)*) => {$( sum.$name = sum.$name.saturating_add(one.$name); )*};
    }
    add!(corrupt_chunks fallbacks remote_blocks local_blocks remote_chunks local_chunks remote_bytes
        local_bytes remote_requests_ms);
}

/// What one task cost, without the zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Packed {
    /// Which numbers are not zero: a bit each.
    which: u32,
    numbers: Box<[u64]>,
    pushed: Option<Box<PushedShuffleMetrics>>,
    executor: Option<Box<ExecutorMetrics>>,
}

impl Packed {
    pub(crate) fn new(metrics: &TaskMetrics) -> Self {
        let (mut which, mut numbers, mut count) = (0, [0; u32::BITS as usize], 0);
        let mut index = 0;
        let mut put = |number: u64| {
            if number != 0 {
                which |= 1 << index;
                numbers[count] = number;
                count += 1;
            }
            index += 1;
        };
        macro_rules! pack {
            ($([$($name:ident)*])*) => {$($(put(metrics.$name);)*)*};
        }
        put(metrics.peak_memory_bytes);
        groups!(pack);
        let (pushed, executor) = (metrics.pushed.clone(), metrics.executor.clone());
        Packed { which, numbers: numbers[..count].into(), pushed, executor }
    }

    /// Bytes that it takes besides its own.
    pub(crate) fn weight(&self) -> usize {
        let pushed = self.pushed.as_ref().map_or(0, |_| size_of::<PushedShuffleMetrics>());
        let executor = self.executor.as_ref().map_or(0, |_| size_of::<ExecutorMetrics>());
        size_of_val(&*self.numbers) + pushed + executor
    }

    pub(crate) fn unpack(&self) -> TaskMetrics {
        let (pushed, executor) = (self.pushed.clone(), self.executor.clone());
        let mut metrics = TaskMetrics { pushed, executor, ..TaskMetrics::default() };
        self.unpack_into(&mut metrics);
        metrics
    }

    /// All numbers that add up, and the peak.
    pub(crate) fn unpack_into(&self, metrics: &mut TaskMetrics) {
        let (mut numbers, mut index) = (self.numbers.iter(), 0);
        let mut take = || {
            let is_there = self.which & (1 << index) != 0;
            index += 1;
            if is_there { numbers.next().copied().unwrap_or(0) } else { 0 }
        };
        let peak = take();
        metrics.peak_memory_bytes = peak;
        macro_rules! unpack {
            ($([$($name:ident)*])*) => {$($(metrics.$name = take();)*)*};
        }
        groups!(unpack);
    }
}

/// What pictures of many tasks show of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCost {
    pub run_time_us: u64,
    pub input_bytes: u64,
    /// From this machine and from others.
    pub shuffle_read_bytes: u64,
    pub shuffle_write_bytes: u64,
    pub disk_bytes_spilled: u64,
}

/// Reads the costs of many tasks. The tasks of a stage mostly have the same numbers: where they are packed is looked up once.
#[derive(Debug, Default)]
pub struct CostReader {
    /// Of the task before.
    which: u32,
    /// Where it had them; beyond the end if it had none.
    places: [usize; 6],
}

impl CostReader {
    const NUMBERS: [Number; 6] = [
        Number::run_time_us,
        Number::input_bytes,
        Number::shuffle_local_bytes,
        Number::shuffle_remote_bytes,
        Number::shuffle_write_bytes,
        Number::disk_bytes_spilled,
    ];

    fn look_up(&mut self, which: u32) {
        self.which = which;
        self.places = Self::NUMBERS.map(|number| {
            let bit = 1u32 << number as u32;
            match which & bit {
                0 => usize::MAX,
                _ => (which & (bit - 1)).count_ones() as usize,
            }
        });
    }

    pub(crate) fn read(&mut self, packed: &Packed) -> TaskCost {
        if packed.which != self.which {
            self.look_up(packed.which);
        }
        let number = |at: usize| packed.numbers.get(at).copied().unwrap_or(0);
        let [run_time_us, input_bytes, local, remote, shuffle_write_bytes, disk_bytes_spilled] =
            self.places.map(number);
        TaskCost {
            run_time_us,
            input_bytes,
            shuffle_read_bytes: local.saturating_add(remote),
            shuffle_write_bytes,
            disk_bytes_spilled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number another one: what is left out of the groups shows.
    fn numbered() -> TaskMetrics {
        let json = serde_json::to_value(TaskMetrics::default()).unwrap();
        let fields = json.as_object().unwrap().iter().zip(1u64..);
        let numbers = fields.map(|((name, value), number)| match value.is_number() {
            true => (name.clone(), number.into()),
            false => (name.clone(), value.clone()),
        });
        serde_json::from_value(serde_json::Value::Object(numbers.collect())).unwrap()
    }

    #[test]
    fn packed_metrics_come_back() {
        let executor = ExecutorMetrics { resident_memory: 7, ..ExecutorMetrics::default() };
        let looked_at = TaskMetrics { executor: Some(Box::new(executor)), ..numbered() };
        for metrics in [numbered(), TaskMetrics::default(), looked_at] {
            assert_eq!(Packed::new(&metrics).unpack(), metrics);
        }
    }

    #[test]
    fn costs_are_read_whichever_numbers_the_task_before_had() {
        let some = TaskMetrics { input_bytes: 0, shuffle_local_bytes: 0, ..numbered() };
        let few = TaskMetrics { disk_bytes_spilled: 5, ..TaskMetrics::default() };
        let most = TaskMetrics { shuffle_remote_bytes: u64::MAX, ..numbered() };
        let all = [TaskMetrics::default(), numbered(), some, few, most];
        let mut reader = CostReader::default();
        for metrics in all.iter().chain(all.iter().rev()) {
            let cost = TaskCost {
                run_time_us: metrics.run_time_us,
                input_bytes: metrics.input_bytes,
                shuffle_read_bytes: metrics.shuffle_read_bytes(),
                shuffle_write_bytes: metrics.shuffle_write_bytes,
                disk_bytes_spilled: metrics.disk_bytes_spilled,
            };
            assert_eq!(reader.read(&Packed::new(metrics)), cost);
        }
    }

    #[test]
    fn all_numbers_add_up_and_of_peaks_the_highest_stays() {
        let (one, mut sum) = (numbered(), numbered());
        add(&mut sum, &one);
        assert_eq!(sum.peak_memory_bytes, one.peak_memory_bytes);
        let (sum, one) = (serde_json::to_value(&sum).unwrap(), serde_json::to_value(&one).unwrap());
        for (name, number) in one.as_object().unwrap().iter().filter(|(_, it)| it.is_number()) {
            let factor = if name == "peak_memory_bytes" { 1 } else { 2 };
            assert_eq!(sum[name].as_u64().unwrap(), number.as_u64().unwrap() * factor, "{name}");
        }
        let mut most = TaskMetrics { run_time_us: u64::MAX, ..numbered() };
        add(&mut most, &numbered());
        assert_eq!(most.run_time_us, u64::MAX);
    }
}
