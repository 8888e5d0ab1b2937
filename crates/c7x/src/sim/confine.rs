//! Confinement of the device process: no files, no network, no new processes.
//!
//! Module code is trusted with the device, not with the host. After set-up the process needs little more than memory and
//! futexes, so everything else is taken away: landlock removes the file system and TCP, seccomp every system call that is not
//! on the list. A refused call ends the device with `SIGSYS`, and the crash record names the call.

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;

/// Standard error: the one stream the process keeps.
const STDERR: u64 = 2;

/// What is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Confinement {
    /// Files and TCP are out of reach.
    pub landlock: bool,
    /// System calls are on a list.
    pub seccomp: bool,
}

/// Confines this process for good.
///
/// A kernel without landlock leaves files to seccomp, which refuses to open any.
///
/// # Errors
/// The system refuses the filter.
pub(super) fn confine() -> Result<Confinement, String> {
    let landlock = drop_files().map_err(|error| error.to_string())?;
    let program = filter().map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    Ok(Confinement { landlock, seccomp: true })
}

/// Takes the file system and TCP away, as far as the kernel can.
fn drop_files() -> Result<bool, landlock::RulesetError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V5))?
        .create()?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// The system calls a device needs after set-up.
const ALLOWED: &[i64] = &[
    // memory
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    // waiting and time
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // its own signals and end
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // seeds of hash tables, closing what it has
    libc::SYS_getrandom,
    libc::SYS_close,
];

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let argument = |index, value| SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    rules.insert(libc::SYS_write, std::vec![SeccompRule::new(std::vec![argument(0, STDERR)?])?]);
    // Debug builds ask whether a descriptor is open before they close it.
    let get_flags = argument(1, u64::from(libc::F_GETFD.cast_unsigned()));
    rules.insert(libc::SYS_fcntl, std::vec![SeccompRule::new(std::vec![get_flags?])?]);
    // `raise` and `abort`: to itself only.
    let this = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, std::vec![SeccompRule::new(std::vec![argument(0, this)?])?]);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, architecture)?.try_into()
}
