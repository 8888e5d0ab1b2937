//! Reports as text: one table after the other, numbers in hexadecimal.

use std::fmt::{Display, Formatter, Result};

use super::{
    ArchiveReport, FllReport, HeaderReport, Note, ObjectReport, PiReport, Report, SectionReport, SegmentReport,
    UcplReport,
};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Pi(report) => report.fmt(f),
            Self::Fll(report) => report.fmt(f),
            Self::Object(report) => report.fmt(f),
            Self::Archive(report) => report.fmt(f),
            Self::Ucpl(report) => report.fmt(f),
        }
    }
}

fn header(f: &mut Formatter<'_>, header: &HeaderReport, toolchain: Option<&str>) -> Result {
    let HeaderReport { type_name, machine, entry, flags, .. } = header;
    writeln!(f, "  type {type_name}, machine {machine}, flags {flags:#x}, entry {entry:#010x}")?;
    match toolchain {
        Some(toolchain) => writeln!(f, "  built by {toolchain}"),
        None => Ok(()),
    }
}

fn segments(f: &mut Formatter<'_>, segments: &[SegmentReport]) -> Result {
    writeln!(f, "\nSegments\n   # type    offset     vaddr      paddr      filesz     memsz      flg align  goes to")?;
    for s in segments {
        write!(f, "  {:>2} {:<7} {:#010x} {:#010x} {:#010x} ", s.index, s.type_name, s.offset, s.vaddr, s.paddr)?;
        let flags = [(4, 'R'), (2, 'W'), (1, 'X')].map(|(bit, c)| if s.flags & bit != 0 { c } else { '-' });
        let flags: String = flags.iter().collect();
        write!(f, "{:#010x} {:#010x} {flags} {:#06x} {}", s.filesz, s.memsz, s.align, s.region)?;
        if s.zeroed > 0 {
            write!(f, ", last {:#x} bytes zeroed", s.zeroed)?;
        }
        writeln!(f)?;
        if !s.sections.is_empty() {
            writeln!(f, "     {}", s.sections.join(" "))?;
        }
    }
    Ok(())
}

fn sections(f: &mut Formatter<'_>, sections: &[SectionReport]) -> Result {
    writeln!(f, "\nSections\n   # address    offset     size       align name")?;
    for s in sections.iter().skip(1) {
        writeln!(
            f,
            "  {:>2} {:#010x} {:#010x} {:#010x} {:>5} {}",
            s.index, s.address, s.offset, s.size, s.align, s.name
        )?;
    }
    Ok(())
}

fn notes(f: &mut Formatter<'_>, notes: &[Note]) -> Result {
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nNotes")?;
    notes.iter().try_for_each(|note| writeln!(f, "  {} {}", note.code, note.message))
}

impl Display for PiReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "PI image, {} bytes, sha256 {}", self.size, self.sha256)?;
        header(f, &self.header, self.toolchain.as_deref())?;
        segments(f, &self.segments)?;
        sections(f, &self.sections)?;
        writeln!(f, "\nDynamic table")?;
        for entry in &self.dynamic {
            writeln!(f, "  {:<22} {:#x}", entry.name, entry.value)?;
        }
        writeln!(f, "\nRelocations: {}", self.relocations.count)?;
        for (name, count) in &self.relocations.histogram {
            writeln!(f, "  {count:>6} {name}")?;
        }
        writeln!(f, "  pairs: high       low        target")?;
        for pair in &self.relocations.pairs {
            writeln!(f, "         {:#010x} {:#010x} {:#010x}", pair.high, pair.low, pair.target)?;
        }
        if let Some(table) = &self.kernel_table {
            writeln!(
                f,
                "\nKernel table at {:#010x} (file offset {:#x}), {} rows",
                table.address,
                table.offset,
                table.rows.len()
            )?;
            for row in &table.rows {
                let name = row.name.as_deref().unwrap_or("?");
                write!(f, "  {:#010x} {:02x}/{} -> {:#010x} {name}", row.address, row.opcode, row.spec, row.function)?;
                match &row.extended {
                    Some(extended) => writeln!(f, " {extended}")?,
                    None => writeln!(f)?,
                }
            }
        }
        if !self.kernels.is_empty() {
            writeln!(f, "\nFunctions")?;
            for kernel in &self.kernels {
                writeln!(f, "  {:#010x} {}", kernel.start, kernel.name)?;
            }
        }
        if let Some(record) = &self.globstruct {
            writeln!(f, "\n.globstruct at {:#010x}: {}", record.address, record.hex)?;
        }
        notes(f, &self.notes)
    }
}

impl Display for FllReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "Fixed-load library for core {}, {} bytes, sha256 {}", self.core, self.size, self.sha256)?;
        writeln!(f, "  window {:#010x}, span {:#x}", self.window, self.span)?;
        header(f, &self.header, self.toolchain.as_deref())?;
        segments(f, &self.segments)?;
        sections(f, &self.sections)?;
        notes(f, &self.notes)
    }
}

impl Display for ObjectReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "Relocatable object, {} bytes", self.size)?;
        header(f, &self.header, self.toolchain.as_deref())?;
        sections(f, &self.sections)?;
        if !self.symbols.is_empty() {
            writeln!(f, "\nNames")?;
        }
        for symbol in &self.symbols {
            let weak = if symbol.weak { " weak" } else { "" };
            if symbol.defined {
                let (section, value, size) = (symbol.section, symbol.value, symbol.size);
                writeln!(f, "  {} in section {section} at {value:#x}, {size} bytes{weak}", symbol.name)?;
            } else {
                writeln!(f, "  {} undefined{weak}", symbol.name)?;
            }
        }
        if self.more_symbols > 0 {
            writeln!(f, "  and {} more", self.more_symbols)?;
        }
        let all = &self.relocations;
        writeln!(f, "\nRelocations: {} ({} ignorable by design, {} refused)", all.count, all.ignorable, all.refused)?;
        all.histogram.iter().try_for_each(|(name, count)| writeln!(f, "  {count:>6} {name}"))
    }
}

impl Display for ArchiveReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "Archive, {} members", self.members.len())?;
        for member in &self.members {
            writeln!(f, "\n{} ({} bytes at file offset {:#x})", member.name, member.size, member.offset)?;
            match (&member.report, &member.problem) {
                (Some(report), _) => report.fmt(f)?,
                (None, problem) => writeln!(f, "  {}", problem.as_deref().unwrap_or("not a device file"))?,
            }
        }
        Ok(())
    }
}

impl Display for UcplReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "Prelinked image (UCPL), {:#x} bytes, sha256 {}", self.size, self.sha256)?;
        writeln!(f, "  code at 0x20, {:#x} bytes, sha256 {}", self.code_seg_len, self.code_sha256)?;
        writeln!(f, "  data at {:#x}, {:#x} bytes, sha256 {}", self.data_seg_off, self.data_seg_len, self.data_sha256)?;
        writeln!(f, "  init {:#x}, fini {:#x}, start {:#x}", self.init, self.fini, self.start_sym)
    }
}
