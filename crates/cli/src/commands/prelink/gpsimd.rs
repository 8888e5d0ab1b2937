//! The part of `outboard prelink` that prepares GPSIMD images.

use super::super::{Staged, read_file};
use crate::report::{self, Failure};
use outboard_link::pi::{AlignReading, Mode, PrelinkRequest, ll, prelink};
use outboard_ucode::report::PrelinkReport;
use outboard_ucode::{cores, slots};
use std::io::Write;
use std::path::PathBuf;

/// What only GPSIMD images need.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "GPSIMD")]
pub(super) struct GpsimdOptions {
    /// The core, by name (sunda, cayman, mariana, mariana-plus, maverick) or number [default: cayman].
    #[arg(long, value_name = "KIND")]
    core_kind: Option<String>,

    /// Write what the original writes where it cannot be right, with a warning, instead of refusing it.
    #[arg(long)]
    compatible: bool,

    /// Where the alignment of the segments comes from [default: auto].
    #[arg(long, value_name = "auto|sections|segments|BYTES", value_parser = align)]
    align: Option<AlignReading>,

    /// A slot table: where the immediates of FLIX bundles lie.
    #[arg(long, value_name = "FILE")]
    flix: Option<PathBuf>,
}

impl GpsimdOptions {
    /// The first of these options that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--core-kind", self.core_kind.is_some()),
            ("--compatible", self.compatible),
            ("--align", self.align.is_some()),
            ("--flix", self.flix.is_some()),
        ];
        options.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

fn align(text: &str) -> Result<AlignReading, String> {
    match text {
        "auto" => Ok(AlignReading::Auto),
        "sections" => Ok(AlignReading::Sections),
        "segments" => Ok(AlignReading::Segments),
        number => {
            let bytes = super::super::address(number).ok().and_then(|bytes| u32::try_from(bytes).ok());
            bytes.map(AlignReading::Fixed).ok_or_else(|| "expected auto, sections, segments or a number".to_owned())
        }
    }
}

pub(super) fn execute(args: &super::Args, file: &[u8]) -> Result<(), Failure> {
    let options = &args.gpsimd;
    let core = cores::find(options.core_kind.as_deref().unwrap_or("cayman"));
    let core = core.map_err(|error| Failure::usage(error.to_string(), "name one of these"))?;
    if ll::gate(core.kind) == Some(ll::Gate::Register) {
        report::say("note: the original registers libraries of this core as they are and prelinks none");
    }
    let flix = match &options.flix {
        None => Vec::new(),
        Some(path) => {
            let text = String::from_utf8_lossy(&read_file(path)?).into_owned();
            slots::parse(&text).map_err(|error| Failure::bad_file(path, &error))?
        }
    };
    let mode = if options.compatible { Mode::Compatible } else { Mode::Strict };
    let request = PrelinkRequest {
        mode,
        align: options.align.unwrap_or_default(),
        flix: &flix,
        ..PrelinkRequest::new(file, &core.bounds)
    };
    let image = prelink(&request);
    if let (Ok(image), Some(path)) = (&image, &args.output) {
        let mut staged = Staged::create(path)?;
        staged.file().write_all(&image.image()).map_err(|error| Failure::unwritable(path, &error))?;
        staged.finish()?;
        report::say(&format!("wrote the staged image of {:#x} bytes to {}", image.staged_size(), path.display()));
    }
    let page = image.as_ref().map_or_else(PrelinkReport::error, PrelinkReport::ok);
    if args.json {
        report::result(&serde_json::to_value(&page).map_err(|error| Failure::internal(&error))?)?;
    }
    match image {
        Err(error) => {
            let name = args.file.display();
            let message = format!("{name}: {} ({}): {error}", error.name(), error.code());
            Err(Failure::refused(error.explain(), "prelink", message).told())
        }
        Ok(_) if args.json => Ok(()),
        Ok(_) => report::print(&page.to_string()),
    }
}
