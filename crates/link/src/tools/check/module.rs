//! Profile `c7x`: what the loader accepts and the board, the original firmware or a caller would still trip over.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use outboard_elf::{RelaTable, Segment, Symbol, dt, dynamic_tag_name, shn};
use outboard_reloc::Site;
use outboard_wire::round64;

use super::{CheckRequest, Findings, Severity, some};
use crate::budget::{bytes_at, io_meta, symbol_value};
use crate::error::MissingSymbol;
use crate::hints;
use crate::image::{Image, lossy};
use crate::layout::{POOL_ALIGN, changed_segments};
use crate::names::NameReader;
use crate::symbols::linked_against;

/// The function that the service calls.
const ENTRY: &str = "cg_main_dsp";
const WEIGHTS: [&str; 3] = ["_binary_weights_bin_start", "_binary_weights_bin_end", "_binary_weights_bin_size"];
/// Bytes of zeros that the streaming engine may prefetch before the weights.
const GUARD: u64 = 4096;
/// Bytes of a tensor descriptor on the wire.
const DESCRIPTOR: u64 = 80;

/// Names of the undefined symbols, sorted. Names beyond the reader's budget are left out.
pub(super) fn imports(image: &Image<'_>) -> Vec<String> {
    let mut names = NameReader::new(&image.elf, image.strings);
    let undefined = image.symbols.iter().filter(|symbol| !symbol.defined() && !symbol.local());
    let names = undefined.map_while(|symbol| names.get(&symbol).ok()).filter(|name| !name.is_empty()).map(lossy);
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

pub(super) fn check(image: &Image<'_>, request: &CheckRequest<'_>, imports: &[String], findings: &mut Findings) {
    check_entry(image, findings);
    check_imports(image, request, imports, findings);
    check_permissions(image, findings);
    check_io_meta(image, findings);
    check_weights(image, findings);
    if !image.machine.one_block() {
        check_initialisers(image, findings);
        check_segments(image, findings);
        check_in_place(image, request, findings);
        check_tags(image, findings);
        check_order(image, findings);
        check_symbols(image, findings);
        check_sites(image, findings);
    }
}

fn header(segment: &Segment) -> String {
    format!("program header {} at file offset {:#x}", segment.index, segment.header)
}

fn check_entry(image: &Image<'_>, findings: &mut Findings) {
    if symbol_value(image, ENTRY).is_none() {
        let message =
            "the module does not define the function that INFER calls: it loads, but no inference can run".to_string();
        let fix = "export `int cg_main_dsp(TVMFFIAny*, int, TVMFFIAny*, TVMFFIAny*)` with C linkage".to_string();
        findings.push("OB0201", Severity::Error, ENTRY.to_string(), message, fix);
    }
}

fn check_imports(image: &Image<'_>, request: &CheckRequest<'_>, imports: &[String], findings: &mut Findings) {
    let weak = weak_imports(image);
    let missing: Vec<String> = imports
        .iter()
        .filter(|name| request.exports.get(name).is_none() && !weak.contains(name.as_str()))
        .cloned()
        .collect();
    if missing.is_empty() {
        return;
    }
    let stale = linked_against(image, &missing);
    let mut symbols: Vec<MissingSymbol> =
        missing.iter().map(|name| MissingSymbol { name: name.clone(), reason: "", near: Vec::new() }).collect();
    hints::suggest(&mut symbols, request.exports);
    let near: Vec<String> =
        symbols.iter().filter(|s| !s.near.is_empty()).map(|s| format!("{}: {}", s.name, s.near.join(" or "))).collect();
    let mut message =
        format!("{} of {} imports are not in the export set: {}", missing.len(), imports.len(), some(&missing));
    if !near.is_empty() {
        message.push_str(&format!("; near names: {}", some(&near)));
    }
    for hint in hints::advice(&symbols) {
        message.push('\n');
        message.push_str(&hint);
    }
    let sets = request.sets.satisfying(imports.iter().map(String::as_str));
    let fix = match sets.as_slice() {
        [] => "link the missing functions into the module; no known export set has them all".to_string(),
        sets => format!("use a device with one of these export sets: {}", sets.join(", ")),
    };
    findings.push("OB0202", Severity::Error, "imports".to_string(), message, fix);
    if !stale.is_empty() {
        let message = format!(
            "{} were in the symbol file that the module was linked against, but are not exported: \
             the original loader would leave them at their link-time dummy addresses and crash in the first call",
            some(&stale)
        );
        let fix = "link against the symbols of the firmware that will run it".to_string();
        findings.push("OB0216", Severity::Error, ".dsp_syms_out".to_string(), message, fix);
    }
}

/// Host-CPU modules may leave weak symbols undefined.
fn weak_imports(image: &Image<'_>) -> BTreeSet<String> {
    if !image.machine.one_block() {
        return BTreeSet::new();
    }
    let mut names = NameReader::new(&image.elf, image.strings);
    let weak = image.symbols.iter().filter(|symbol| !symbol.defined() && symbol.weak());
    weak.map_while(|symbol| names.get(&symbol).ok()).map(lossy).collect()
}

fn check_permissions(image: &Image<'_>, findings: &mut Findings) {
    for segment in image.loads.iter().filter(|segment| segment.writable() && segment.executable()) {
        let message = "the segment is writable and executable: a stray write changes code".to_string();
        let fix = "place code and data into segments of their own (linker option -z separate-code)".to_string();
        findings.push("OB0204", Severity::Warning, header(segment), message, fix);
    }
}

fn check_io_meta(image: &Image<'_>, findings: &mut Findings) {
    let place = || crate::budget::IO_META.to_string();
    let fix = || "build the module with its declaration of input and output sizes".to_string();
    let meta = match io_meta(image) {
        None => {
            let message =
                "the module does not declare its input and output sizes: callers must reserve buffers by hand"
                    .to_string();
            return findings.push("OB0207", Severity::Warning, place(), message, fix());
        }
        Some(Err(fault)) => return findings.push("OB0208", Severity::Error, place(), fault, fix()),
        Some(Ok(meta)) => meta,
    };
    let sides = [
        ("input", meta.num_inputs.get(), meta.input_bytes.get()),
        ("output", meta.num_outputs.get(), meta.output_bytes.get()),
    ];
    for (side, count, bytes) in sides {
        let descriptors = round64(u64::from(count) * DESCRIPTOR).unwrap_or(u64::MAX);
        if bytes < descriptors || !bytes.is_multiple_of(64) {
            let message = format!(
                "{count} {side}s in {bytes} bytes: the buffer begins with {descriptors} bytes of descriptors and every part \
                 is a multiple of 64"
            );
            findings.push("OB0208", Severity::Error, place(), message, fix());
        }
    }
}

fn check_weights(image: &Image<'_>, findings: &mut Findings) {
    let [start, end, size] = WEIGHTS.map(|name| symbol_value(image, name));
    let (Some(start), Some(end)) = (start, end) else { return };
    let stored =
        size.and_then(|at| bytes_at(&image.elf, at, 4)).and_then(<[u8]>::first_chunk).map(|b| u32::from_le_bytes(*b));
    if end.checked_sub(start) != stored.map(u64::from) {
        let stored = stored.map_or("no value".to_string(), |stored| stored.to_string());
        let message = format!("the weights span {start:#x}..{end:#x}, but the size behind the symbol is {stored}");
        let fix = "emit start, end and a 32-bit size from the same assembly file".to_string();
        findings.push("OB0217", Severity::Error, WEIGHTS[2].to_string(), message, fix);
    }
    if image.machine.one_block() {
        return;
    }
    let guard = start.checked_sub(GUARD).and_then(|at| bytes_at(&image.elf, at, GUARD));
    if !guard.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)) {
        let message = format!(
            "the {GUARD} bytes before the weights are not a guard of zeros in the same segment: the streaming engine prefetches \
             before the first element and may fault"
        );
        let fix = "put a section of 4096 zero bytes (.se_guard) right before .rodata.weights".to_string();
        findings.push("OB0203", Severity::Warning, WEIGHTS[0].to_string(), message, fix);
    }
}

