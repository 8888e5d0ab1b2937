//! The map file: what lies where.

use alloc::string::String;
use core::fmt::Write;

use super::Linked;

/// The map of an image, as text.
pub(super) fn map(linked: &Linked) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(linked, &mut text);
    text
}

fn write(linked: &Linked, text: &mut String) -> core::fmt::Result {
    if let Some(entry) = linked.entry {
        writeln!(text, "entry {entry:#010x}")?;
    }
    let (count, bytes) = linked.dropped;
    writeln!(text, "{} literal pools, {count} sections of {bytes} bytes left out", linked.pools)?;
    let mut pieces = linked.pieces.iter().peekable();
    for (index, section) in linked.sections.iter().enumerate() {
        let (address, size) = (section.address, section.size);
        writeln!(text, "\n{} {address:#010x} {size:#x} in {}", section.name, section.region)?;
        while let Some(piece) = pieces.next_if(|piece| piece.section == index) {
            writeln!(text, "  {:#010x} {:#8x} {} {}", piece.address, piece.size, piece.name, piece.file)?;
        }
    }
    writeln!(text, "\nsymbols")?;
    let mut symbols: alloc::vec::Vec<_> = linked.symbols.iter().filter(|symbol| symbol.global).collect();
    symbols.sort_by(|a, b| (a.value, &a.name).cmp(&(b.value, &b.name)));
    for symbol in symbols {
        let kind = if symbol.section.is_some() { ' ' } else { '=' };
        writeln!(text, "  {:#010x}{kind}{:#8x} {}", symbol.value, symbol.size, symbol.name)?;
    }
    Ok(())
}
