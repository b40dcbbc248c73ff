//! Sizing: what a value owns on the heap, estimated from serde's calls.
//!
//! The calls say what is in a value, not how it is held. But a value that stands in another comes with its type, whose
//! name tells collections and boxes apart. Each call returns what its value takes in place, because that is the
//! size of a slot of the collection around it.
//! Capacities are not known: those of tables and trees follow from their lengths, vectors get a little slack.

use std::any::type_name;

use serde::ser::{self, Serialize};

use super::DEEPEST;
use super::error::ValueError;

type Result<T = usize, E = ValueError> = std::result::Result<T, E>;

/// A vector or a text in place.
const HEADER: usize = 24;
/// A hash table in place.
const TABLE_HEADER: usize = 48;
const POINTER: usize = size_of::<usize>();
/// The index of a variant.
const TAG: usize = 8;
/// So many elements of a collection are all looked at, then fewer and fewer.
const ALL: usize = 64;

/// Bytes that `value` owns on the heap, about. What the value takes in place is not among them.
pub fn heap_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut sizer = Sizer { heap: 0, here: Place::of::<T>(), depth: 0 };
    // A type's own code may refuse: then what was seen so far counts.
    let _ = value.serialize(&mut sizer);
    sizer.heap
}

/// What the allocator takes for so many bytes: a header, in steps of 16, at least 32.
fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes.saturating_add(8 + 15) & !15).max(32) }
}

/// How a collection holds its elements.
#[derive(Clone, Copy)]
enum Holding {
    /// Side by side, as far as anybody knows.
    Slots,
    Table,
    Tree,
    List,
}

impl Holding {
    fn of(type_name: &str) -> Self {
        let is = |path: &str| type_name.starts_with(path);
        if is("std::collections::hash::") || is("hashbrown::") {
            Holding::Table
        } else if is("alloc::collections::btree::") {
            Holding::Tree
        } else if is("alloc::collections::linked_list::") {
            Holding::List
        } else {
            Holding::Slots
        }
    }

    fn header(self) -> usize {
        if matches!(self, Holding::Table) { TABLE_HEADER } else { HEADER }
    }

    /// So many elements of `each` bytes.
    fn bytes(self, count: usize, each: usize) -> usize {
        match self {
            _ if count == 0 => 0,
            // Vectors that grew by pushes have up to as much again, others nothing.
            Holding::Slots => block(count * each + count / 4 * each),
            Holding::Table => {
                let buckets = match count {
                    1..4 => 4,
                    4..8 => 8,
                    _ => (count * 8 / 7).next_power_of_two(),
                };
                // More than a word is aligned to one, nearly always.
                let slot = if each > POINTER { each.next_multiple_of(POINTER) } else { each };
                block(buckets * (slot + 1) + 16)
            }
            // Nodes have 11 slots, of which 6 (in order) to 11 (at once) are taken, and a parent per 7 to 12.
            Holding::Tree => {
                let leaves = if count <= 11 { 1 } else { (count * 2).div_ceil(17) };
                let leaf = 11 * each + 16;
                leaves * block(leaf) + leaves / 8 * block(leaf + 12 * POINTER)
            }
            Holding::List => count * block(each + 2 * POINTER),
        }
    }
}

/// What the type of a value tells.
struct Place {
    holding: Holding,
    /// It lies behind a pointer that owns it.
    is_boxed: bool,
    has_destructor: bool,
    name: &'static str,
}

impl Place {
    fn of<T: ?Sized>() -> Self {
        let name = type_name::<T>();
        let whole = name.trim_start_matches('&');
        let content = unboxed(whole);
        // Slices and texts behind a pointer are as vectors are.
        let is_unsized = content.starts_with('[') || content == "str>";
        Place {
            holding: Holding::of(content),
            is_boxed: content.len() < whole.len() && !is_unsized,
            has_destructor: std::mem::needs_drop::<T>(),
            name,
        }
    }

