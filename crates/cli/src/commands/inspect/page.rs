//! The page that a person reads about an ELF file.

use outboard_link::inspect::{Inspection, SymbolInfo, SymbolList};
use outboard_link::resource_table::ResourceTable;
use std::fmt::Write;

/// The page a person reads.
pub(super) fn text(name: &str, found: &Inspection) -> String {
    let header = &found.header;
    let mut page = format!(
        "{name}: {} bytes, {}-bit {} {} ({}), entry {:#x}, flags {:#x}\n",
        found.file_size,
        header.class,
        header.machine.name,
        header.kind.name,
        header.osabi.name,
        header.entry,
        header.flags
    );
    // Writing to a string does not fail.
    let _ = sections(&mut page, found);
    page
}

fn sections(page: &mut String, found: &Inspection) -> std::fmt::Result {
    if !found.segments.is_empty() {
        writeln!(
            page,
            "\nSegments\n  {:>2}  {:<14} {:<5} {:>10} {:>12} {:>10} {:>10} {:>7}  goes to",
            "#", "type", "perms", "offset", "address", "in file", "in memory", "align"
        )?;
    }
    for segment in &found.segments {
        writeln!(
            page,
            "  {:>2}  {:<14} {:<5} {:>#10x} {:>#12x} {:>#10x} {:>#10x} {:>#7x}  {}",
            segment.index,
            segment.kind.name,
            segment.perms,
            segment.offset,
            segment.vaddr,
            segment.filesz,
            segment.memsz,
            segment.align,
            segment.goes
        )?;
    }
    if !found.dynamic.is_empty() {
        writeln!(page, "\nDynamic tags")?;
    }
    for tag in &found.dynamic {
        let text = tag.text.as_ref().map(|text| format!("  {text}")).unwrap_or_default();
        writeln!(page, "  {:<20} {:#x}{text}", tag.tag.name, tag.value)?;
    }
    symbols(page, "Imports", &found.imports, |symbol| if symbol.weak { "weak".to_owned() } else { String::new() })?;
    symbols(page, "Exports", &found.exports, |symbol| {
        format!("{:#x}, {} bytes, {}", symbol.value, symbol.size, symbol.kind)
    })?;
    if !found.relocations.is_empty() {
        writeln!(page, "\nRelocations ({})", found.relocations.values().sum::<u64>())?;
    }
    for (kind, count) in &found.relocations {
        writeln!(page, "  {kind:<28} {count}")?;
    }
    if !found.notes.is_empty() {
        writeln!(page, "\nNotes")?;
    }
    for note in &found.notes {
        let text = note.text.as_deref().unwrap_or_default().trim_end().replace('\n', "\n      ");
        writeln!(page, "  {} type {}, {} bytes\n      {text}", note.owner, note.kind, note.size)?;
    }
    if let Some(table) = &found.resource_table {
        resources(page, table)?;
    }
    if !found.problems.is_empty() {
        writeln!(page, "\nWhat cannot be read")?;
    }
    found.problems.iter().try_for_each(|problem| writeln!(page, "  {problem}"))
}

fn symbols(
    page: &mut String,
    title: &str,
    list: &SymbolList,
    detail: impl Fn(&SymbolInfo) -> String,
) -> std::fmt::Result {
    if list.count == 0 {
        return Ok(());
    }
    writeln!(page, "\n{title} ({})", list.count)?;
    for symbol in &list.symbols {
        let readable = symbol.demangled.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
        let line = format!("  {:<40} {}{readable}", symbol.name, detail(symbol));
        writeln!(page, "{}", line.trim_end())?;
    }
    let hidden = list.count.saturating_sub(list.symbols.len());
    if hidden > 0 { writeln!(page, "  and {hidden} more") } else { Ok(()) }
}

fn resources(page: &mut String, table: &ResourceTable) -> std::fmt::Result {
    writeln!(page, "\nResource table (version {})", table.version)?;
    for carveout in &table.carveouts {
        writeln!(
            page,
            "  carveout {:<20} device {:#x}, physical {:#x}, {:#x} bytes",
            carveout.name, carveout.device_address, carveout.physical_address, carveout.size
        )?;
    }
    for trace in &table.traces {
        writeln!(page, "  trace    {:<20} device {:#x}, {:#x} bytes", trace.name, trace.device_address, trace.size)?;
    }
    for device in &table.devices {
        writeln!(
            page,
            "  device   id {}, features {:#x}, {} rings: {} bytes, buffers: {} bytes",
            device.id,
            device.features,
            device.rings.len(),
            device.ring_bytes(),
            device.buffer_bytes()
        )?;
    }
    for kind in &table.other {
        writeln!(page, "  entry of type {kind}, not decoded")?;
    }
    Ok(())
}
