//! Names of a loaded module, in one buffer of its own: the file may go away.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use outboard_elf::{Elf, ElfError, StringTable, Symbol};

/// A name in a [`Globals`]' buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

/// The defined, non-local symbols of a module by name, and the buffer in which all its names are.
#[derive(Debug, Default, Clone)]
pub(crate) struct Globals {
    names: Vec<u8>,
    entries: Vec<Global>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Clone, Copy)]
struct Global {
    name: Span,
    address: u64,
}

impl Globals {
    /// Room for `count` symbols. `hasher` must be the one that makes the hashes passed to the other functions.
    pub fn new(hasher: &DefaultHashBuilder, count: usize) -> Self {
        Self {
            names: Vec::new(),
            entries: Vec::with_capacity(count),
            index: HashTable::with_capacity(count),
            hasher: hasher.clone(),
        }
    }

    /// The address of a symbol.
    pub fn get(&self, name: &[u8]) -> Option<u64> {
        self.get_hashed(self.hasher.hash_one(name), name)
    }

    pub fn get_hashed(&self, hash: u64, name: &[u8]) -> Option<u64> {
        let found = self.index.find(hash, |i| entry_name(&self.names, &self.entries, *i) == name)?;
        self.entries.get(usize::try_from(*found).ok()?).map(|entry| entry.address)
    }

    /// Adds a symbol unless its name is known; the address that the name has now.
    pub fn insert(&mut self, hash: u64, name: &[u8], address: u64) -> u64 {
        let Self { names, entries, index, hasher } = self;
        let same = |i: &u32| entry_name(names, entries, *i) == name;
        let rehash = |i: &u32| hasher.hash_one(entry_name(names, entries, *i));
        match index.entry(hash, same, rehash) {
            Entry::Occupied(known) => {
                usize::try_from(*known.get()).ok().and_then(|i| entries.get(i)).map_or(address, |entry| entry.address)
            }
            Entry::Vacant(free) => {
                if let (Ok(position), Some(name)) = (u32::try_from(entries.len()), push(names, name)) {
                    free.insert(position);
                    entries.push(Global { name, address });
                }
                address
            }
        }
    }

    /// Keeps a name that is no symbol of the table; `None` when the buffer is full (4 GiB).
    pub fn keep(&mut self, name: &[u8]) -> Option<Span> {
        push(&mut self.names, name)
    }

    /// The bytes of a name.
    pub fn name(&self, span: Span) -> &[u8] {
        slice(&self.names, span)
    }

    /// All symbols, in table order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.entries.iter().map(|entry| (self.name(entry.name), entry.address))
    }
}

fn push(names: &mut Vec<u8>, name: &[u8]) -> Option<Span> {
    let span = Span { start: u32::try_from(names.len()).ok()?, len: u32::try_from(name.len()).ok()? };
    names.extend_from_slice(name);
    Some(span)
}

fn slice(names: &[u8], span: Span) -> &[u8] {
    let range = usize::try_from(span.start).ok().zip(usize::try_from(span.len).ok());
    range.and_then(|(start, len)| names.get(start..)?.get(..len)).unwrap_or(&[])
}

fn entry_name<'n>(names: &'n [u8], entries: &[Global], index: u32) -> &'n [u8] {
    let entry = usize::try_from(index).ok().and_then(|index| entries.get(index));
    entry.map_or(&[], |entry| slice(names, entry.name))
}

/// Reads names from a file's table and keeps their total length below a multiple of the file: names may overlap in the
/// table, so their total length is not bounded by it.
pub(crate) struct NameReader<'a> {
    strings: StringTable<'a>,
    longest: u64,
    left: u64,
    budget: u64,
}

impl<'a> NameReader<'a> {
    pub fn new(elf: &Elf<'_>, strings: StringTable<'a>) -> Self {
        let budget = 2 * elf.bytes().len() + (1 << 20);
        Self { strings, longest: elf.limits().name, left: budget, budget }
    }

    pub fn get(&mut self, symbol: &Symbol) -> Result<&'a [u8], ElfError> {
        let name = match (symbol.name, self.strings.is_empty()) {
            (0, true) => &[],
            (offset, _) => self.strings.get("a symbol name", u64::from(offset), self.longest)?,
        };
        let limit =
            ElfError::Limit { what: "the total length of symbol names", value: self.budget + 1, limit: self.budget };
        self.left = self.left.checked_sub(name.len() as u64 + 1).ok_or(limit)?;
        Ok(name)
    }
}
