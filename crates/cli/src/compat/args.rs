//! The arguments, as `getopt_long` reads them: options anywhere, long names may be shortened while they stay unique.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

pub(super) const USAGE: &str = "\
Usage: c7x_compute COMMAND [ARGUMENTS] [OPTIONS]

Commands:
  ping                        ask the device for its version
  status                      show its job counters
  load FILE                   load a module and leave it loaded
  unload HANDLE               unload it
  model-load FILE             load a weights file
  model-unload ID             unload it
  infer HANDLE MODEL_ID       call a loaded module; 0 means the weights in the module
  run [FILE]                  load a module, call it, unload it
  profile [FILE]              the same, running it twice; profiles go to standard error
  session-run [FILE]          load a module, then take requests on standard input
  trace                       print the device's log until interrupted
  help                        show this

Options:
  -m, --module FILE           the module, when it is not an argument
  -i, --input FILE            input tensors, one after the other
  -o, --output FILE           where output tensors go, one after the other
  -s, --shape DIMS            shapes of the inputs, e.g. 1,3,224,224;1,10
  -d, --dtype TYPES           element types of the inputs, e.g. float32;int64
  -h, --help                  show this

OUTBOARD_DEVICE names the device: sim (the default), sim:PATH or rpmsg.
";

/// What the arguments say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) command: String,
    /// What follows the command, without the options.
    pub(super) operands: Vec<OsString>,
    pub(super) input: Option<PathBuf>,
    pub(super) output: Option<PathBuf>,
    pub(super) shape: Option<String>,
    pub(super) dtype: Option<String>,
    module: Option<PathBuf>,
}

impl Options {
    /// The module, named by the option or as an argument.
    pub(super) fn module(&self) -> Option<PathBuf> {
        self.module.clone().or_else(|| self.operands.first().map(PathBuf::from))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Help,
    Command(Options),
}

/// Long name and letter of the options; the last takes no value.
const OPTIONS: [(&str, char); 6] =
    [("input", 'i'), ("output", 'o'), ("shape", 's'), ("dtype", 'd'), ("module", 'm'), ("help", 'h')];

/// Reads the arguments, without the program's name.
///
/// # Errors
/// The text to print before the usage.
pub(super) fn parse(arguments: Vec<OsString>) -> Result<Parsed, String> {
    let mut options = Options::default();
    let mut operands = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let Some(text) = argument.to_str().filter(|text| text.starts_with('-') && text.len() > 1) else {
            operands.push(argument);
            continue;
        };
        if text == "--" {
            operands.extend(rest.by_ref());
            break;
        }
        let (letter, attached) = match text.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                (long_option(name)?, value.map(OsString::from))
            }
            None => {
                let mut characters = text.chars().skip(1);
                let letter = characters.next().unwrap_or('-');
                let value: String = characters.collect();
                (letter, (!value.is_empty()).then(|| value.into()))
            }
        };
        if letter == 'h' {
            return Ok(Parsed::Help);
        }
        if !OPTIONS.iter().any(|(_, known)| *known == letter) {
            return Err(format!("c7x_compute: invalid option -- '{letter}'\n"));
        }
        let value = attached.or_else(|| rest.next());
        let value = value.ok_or_else(|| format!("c7x_compute: option requires an argument -- '{letter}'\n"))?;
        options.set(letter, value)?;
    }
    let mut operands = operands.into_iter();
    let command = operands.next().ok_or_else(String::new)?;
    options.command = command.to_string_lossy().into_owned();
    options.operands = operands.collect();
    Ok(Parsed::Command(options))
}

/// The letter of a long option, which may be shortened.
fn long_option(name: &str) -> Result<char, String> {
    let matching: Vec<_> = OPTIONS.iter().filter(|(long, _)| !name.is_empty() && long.starts_with(name)).collect();
    match matching.as_slice() {
        [(_, letter)] => Ok(*letter),
        [] => Err(format!("c7x_compute: unrecognized option '--{name}'\n")),
        _ => Err(format!("c7x_compute: option '--{name}' is ambiguous\n")),
    }
}

impl Options {
    fn set(&mut self, letter: char, value: OsString) -> Result<(), String> {
        match letter {
            'i' => self.input = Some(value.into()),
            'o' => self.output = Some(value.into()),
            'm' => self.module = Some(value.into()),
            's' => self.shape = Some(text(&value)?),
            _ => self.dtype = Some(text(&value)?),
        }
        Ok(())
    }
}

fn text(value: &OsStr) -> Result<String, String> {
    value.to_str().map(str::to_owned).ok_or_else(|| format!("c7x_compute: {} is not UTF-8\n", value.display()))
}

/// A number as `strtoul` with base 0 reads it: 10, 0x0A or 012.
pub(super) fn number(operand: &OsStr) -> Option<u32> {
    let text = operand.to_str()?;
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let octal = text.strip_prefix('0').filter(|digits| !digits.is_empty());
    match (hex, octal) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) => u32::from_str_radix(digits, 8).ok(),
        (None, None) => text.parse().ok(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Options {
        match parse(line.split_whitespace().map(OsString::from).collect()) {
            Ok(Parsed::Command(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_may_stand_anywhere_and_in_every_spelling() {
        let expected = parsed("run --module m --input x --output y --shape 1,4 --dtype int8");
        for line in [
            "-m m -i x -o y -s 1,4 -d int8 run",
            "run -mm -ix -oy -s1,4 -dint8",
            "run --module=m --input=x --output=y --shape=1,4 --dtype=int8",
            "--mod m run --in x --out y --sh 1,4 --dt int8",
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }

    #[test]
    fn the_module_is_an_argument_or_an_option_wherever_the_options_are() {
        assert_eq!(parsed("run lib0.out --input x").module(), Some("lib0.out".into()));
        assert_eq!(parsed("--input x run lib0.out").module(), Some("lib0.out".into()));
        assert_eq!(parsed("run -m lib0.out -i x").module(), Some("lib0.out".into()));
        assert_eq!(parsed("run -i x").module(), None);
        assert_eq!(parsed("load -- -odd").operands, ["-odd"]);
    }

    #[test]
    fn what_getopt_refuses_is_refused() {
        for line in ["", "run --nope", "run -x", "run --input", "run --", "--=x"] {
            let refused = parse(line.split_whitespace().map(OsString::from).collect());
            assert!(refused.is_err() || line == "run --", "{line}: {refused:?}");
        }
        assert_eq!(parse(vec!["run".into(), "--help".into()]), Ok(Parsed::Help));
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, value) in [("10", Some(10)), ("0x1F", Some(31)), ("010", Some(8)), ("0", Some(0)), ("-1", None)] {
            assert_eq!(number(OsStr::new(text)), value, "{text}");
        }
    }
}
