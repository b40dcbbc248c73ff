//! What `heap_bytes` says of a value against what the allocator has given for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use firesteel_closure::heap_bytes;
use serde::Serialize;

/// Counts what the thread holds of the C library's heap, headers included.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn malloc_usable_size(block: *mut u8) -> usize;
}

fn taken(block: *mut u8) -> usize {
    // SAFETY: `block` came from `System`, which is the C library's allocator, and was not freed.
    unsafe { malloc_usable_size(block) + size_of::<usize>() }
}

// SAFETY: everything is left to `System`; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc(layout) };
        HELD.set(HELD.get().wrapping_add(taken(block)));
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(taken(block)));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A hundred values of different lengths: what is said of them against what they hold.
#[track_caller]
fn agrees<T: Serialize>(make: impl Fn(usize) -> T) {
    let mut values = Vec::with_capacity(100);
    let before = HELD.get();
    values.extend((0..100).map(|n| make(n * 37 % 100)));
    let held = HELD.get().wrapping_sub(before);
    let said: usize = values.iter().map(heap_bytes).sum();
    let ratio = said as f64 / held as f64;
    let name = std::any::type_name::<T>();
    assert!((0.7..=1.5).contains(&ratio), "{name}: {said} said, {held} held: {ratio:.2}");
}

fn word(n: usize) -> String {
    "x".repeat(1 + n % 9)
}

#[derive(Serialize)]
struct Person {
    name: String,
    age: u8,
    visits: Vec<(u32, u64)>,
    home: Option<Box<Address>>,
}

#[derive(Serialize)]
struct Address {
    street: String,
    number: u32,
}

#[derive(Serialize)]
enum Tree {
    Leaf(u64),
    Fork(Box<Tree>, Box<Tree>),
}

fn tree(depth: usize) -> Tree {
    match depth {
        0 => Tree::Leaf(1),
        _ => Tree::Fork(Box::new(tree(depth - 1)), Box::new(tree(depth - 1))),
    }
}

#[test]
fn sequences_are_as_large_as_their_slots_not_as_their_digits() {
    agrees(|n| vec![1u64; n]);
    agrees(|n| vec![0u8; n * 50]);
    agrees(|n| (0..n).map(word).collect::<Vec<String>>());
    agrees(|n| (0..n).map(|n| vec![n as u32; n % 7]).collect::<Vec<_>>());
    agrees(|n| (0..n).map(|n| (n as u8, 0u64, 'x')).collect::<VecDeque<_>>());
    agrees(|n| vec![[0u16; 30]; n].into_boxed_slice());
}

#[test]
fn of_long_collections_some_elements_stand_for_all() {
    agrees(|n| (0..n * 100).map(word).collect::<Vec<String>>());
    agrees(|n| (0..n * 30).map(|n| (n, vec![word(n); n % 3])).collect::<HashMap<_, _>>());
}

#[test]
fn vectors_that_grew_have_slots_to_spare() {
    agrees(|n| {
        let mut grown = Vec::new();
        (0..n as u64).for_each(|n| grown.push(n));
        grown
    });
}

#[test]
fn texts_have_blocks_of_their_own() {
    agrees(word);
    agrees(|n| "y".repeat(10_000 + n));
    agrees(|n| (word(n), Some(word(n)), Arc::<str>::from(word(n))));
    agrees(|n| (n < 50).then(|| word(n)));
}

#[test]
fn maps_and_sets_have_more_slots_than_entries() {
    agrees(|n| (0..n as u64).map(|n| (n, n)).collect::<HashMap<u64, u64>>());
    agrees(|n| (0..n).map(|n| (n.to_string(), word(n))).collect::<HashMap<_, _>>());
    agrees(|n| (0..n as u32).collect::<HashSet<u32>>());
    agrees(|n| (0..n % 4).map(|n| (n as u8, word(n))).collect::<HashMap<_, _>>());
    agrees(|n| (0..n as u64).map(|n| (n, n as u8)).collect::<BTreeMap<_, _>>());
    agrees(|n| {
        let mut set = BTreeSet::new();
        set.extend((0..n * 20).map(|n| n.wrapping_mul(0x9e37_79b9)));
        set.extend(0..n);
        set
    });
    agrees(|n| (0..n % 5).map(|n| (word(n), n as u64)).collect::<BTreeMap<_, _>>());
}

#[test]
fn structs_boxes_and_what_is_nested_in_them_count_too() {
    agrees(|n| {
        let home = Some(Box::new(Address { street: word(n), number: 1 }));
        Person { name: word(n), age: 1, visits: vec![(1, 1); n], home }
    });
    agrees(|n| tree(n % 6));
    agrees(|n| Box::new(n as u64));
    agrees(|n| vec![Box::new((n as u64, 1u64, 2u64)); n]);
    agrees(|n| (0..n % 9).map(|n| (n, vec![word(n); n])).collect::<HashMap<_, _>>());
}

#[test]
fn values_without_heap_have_none() {
    assert_eq!(heap_bytes(&(1u64, 'x', [0u8; 30], Some(2.5))), 0);
    assert_eq!(heap_bytes(&(String::new(), Vec::<u64>::new(), HashMap::<u8, u8>::new())), 0);
    assert_eq!(heap_bytes(&std::net::IpAddr::from([127, 0, 0, 1])), 0);
}
