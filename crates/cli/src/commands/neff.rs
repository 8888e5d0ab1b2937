//! `outboard neff`: pack, unpack, verify and list NEFF containers.

use super::{Staged, read_file};
use crate::report::{self, Failure};
use outboard_neff::{
    Neff, NeffError, PackOptions, Packager, RuntimeVersion, VerifyReport, check_target, directory_members, pack,
    unpack, verify,
};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Pack, unpack, verify and list NEFF containers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard neff ls model.neff
  outboard neff verify model.neff --json
  outboard neff unpack model.neff -o model
  outboard neff pack model -o again.neff --name model

`outboard inspect model.neff` shows graphs, variables, libraries and trace hints.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Pack the files of a folder.
    Pack(PackArgs),
    /// Write the members into a folder.
    Unpack(UnpackArgs),
    /// Check header, hash, archive and manifests, and that every named member is there and what its name says.
    Verify(VerifyArgs),
    /// List the members.
    Ls(LsArgs),
}

#[derive(Debug, clap::Args)]
struct PackArgs {
    /// The folder; its files become the members.
    folder: PathBuf,
    /// The container.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Do not compress; the hash is SHA-256 instead of MD5.
    #[arg(long)]
    raw: bool,
    /// Name of the model.
    #[arg(long, default_value = "model")]
    name: String,
    /// Identity of the model.
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Version of the format.
    #[arg(long, value_name = "MAJOR.MINOR", value_parser = version)]
    format: Option<(u64, u64)>,
    /// Version of the compiler.
    #[arg(long, value_name = "TEXT")]
    build_version: Option<String>,
    /// Feature bits beside that of custom operations, which is set when a library is packed.
    #[arg(long, value_name = "BITS", value_parser = super::address)]
    features: Option<u64>,
    /// Print JSON on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct UnpackArgs {
    /// The container.
    file: PathBuf,
    /// The folder, which is created; files in it are never overwritten.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Also write members of kinds that no reader needs.
    #[arg(long)]
    all: bool,
    /// Print JSON on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// The container.
    file: PathBuf,
    /// Major version of the runtime that libraries must match.
    #[arg(long, value_name = "N", default_value_t = RuntimeVersion::default().major)]
    runtime: u64,
    /// Generation of the device that the model must be for.
    #[arg(long, value_name = "NAME")]
    generation: Option<String>,
    /// Accept models for other generations, as NEURON_RT_ALLOW_LEGACY_NEFF=1 does.
    #[arg(long)]
    allow_legacy: bool,
    /// Print JSON on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    /// The container.
    file: PathBuf,
    /// Print JSON on standard output.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.action {
            Action::Pack(args) => args.json,
            Action::Unpack(args) => args.json,
            Action::Verify(args) => args.json,
            Action::Ls(args) => args.json,
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Pack(args) => pack_folder(args),
        Action::Unpack(args) => unpack_file(args),
        Action::Verify(args) => verify_file(args),
        Action::Ls(args) => list(args),
    }
}

/// Thirty-two hexadecimal digits, with or without dashes.
fn uuid(text: &str) -> Result<[u8; 16], String> {
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let value = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    value.map(u128::to_be_bytes).ok_or_else(|| "expected 32 hexadecimal digits, with or without dashes".to_owned())
}

fn version(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| "write it as 2.0".to_owned())
}

/// What is wrong with a container, with the original's result number.
fn refused(file: &Path, error: &NeffError) -> Failure {
    let message = format!("{}: {error} ({}, {})", file.display(), error.name(), error.code());
    let failure = Failure::refused(error.explain(), "neff", message);
    failure.with("result", json!(error.code())).with("result_name", json!(error.name()))
}

fn pack_folder(args: &PackArgs) -> Result<(), Failure> {
    let defaults = PackOptions::default();
    let options = PackOptions {
        packager: if args.raw { Packager::Raw } else { Packager::Gzip },
        name: args.name.clone(),
        uuid: args.uuid.unwrap_or(defaults.uuid),
        version: args.format.unwrap_or(defaults.version),
        build_version: args.build_version.clone().unwrap_or(defaults.build_version),
        feature_bits: args.features.unwrap_or(defaults.feature_bits),
        ..defaults
    };
    let members = directory_members(&args.folder).map_err(|error| match error {
        NeffError::Io { error, .. } => Failure::unreadable(&args.folder, &error),
        error => refused(&args.folder, &error),
    })?;
    let file = pack(&members, &options).map_err(|error| refused(&args.folder, &error))?;
    let mut staged = Staged::create(&args.output)?;
    staged.file().write_all(&file).map_err(|error| Failure::unwritable(&args.output, &error))?;
    staged.finish()?;
    if args.json {
        return report::result(
            &json!({"status": "ok", "file": args.output, "size": file.len(), "members": members.len()}),
        );
    }
    report::say(&format!("packed {} members, {} bytes, into {}", members.len(), file.len(), args.output.display()));
    Ok(())
}

fn unpack_file(args: &UnpackArgs) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    let neff = Neff::parse(&file).map_err(|error| refused(&args.file, &error))?;
    let unpacked = unpack(&neff, &args.output, args.all).map_err(|error| match error {
        NeffError::Io { path, error } => Failure::unwritable(Path::new(&path), &error),
        error => refused(&args.file, &error),
    })?;
    if args.json {
        let mut page = serde_json::to_value(&unpacked).map_err(|error| Failure::internal(&error))?;
        page["status"] = json!("ok");
        return report::result(&page);
    }
    for name in &unpacked.left_out {
        report::say(&format!("left out {name}: no reader needs it (--all writes it)"));
    }
    report::print(&unpacked.files.iter().map(|name| format!("{name}\n")).collect::<String>())
}

fn verify_file(args: &VerifyArgs) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    let runtime = RuntimeVersion { major: args.runtime };
    let judged = verify(&file, runtime).and_then(|judged| {
        if let Some(generation) = &args.generation {
            check_target(judged.target.as_deref(), generation, args.allow_legacy)?;
        }
        Ok(judged)
    });
    let page = judged.as_ref().map_or_else(VerifyReport::error, Clone::clone);
    if args.json {
        report::result(&serde_json::to_value(&page).map_err(|error| Failure::internal(&error))?)?;
    }
    match judged {
        Err(error) => Err(refused(&args.file, &error).told()),
        Ok(_) if args.json => Ok(()),
        Ok(_) => report::print(&page.to_string()),
    }
}

fn list(args: &LsArgs) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    let listing = Neff::parse(&file).and_then(|neff| neff.list()).map_err(|error| refused(&args.file, &error))?;
    if args.json {
        return report::result(
            &json!({"status": "ok", "file": args.file, "inflated": listing.inflated, "members": listing.members}),
        );
    }
    let lines = listing.members.iter().map(|member| format!("{:>12} {}\n", member.size, member.name));
    report::print(&lines.collect::<String>())
}
