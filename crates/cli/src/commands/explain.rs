//! `outboard explain CODE`: the page of an error code, offline.

use crate::report::{self, Failure};

/// Code and page, sorted by code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Explain an error code.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard explain OB0302
  outboard explain          lists the codes there are")]
pub(crate) struct Args {
    /// The code, as an error message shows it in brackets.
    code: Option<String>,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let Some(code) = &args.code else { return report::print(&list()) };
    let wanted = code.to_ascii_uppercase();
    let page = PAGES.iter().find(|(known, _)| *known == wanted || known.trim_start_matches("OB0") == wanted);
    match page {
        Some((_, text)) => report::print(text),
        None => Err(Failure::unknown_code(code)),
    }
}

fn list() -> String {
    let title = |text: &str| text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_owned();
    PAGES.iter().map(|(_, text)| title(text) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_begins_with_its_code_and_says_what_to_do() {
        for (code, text) in PAGES {
            assert!(text.starts_with(&format!("# {code}: ")), "{code}");
            assert!(text.contains("## What to do"), "{code}");
        }
    }

    #[test]
    fn p26_every_code_of_hosts_tensors_and_commands_has_a_page() {
        let own = (301..=339).chain(401..=405).chain(501..=509).map(|number| format!("OB{number:04}"));
        for code in own {
            assert!(PAGES.iter().any(|(known, _)| *known == code), "{code} has no page");
        }
    }
}