fn check_initialisers(image: &Image<'_>, findings: &mut Findings) {
    let functions = &image.functions;
    let all = [
        ("DT_INIT", functions.init),
        ("DT_INIT_ARRAY", functions.init_array.1),
        ("DT_PREINIT_ARRAY", functions.preinit_array.1),
        ("DT_FINI", functions.fini),
        ("DT_FINI_ARRAY", functions.fini_array.1),
    ];
    for (tag, _) in all.into_iter().filter(|(_, value)| *value != 0) {
        let message = "the module has initialisers or finalisers: the board refuses it, and the original loader fails every later load until it is restarted".to_string();
        let fix = "avoid static constructors; initialise on the first call".to_string();
        findings.push("OB0206", Severity::Error, tag.to_string(), message, fix);
    }
}

fn check_segments(image: &Image<'_>, findings: &mut Findings) {
    let file_size = image.elf.bytes().len();
    let mut uncleared = 0;
    for segment in &image.loads {
        if segment.align > POOL_ALIGN && !segment.read_only() {
            let message =
                format!("p_align is {}: the original loader aligns to {POOL_ALIGN} bytes only", segment.align);
            let fix = "do not rely on more than 128 bytes, or align at run time".to_string();
            findings.push("OB0213", Severity::Warning, header(segment), message, fix);
        }
        if segment.read_only() && segment.memsz > segment.filesz {
            let message = format!(
                "{} bytes of zeros behind read-only data: the original loader uses the segment in place, so that they are \
                 whatever follows in the file",
                segment.memsz - segment.filesz
            );
            let fix = "move zero-initialised data to .bss".to_string();
            findings.push("OB0214", Severity::Error, header(segment), message, fix);
        }
        if segment.vaddr == 0 {
            let message = "the segment is linked at address 0: the original loader takes undefined symbols, whose value is 0, for symbols of it".to_string();
            let fix = "link at 0x80000000, the address of the module build contract".to_string();
            findings.push("OB0221", Severity::Warning, header(segment), message, fix);
        }
        uncleared += if segment.read_only() { 0 } else { segment.memsz - segment.filesz };
    }
    for segment in image.elf.segments().filter(|segment| segment.offset.checked_add(segment.filesz) == Some(file_size))
    {
        let message = "the segment ends exactly at the end of the file: the original loader refuses that".to_string();
        let fix = "keep the section headers, or append a byte".to_string();
        findings.push("OB0212", Severity::Error, header(&segment), message, fix);
    }
    if uncleared > 0 {
        let message = format!("{uncleared} bytes are zero-initialised; this loader clears them, the original does not");
        let fix = "on the original firmware, clear static data on the first call".to_string();
        findings.push("OB0211", Severity::Note, "zero-initialised data".to_string(), message, fix);
    }
}

