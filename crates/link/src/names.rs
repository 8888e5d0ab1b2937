//! Names of a loaded module: looked up where they lie in its file, or kept when the file may go away.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use outboard_elf::{Elf, ElfError, StringTable, Symbol, SymbolTable};

/// A symbol table of a file with its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedSymbols<'f> {
    pub symbols: SymbolTable<'f>,
    pub strings: StringTable<'f>,
    /// The longest name that is read.
    longest: u64,
}

impl<'f> NamedSymbols<'f> {
    pub fn new(elf: &Elf<'f>, symbols: SymbolTable<'f>, strings: StringTable<'f>) -> Self {
        Self { symbols, strings, longest: elf.limits().name }
    }

    /// The name of the symbol at a position; empty when there is none.
    fn name(&self, position: u32) -> &'f [u8] {
        let symbol = usize::try_from(position).ok().and_then(|position| self.symbols.get(position));
        symbol.and_then(|symbol| read(self.strings, self.longest, &symbol).ok()).unwrap_or_default()
    }
}

/// The defined, non-local symbols of a module by name. Holds positions in the file's symbol table and no name: the
/// addresses are those of the resolve phase.
#[derive(Debug, Clone)]
pub(crate) struct Globals<'f> {
    table: NamedSymbols<'f>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Symbols whose relocations go to the device's definition: position and the module's own address, in table order.
    preempted: Vec<(u32, u64)>,
}

impl<'f> Globals<'f> {
    /// Room for `count` symbols. `hasher` must be the one that makes the hashes passed to the other functions.
    pub fn new(table: NamedSymbols<'f>, hasher: &DefaultHashBuilder, count: usize) -> Self {
        Self { table, index: HashTable::with_capacity(count), hasher: hasher.clone(), preempted: Vec::new() }
    }

    /// The table that the positions are of.
    pub const fn table(&self) -> NamedSymbols<'f> {
        self.table
    }

    /// Adds a symbol unless its name is known; then the position of the first symbol of that name.
    pub fn insert(&mut self, hash: u64, name: &[u8], position: u32) -> Option<u32> {
        let Self { table, index, hasher, .. } = self;
        let same = |i: &u32| table.name(*i) == name;
        let rehash = |i: &u32| hasher.hash_one(table.name(*i));
        match index.entry(hash, same, rehash) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(free) => {
                free.insert(position);
                None
            }
        }
    }

    /// Remembers the module's own address of a symbol that the device's definition replaces. In table order.
    pub fn preempt(&mut self, position: u32, own: u64) {
        self.preempted.push((position, own));
    }

    /// The module's own address of a symbol; `values` are the addresses that relocations use.
    pub fn own_address(&self, position: u32, values: &[u64]) -> Option<u64> {
        match self.preempted.binary_search_by_key(&position, |(position, _)| *position) {
            Ok(found) => self.preempted.get(found).map(|(_, own)| *own),
            Err(_) => values.get(usize::try_from(position).ok()?).copied(),
        }
    }

    /// The module's own address of a name.
    pub fn get_hashed(&self, hash: u64, name: &[u8], values: &[u64]) -> Option<u64> {
        let same = |i: &u32| self.table.name(*i) == name;
        self.own_address(*self.index.find(hash, same)?, values)
    }

    /// As [`Globals::get_hashed`].
    pub fn get(&self, name: &[u8], values: &[u64]) -> Option<u64> {
        self.get_hashed(self.hasher.hash_one(name), name, values)
    }

    /// All symbols that have an entry: position and name, in table order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'f [u8])> {
        (0_u32..).zip(self.table.symbols.iter()).filter_map(|(position, symbol)| {
            if symbol.local() || !symbol.defined() {
                return None;
            }
            let name = self.table.name(position);
            let entered = self.index.find(self.hasher.hash_one(name), |known| *known == position);
            entered.map(|_| (position, name))
        })
    }

    /// Names of the symbols that are used and not defined, in table order.
    pub fn imports(&self) -> impl Iterator<Item = &'f [u8]> {
        let NamedSymbols { symbols, strings, longest } = self.table;
        let imports = symbols.iter().filter(|symbol| !symbol.local() && !symbol.defined());
        imports.filter_map(move |symbol| read(strings, longest, &symbol).ok()).filter(|name| !name.is_empty())
    }
}

fn read<'f>(strings: StringTable<'f>, longest: u64, symbol: &Symbol) -> Result<&'f [u8], ElfError> {
    match (symbol.name, strings.is_empty()) {
        (0, true) => Ok(&[]),
        (offset, _) => strings.get("a symbol name", u64::from(offset), longest),
    }
}

/// A name in the buffer of [`KeptNames`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    len: u32,
}

/// Names and addresses in one buffer of their own: the file may go away.
#[derive(Debug, Default, Clone)]
pub(crate) struct KeptNames {
    names: Vec<u8>,
    globals: Vec<(Span, u64)>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    functions: Vec<(Span, u64)>,
    imports: Vec<Span>,
}

impl KeptNames {
    /// Copies everything that is asked of a module later. What does not fit into 4 GiB of names is left out.
    pub fn new<'f>(
        globals: impl Iterator<Item = (&'f [u8], u64)>,
        functions: impl Iterator<Item = (&'f [u8], u64)>,
        imports: impl Iterator<Item = &'f [u8]>,
    ) -> Self {
        let mut kept = Self::default();
        for (name, address) in globals {
            kept.add_global(name, address);
        }
        for (name, address) in functions {
            if let Some(span) = push(&mut kept.names, name) {
                kept.functions.push((span, address));
            }
        }
        for name in imports {
            kept.imports.extend(push(&mut kept.names, name));
        }
        kept
    }

    fn add_global(&mut self, name: &[u8], address: u64) {
        let Self { names, globals, index, hasher, .. } = self;
        let (Ok(position), Some(span)) = (u32::try_from(globals.len()), push(names, name)) else { return };
        globals.push((span, address));
        let name_at =
            |i: u32| usize::try_from(i).ok().and_then(|i| globals.get(i)).map(|(span, _)| slice(names, *span));
        index.insert_unique(hasher.hash_one(name), position, |i| hasher.hash_one(name_at(*i).unwrap_or_default()));
    }

    /// The address of a global.
    pub fn get(&self, name: &[u8]) -> Option<u64> {
        let entry = |i: u32| self.globals.get(usize::try_from(i).ok()?);
        let same = |i: &u32| entry(*i).is_some_and(|(span, _)| slice(&self.names, *span) == name);
        entry(*self.index.find(self.hasher.hash_one(name), same)?).map(|(_, address)| *address)
    }

    /// The globals, in table order.
    pub fn globals(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.globals.iter().map(|(name, address)| (slice(&self.names, *name), *address))
    }

    /// The functions that are not among the globals.
    pub fn functions(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.functions.iter().map(|(name, address)| (slice(&self.names, *name), *address))
    }

    /// The names of what the module takes from elsewhere.
    pub fn imports(&self) -> impl Iterator<Item = &[u8]> {
        self.imports.iter().map(|name| slice(&self.names, *name))
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
        let name = read(self.strings, self.longest, symbol)?;
        let limit =
            ElfError::Limit { what: "the total length of symbol names", value: self.budget + 1, limit: self.budget };
        self.left = self.left.checked_sub(name.len() as u64 + 1).ok_or(limit)?;
        Ok(name)
    }
}
