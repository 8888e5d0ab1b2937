//! The rules of a custom operation's conformance: a stable code and a remedy for each.

use outboard_link::check::{Finding, Severity};

macro_rules! rules {
    ($($(#[doc = $text:literal])+ $name:ident = $code:literal, $fix:literal;)+) => {
        /// What a finding is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Rule { $($(#[doc = $text])+ $name,)+ }

        impl Rule {
            /// The page that `outboard explain` prints.
            pub(crate) const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            const fn fix(self) -> &'static str {
                match self { $(Self::$name => $fix,)+ }
            }
        }
    };
}

rules! {
    /// One of the three functions by which the device learns what there is does not exist.
    NoRegistration = "OB0860", "build it with `outboard op build`, which generates the three functions, or define them with C++ linkage";
    /// The number of functions is wrong.
    Count = "OB0861", "let get_func_cnt() return the number of functions that get_func_name() and get_func_ptr() know";
    /// A function's name is unusable.
    Name = "OB0862", "let get_func_name(i) return a text of 1 to 31 letters, digits and underscores, without a namespace";
    /// Two functions have one name.
    NameTwice = "OB0863", "give each function a name of its own";
    /// A function's address is unusable.
    Address = "OB0864", "let get_func_ptr(i) return the launcher of function i";
    /// The three functions contradict each other, themselves, or another core's.
    Inconsistent = "OB0865", "let get_func_name(i) and get_func_ptr(i) speak of the same function, whenever and wherever they are asked";
    /// A symbol that the runtime does not have.
    Undefined = "OB0866", "call routines of the device runtime only (docs/reference/gpsimd-runtime.md), or link what defines it";
    /// A symbol that is defined twice, or that belongs to the runtime.
    Duplicate = "OB0867", "rename one of the definitions, or make it static";
    /// The wrapper does not begin with the setup.
    Setup = "OB0868", "call customop_setup(true) first and once";
    /// The wrapper's pulls are not the schema's arguments.
    Pulls = "OB0869", "pull each argument once, in the order of the schema, with the routine of its type";
    /// No result is published.
    Result = "OB0870", "pass the result to customop_return_tensor(), or write it through get_dst_tensor()";
    /// The wrapper does not end with the cleanup.
    Cleanup = "OB0871", "call customop_cleanup() last";
    /// An element type that the device does not have.
    ElementType = "OB0872", "use kByte, kChar, kShort, kInt, kLong, kHalf, kBFloat16 or kFloat";
    /// A file for another machine.
    Target = "OB0873", "compile for little-endian 32-bit Xtensa, as `outboard op build` does";
    /// Code for another calling convention.
    CallingConvention = "OB0874", "compile with register windows and call8 (clang: -target-feature +windowed)";
    /// An instruction that the simulated core does not execute.
    Instruction = "OB0875", "compile with a compiler that emits scalar instructions, such as clang 22";
    /// The stack is too large, or too small for the code.
    Stack = "OB0876", "ask for at most 4 MiB with --stack-size, and for as much as the deepest call needs";
    /// The file of a core is missing or in the wrong place.
    CoreFile = "OB0877", "keep the files of all cores, _cpu0 to _cpu7, beside each other";
    /// The files of the cores are not one program.
    CoresDiffer = "OB0878", "link the same objects once for each core";
    /// The manifest and the library differ.
    Manifest = "OB0879", "build library and manifest together with `outboard op build`";
    /// A limit of the authors' guide or of the memory.
    Limit = "OB0880", "split the library or make it smaller";
    /// The parts do not make a library.
    Link = "OB0881", "correct what the linker names, and compile again";
    /// The library fails while it is entered.
    Entry = "OB0882", "correct the constructors of static objects, or what the registration functions do";
    /// What could not be judged.
    Unjudged = "OB0883", "run it with `outboard op run` on arguments that it takes";
    /// The operation fails on plain arguments.
    Fault = "OB0884", "check sizes and types of the arguments before use, and run it with `outboard op run`";
    /// A schema without an operation.
    Schema = "OB0885", "pass --schema for operations of the library, by their names";
    /// A file that is no sound object, archive, library or manifest.
    Damaged = "OB0886", "write or copy the file again";
}

/// Findings as they are collected: each once.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn error(&mut self, rule: Rule, place: impl Into<String>, message: impl Into<String>) {
        self.add(rule, Severity::Error, place.into(), message.into());
    }

    pub(crate) fn warning(&mut self, rule: Rule, place: impl Into<String>, message: impl Into<String>) {
        self.add(rule, Severity::Warning, place.into(), message.into());
    }

    /// A finding of another check, as it is.
    pub(crate) fn push(&mut self, finding: Finding) {
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn add(&mut self, rule: Rule, severity: Severity, place: String, message: String) {
        self.push(Finding { code: rule.code(), severity, place, message, fix: rule.fix().to_owned() });
    }

    /// Whether anything forbids to go on.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// All findings, errors first.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|finding| finding.severity);
        self.0
    }
}
