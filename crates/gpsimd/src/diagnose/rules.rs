//! What is looked for, and what a finding of each kind means for the caller.

use std::fmt;
use std::str::FromStr;

/// A mistake that diagnosis notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Stores that were never made visible.
    MissingCleanup,
    /// An argument pulled as something else than it is.
    PullKind,
    /// Elements of a tensor accessed one by one on several cores.
    SharedAccessor,
    /// A result of several cores that is not written through `get_dst_tensor`.
    ResultView,
    /// Two cores at one byte, one of them writing.
    Race,
    /// Data memory outside of what was taken.
    TcmBounds,
    /// Memory for tensors outside of every tensor.
    TensorBounds,
    /// An address in HBM used as if the core could see it.
    Untranslated,
    /// An access across the end of a window.
    WindowEnd,
    /// Memory that was given back, or is left from the operation before.
    Freed,
    /// Bytes that nobody wrote.
    Unwritten,
    /// More stack than there is.
    StackOverflow,
    /// An element type that the device does not have.
    ElementType,
    /// A bundle of the vector unit.
    Flix,
}

impl Rule {
    /// All rules, by their codes.
    pub const ALL: [Self; 14] = [
        Self::MissingCleanup,
        Self::PullKind,
        Self::SharedAccessor,
        Self::ResultView,
        Self::Race,
        Self::TcmBounds,
        Self::TensorBounds,
        Self::Untranslated,
        Self::WindowEnd,
        Self::Freed,
        Self::Unwritten,
        Self::StackOverflow,
        Self::ElementType,
        Self::Flix,
    ];

    /// Its code: the page that `outboard explain` prints.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::MissingCleanup => "OB0820",
            Self::PullKind => "OB0821",
            Self::SharedAccessor => "OB0840",
            Self::ResultView => "OB0841",
            Self::Race => "OB0842",
            Self::TcmBounds => "OB0843",
            Self::TensorBounds => "OB0844",
            Self::Untranslated => "OB0845",
            Self::WindowEnd => "OB0846",
            Self::Freed => "OB0847",
            Self::Unwritten => "OB0848",
            Self::StackOverflow => "OB0849",
            Self::ElementType => "OB0850",
            Self::Flix => "OB0851",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A code that is no rule of the diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no code of the diagnosis; they are OB0820, OB0821 and OB0840 to OB0851")]
pub struct UnknownRule(String);

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        let found = Self::ALL.into_iter().find(|rule| rule.code().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

/// What becomes of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// It is not reported.
    Allow,
    /// It is reported.
    #[default]
    Report,
    /// It is reported as an error.
    Deny,
}

/// What is looked for in a run.
///
/// ```
/// use outboard_gpsimd::{Policy, Rule, Rules};
/// let rules = Rules::all().with(Rule::Race, Policy::Deny).with("OB0848".parse()?, Policy::Allow);
/// assert_eq!(rules.policy(Rule::Race), Policy::Deny);
/// assert!(rules.watching() && !Rules::default().watching());
/// # Ok::<(), outboard_gpsimd::UnknownRule>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    watching: bool,
    policies: [Policy; Rule::ALL.len()],
}

impl Rules {
    /// Everything, reported. The default looks only for what costs nothing: accesses to memory are not watched.
    #[must_use]
    pub fn all() -> Self {
        Self { watching: true, ..Self::default() }
    }

    /// The same with another policy for one rule.
    #[must_use]
    pub fn with(mut self, rule: Rule, policy: Policy) -> Self {
        if let Some(place) = self.policies.get_mut(rule.index()) {
            *place = policy;
        }
        self
    }

    /// What becomes of findings of a rule.
    #[must_use]
    pub fn policy(&self, rule: Rule) -> Policy {
        self.policies.get(rule.index()).copied().unwrap_or_default()
    }

    /// Whether accesses to memory are watched.
    #[must_use]
    pub fn watching(&self) -> bool {
        self.watching
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_code_of_its_own_that_reads_back() {
        for (index, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!((rule.index(), rule.code().parse()), (index, Ok(rule)));
        }
        assert!("OB0839".parse::<Rule>().unwrap_err().to_string().contains("`OB0839` is no code"));
    }
}