    /// Without a destructor it owns nothing, unless it refers to what is meant.
    fn may_own(&self) -> bool {
        self.has_destructor || self.name.contains('&') || self.name.contains("SerializeWith")
    }
}

/// The name of what a pointer leads to, or the name itself.
fn unboxed(name: &str) -> &str {
    let pointers = ["alloc::boxed::Box<", "alloc::sync::Arc<", "alloc::rc::Rc<"];
    pointers.iter().find_map(|pointer| name.strip_prefix(pointer)).unwrap_or(name)
}

/// Iterators hand out references to elements: their size says nothing.
fn is_reference<T: ?Sized>() -> bool {
    type_name::<T>().starts_with('&')
}

struct Sizer {
    heap: usize,
    here: Place,
    depth: u32,
}

impl Sizer {
    /// Looks at what stands in another value; what it takes there.
    fn inside<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ValueError::too_deep(DEEPEST));
        }
        let outside = std::mem::replace(&mut self.here, Place::of::<T>());
        let seen = value.serialize(&mut *self)?;
        self.here = outside;
        self.depth -= 1;
        Ok(if is_reference::<T>() { seen } else { size_of_val(value) })
    }

    /// A value of so many bytes; what it takes in place.
    fn of_size(&mut self, bytes: usize) -> Result {
        if !self.here.is_boxed {
            return Ok(bytes);
        }
        self.heap += block(bytes);
        Ok(POINTER)
    }

    fn text(&mut self, bytes: usize) -> Result {
        self.heap += block(bytes);
        self.of_size(HEADER)
    }

    fn variant_of<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        let bytes = self.inside(value)?;
        // What has a destructor has a bit pattern to spare, most of the time.
        let tag = if std::mem::needs_drop::<T>() { 0 } else { align_of_val(value) };
        self.of_size(bytes + tag)
    }

    fn parts(&mut self, tag: usize) -> Result<Parts<'_>> {
        Ok(Parts { to: self, bytes: tag, align: 1 })
    }

    fn elements(&mut self, holding: Holding) -> Result<Elements<'_>> {
        let before = self.heap;
        Ok(Elements { to: self, holding, count: 0, next: 1, looked: 0, before, key: 0, each: 0 })
    }
}

macro_rules! scalars {
    ($($method:ident $type:ty),* $(,)?) => {$(
        fn $method(self, _: $type) -> Result {
            self.of_size(size_of::<$type>())
        }
    )*};
}

impl<'s> ser::Serializer for &'s mut Sizer {
    type Ok = usize;
    type Error = ValueError;
    type SerializeSeq = Elements<'s>;
    type SerializeTuple = Parts<'s>;
    type SerializeTupleStruct = Parts<'s>;
    type SerializeTupleVariant = Parts<'s>;
    type SerializeMap = Elements<'s>;
    type SerializeStruct = Parts<'s>;
    type SerializeStructVariant = Parts<'s>;

    fn is_human_readable(&self) -> bool {
        false
    }

    scalars!(
        serialize_bool bool, serialize_char char,
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128,
        serialize_f32 f32, serialize_f64 f64,
    );