fn check_in_place(image: &Image<'_>, request: &CheckRequest<'_>, findings: &mut Findings) {
    let changed = changed_segments(image);
    for (segment, changed) in image.loads.iter().zip(changed).filter(|(segment, _)| segment.read_only()) {
        if changed {
            let message =
                "relocations change read-only data: the board uses it in place and discards the changes".to_string();
            let fix = "make the data writable (.data), or keep addresses out of it".to_string();
            findings.push("OB0205", Severity::Error, header(segment), message, fix);
        }
        let address = request.target.staging.address.wrapping_add(segment.offset);
        if address & (segment.align.max(1) - 1) != 0 {
            let message = format!("p_align {} is not honoured at staging + {:#x}", segment.align, segment.offset);
            let fix = "give the segment a file offset that is a multiple of its alignment".to_string();
            findings.push("OB0213", Severity::Warning, header(segment), message, fix);
        }
    }
}

/// Tags that the original loader lets pass in its second look at the dynamic table.
const PASSED: [u64; 34] = [
    dt::NEEDED,
    dt::PLTRELSZ,
    dt::HASH,
    dt::STRTAB,
    dt::SYMTAB,
    dt::RELA,
    dt::RELASZ,
    dt::RELAENT,
    dt::STRSZ,
    dt::SYMENT,
    dt::INIT,
    dt::FINI,
    dt::SONAME,
    dt::RPATH,
    dt::SYMBOLIC,
    dt::REL,
    dt::RELSZ,
    dt::RELENT,
    dt::PLTREL,
    dt::DEBUG,
    dt::TEXTREL,
    dt::JMPREL,
    dt::BIND_NOW,
    dt::INIT_ARRAY,
    dt::FINI_ARRAY,
    dt::INIT_ARRAYSZ,
    dt::FINI_ARRAYSZ,
    dt::RUNPATH,
    dt::FLAGS,
    dt::PREINIT_ARRAY,
    dt::PREINIT_ARRAYSZ,
    dt::C7X_GSYM_OFFSET,
    dt::C7X_GSTR_OFFSET,
    dt::C7X_PRELINKED,
];

fn check_tags(image: &Image<'_>, findings: &mut Findings) {
    let Ok(Some(dynamic)) = image.elf.dynamic(image.machine.pointers()) else { return };
    let refused = |tag: &u64| !PASSED.contains(tag) && *tag != dt::C7X_PREEMPTMAP;
    let tags: BTreeSet<u64> = dynamic.iter().map(|entry| entry.tag).filter(refused).collect();
    for tag in tags {
        let name = dynamic_tag_name(tag).map_or_else(|| format!("tag {tag:#x}"), String::from);
        let message =
            "the original loader refuses modules with this tag (\"Invalid dynamic tag encountered\")".to_string();
        findings.push("OB0209", Severity::Error, name, message, "link without it".to_string());
    }
}