    fn serialize_str(self, value: &str) -> Result {
        self.text(value.len())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result {
        self.text(value.len())
    }

    fn serialize_none(self) -> Result {
        self.of_size(TAG)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        self.variant_of(value)
    }

    fn serialize_unit(self) -> Result {
        Ok(0)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result {
        Ok(0)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result {
        self.of_size(1)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result {
        let bytes = self.inside(value)?;
        self.of_size(bytes)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result {
        self.variant_of(value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements<'s>> {
        let holding = self.here.holding;
        self.elements(holding)
    }

    /// Passes over elements without a look at each, where their number is known.
    fn collect_seq<I: IntoIterator<Item: Serialize>>(self, items: I) -> Result {
        let mut items = items.into_iter();
        let mut elements = ser::Serializer::serialize_seq(self, None)?;
        let (least, most) = items.size_hint();
        if most != Some(least) {
            items
                .try_for_each(|item| ser::SerializeSeq::serialize_element(&mut elements, &item))?;
            return elements.close();
        }
        while let Some(item) = items.nth(elements.next - elements.count - 1) {
            elements.count = elements.next;
            elements.look(&item)?;
        }
        elements.count = least;
        elements.close()
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'s>> {
        self.parts(0)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'s>> {
        self.parts(0)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'s>> {
        self.parts(TAG)
    }

    /// Maps of other crates are tables, more or less.
    fn serialize_map(self, _: Option<usize>) -> Result<Elements<'s>> {
        let holding = match self.here.holding {
            Holding::Slots => Holding::Table,
            known => known,
        };
        self.elements(holding)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'s>> {
        self.parts(0)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'s>> {
        self.parts(TAG)
    }

    /// The text is made for the occasion, but what it is made of may hold as much.
    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result {
        match self.here.may_own() {
            true => self.text(value.to_string().len()),
            false => self.of_size(size_of_val(value)),
        }
    }
}

/// A struct, tuple or variant: its parts lie in it.
struct Parts<'s> {
    to: &'s mut Sizer,
    bytes: usize,
    align: usize,
}

impl Parts<'_> {
    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.bytes += self.to.inside(value)?;
        self.align = self.align.max(align_of_val(value));
        Ok(())
    }

    fn close(self) -> Result {
        self.to.of_size(self.bytes.next_multiple_of(self.align))
    }
}

/// A collection: its elements lie elsewhere.
struct Elements<'s> {
    to: &'s mut Sizer,
    holding: Holding,
    count: usize,
    /// The next one to look at.
    next: usize,
    looked: usize,
    /// What was known of before its elements.
    before: usize,
    /// Bytes of the last key.
    key: usize,
    /// Bytes of one in place, the largest so far: variants differ.
    each: usize,
}

impl Elements<'_> {
    /// Whether this one, or this entry, is looked at.
    fn is_sample(&self) -> bool {
        self.count == self.next
    }

    fn look<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let bytes = self.to.inside(value)?;
        self.looked(bytes);
        Ok(())
    }

    fn looked(&mut self, bytes: usize) {
        self.each = self.each.max(bytes);
        self.looked += 1;
        self.next = self.count + 1 + self.count.saturating_sub(ALL) / 16;
    }

    fn close(self) -> Result {
        // Those that were passed over are like those that were not.
        let own = self.to.heap - self.before;
        let unseen = (self.count - self.looked) as f64 / self.looked.max(1) as f64;
        self.to.heap += (own as f64 * unseen) as usize;
        self.to.heap += self.holding.bytes(self.count, self.each);
        self.to.of_size(self.holding.header())
    }
}

impl ser::SerializeSeq for Elements<'_> {
    type Ok = usize;
    type Error = ValueError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.count += 1;
        if self.is_sample() { self.look(value) } else { Ok(()) }
    }

    fn end(self) -> Result {
        self.close()
    }
}

impl ser::SerializeMap for Elements<'_> {
    type Ok = usize;
    type Error = ValueError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.count += 1;
        if self.is_sample() {
            self.key = self.to.inside(key)?;
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        if self.is_sample() {
            let bytes = self.key + self.to.inside(value)?;
            self.looked(bytes);
        }
        Ok(())
    }

    fn end(self) -> Result {
        self.close()
    }
}

macro_rules! parts {
    ($($trait:ident $method:ident $($key:ident)?),*) => {$(
        impl ser::$trait for Parts<'_> {
            type Ok = usize;
            type Error = ValueError;

            fn $method<T: Serialize + ?Sized>(
                &mut self,
                $($key: &'static str,)?
                value: &T,
            ) -> Result<()> {
                self.part(value)
            }

            fn end(self) -> Result {
                self.close()
            }
        }
    )*};
}
parts!(
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
    SerializeStruct serialize_field _key,
    SerializeStructVariant serialize_field _key
);