/// Entries that the original loader would drop: per segment it stops at the first entry of another one.
fn check_order(image: &Image<'_>, findings: &mut Findings) {
    let [plt, ..] = &image.rela;
    let segments = |table: &RelaTable<'_>| table.iter().map(|entry| image.load_at(entry.offset)).collect::<Vec<_>>();
    let plt_segments = segments(plt);
    let mut dropped =
        plt_segments.iter().filter(|segment| **segment != plt_segments.first().copied().flatten()).count();
    let mut first = None;
    let mut left = vec![false; image.loads.len()];
    let mut current = None;
    let mut empty = 0_usize;
    for entry in image.rela.iter().skip(1).flat_map(RelaTable::iter) {
        let Some(position) = image.load_at(entry.offset) else { continue };
        if current.is_some_and(|current| current != position)
            && let Some(flag) = current.and_then(|current: usize| left.get_mut(current))
        {
            *flag = true;
        }
        current = Some(position);
        if left.get(position).copied().unwrap_or(false) {
            dropped += 1;
            first = first.or(Some(entry.offset));
        }
        empty += usize::from(image.loads.get(position).is_some_and(|segment| segment.filesz == 0));
    }
    if dropped > 0 {
        let place = first.map_or("DT_JMPREL".to_string(), |place| format!("relocation at {place:#x}"));
        let message =
            format!("{dropped} relocations are not grouped by segment: the original loader drops them without a word");
        let fix = "sort the relocation table by segment (the C7000 linker does)".to_string();
        findings.push("OB0210", Severity::Error, place, message, fix);
    }
    if empty > 0 {
        let message =
            format!("{empty} relocations lie in a segment without file bytes: the original loader ignores them");
        let fix = "move the pointers from .bss to .data".to_string();
        findings.push("OB0219", Severity::Error, "zero-initialised data".to_string(), message, fix);
    }
}

/// Symbols that the original loader would move wrongly, because it goes by address and not by section.
fn check_symbols(image: &Image<'_>, findings: &mut Findings) {
    let mut names = NameReader::new(&image.elf, image.strings);
    let moved_wrongly = |symbol: &Symbol| match symbol.shndx {
        shn::UNDEF => false,
        shn::ABS => image.load_at(symbol.value).is_some(),
        _ => image.load_ending_at(symbol.value).is_some() && !section_starts_at(image, symbol),
    };
    let wrong: Vec<String> =
        image.symbols.iter().filter(moved_wrongly).map_while(|symbol| names.get(&symbol).ok()).map(lossy).collect();
    if !wrong.is_empty() {
        let message = format!(
            "{}: the original loader moves symbols by address, so it leaves a symbol at the very end of its section (or moves \
             it with the next one), and moves absolute values that look like addresses",
            some(&wrong)
        );
        let fix = "put the end symbol before the last byte, or compute the end from start and size".to_string();
        findings.push("OB0220", Severity::Warning, "symbols".to_string(), message, fix);
    }
}

/// Whether the symbol is at the start of its section, which is then the next one.
fn section_starts_at(image: &Image<'_>, symbol: &Symbol) -> bool {
    let section = image.sections.and_then(|sections| sections.get(usize::from(symbol.shndx)));
    section.is_some_and(|section| section.address == symbol.value)
}

fn check_sites(image: &Image<'_>, findings: &mut Findings) {
    let Some(table) = image.machine.relocations() else { return };
    let mut counts = vec![0_u64; image.loads.len()];
    for entry in image.rela.iter().flat_map(RelaTable::iter) {
        let code = table.row(entry.kind).is_some_and(|row| row.site == Site::Code);
        if let (true, Some(position)) = (code, image.load_at(entry.offset))
            && let Some(count) = counts.get_mut(position)
        {
            *count += 1;
        }
    }
    for (segment, count) in image.loads.iter().zip(counts) {
        if count > 0 && !segment.executable() {
            let message = format!("{count} relocations of instructions lie in a segment that is not executable");
            let fix = "check the section attributes of the code".to_string();
            findings.push("OB0215", Severity::Note, header(segment), message, fix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_is_a_page_and_the_tags_are_listed_once() {
        assert_eq!(GUARD, 4096);
        assert_eq!(PASSED.iter().collect::<BTreeSet<_>>().len(), PASSED.len());
    }
}
