//! What the device does when module code faults: leave a record for the host, then die of the signal.
//!
//! The handler runs on its own stack and only reads memory, stores into the control object and wakes the host.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use outboard_link::LoadedModule;
use outboard_shm::{CrashRecord, Port};

const SIGNALS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];
/// Where the kernel puts the number of a refused system call in a `siginfo_t`, in 32-bit words.
const SIGSYS_CALL_WORD: usize = 6;
const STACK_BYTES: usize = 64 * 1024;
/// How far up the stack a caller inside the module is looked for, in words.
const SCAN_WORDS: usize = 512;

static PORT: AtomicPtr<Port> = AtomicPtr::new(core::ptr::null_mut());
static MODULE: AtomicPtr<LoadedModule<'static>> = AtomicPtr::new(core::ptr::null_mut());
static HANDLE: AtomicU32 = AtomicU32::new(0);
static LAST_MESSAGE: AtomicU32 = AtomicU32::new(0);
static STACK_TOP: AtomicUsize = AtomicUsize::new(0);

/// Remembers the code of the message being handled.
pub(super) fn note_message(code: u32) {
    LAST_MESSAGE.store(code, Ordering::Relaxed);
}

/// While this lives, a crash is attributed to a module.
pub(super) struct Blame<'a>(core::marker::PhantomData<&'a LoadedModule<'static>>);

/// Attributes crashes to `module` until the returned value is dropped.
pub(super) fn blame<'a>(handle: u32, module: &'a LoadedModule<'static>) -> Blame<'a> {
    let marker = 0usize;
    STACK_TOP.store((&raw const marker).addr(), Ordering::Relaxed);
    HANDLE.store(handle, Ordering::Relaxed);
    MODULE.store(core::ptr::from_ref(module).cast_mut(), Ordering::Release);
    Blame(core::marker::PhantomData)
}

impl Drop for Blame<'_> {
    fn drop(&mut self) {
        MODULE.store(core::ptr::null_mut(), Ordering::Release);
        HANDLE.store(0, Ordering::Relaxed);
    }
}

/// Installs the handlers. `port` stays in use until the process ends.
///
/// # Errors
/// The system refuses a handler or its stack.
pub(super) fn install(port: &'static Port) -> std::io::Result<()> {
    PORT.store(core::ptr::from_ref(port).cast_mut(), Ordering::Release);
    let stack = std::boxed::Box::leak(std::vec![0u8; STACK_BYTES].into_boxed_slice());
    let alternate = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack was leaked, so it outlives every signal.
    if unsafe { libc::sigaltstack(&raw const alternate, core::ptr::null_mut()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    for signal in SIGNALS {
        // SAFETY: all-zero is a valid sigaction; the handler has the signature that SA_SIGINFO asks for.
        let failed = unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = (handler as *const ()).expose_provenance();
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, core::ptr::null_mut()) != 0
        };
        if failed {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Program counter and stack pointer of the interrupted code.
///
/// # Safety
/// `context` is what the kernel passed to a handler.
#[cfg(target_arch = "x86_64")]
unsafe fn registers(context: *mut libc::c_void) -> (u64, usize) {
    // SAFETY: promised by the caller.
    let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let register = |index: i32| usize::try_from(index).map_or(0, |index| registers[index].cast_unsigned());
    (register(libc::REG_RIP), usize::try_from(register(libc::REG_RSP)).unwrap_or(0))
}

/// Program counter and stack pointer of the interrupted code.
///
/// # Safety
/// `context` is what the kernel passed to a handler.
#[cfg(target_arch = "aarch64")]
unsafe fn registers(context: *mut libc::c_void) -> (u64, usize) {
    // SAFETY: promised by the caller.
    let machine = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    (machine.pc, usize::try_from(machine.sp).unwrap_or(0))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn registers(_context: *mut libc::c_void) -> (u64, usize) {
    (0, 0)
}

fn contains(module: &LoadedModule<'static>, address: u64) -> bool {
    module
        .segments()
        .iter()
        .any(|segment| segment.perms.x && outboard_wire::in_range(address, 1, segment.base, segment.memsz))
}

/// The pc when it lies in the module, else the innermost return address into the module: the call that went wrong.
///
/// # Safety
/// The stack between `stack` and the mark left by `blame` is this thread's.
unsafe fn place_in(module: &LoadedModule<'static>, pc: u64, stack: usize) -> Option<u64> {
    if contains(module, pc) {
        return Some(pc);
    }
    let top = STACK_TOP.load(Ordering::Relaxed);
    let words = top.saturating_sub(stack) / size_of::<u64>();
    if !stack.is_multiple_of(size_of::<u64>()) {
        return None;
    }
    let stack = core::ptr::with_exposed_provenance::<u64>(stack);
    (0..words.min(SCAN_WORDS))
        // SAFETY: between the interrupted stack pointer and the mark of a frame that is still live.
        .map(|index| unsafe { stack.add(index).read_volatile() })
        // A return address stands behind its call, which may be the last instruction of the module.
        .map(|word| word.wrapping_sub(1))
        .find(|call| contains(module, *call))
}

unsafe extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: called by the kernel with a valid context.
    let (pc, stack) = unsafe { registers(context) };
    let has_address = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE].contains(&signal);
    // SAFETY: called by the kernel with a valid info; the address field is meaningful for these signals.
    let (code, fault) = unsafe {
        let code =
            if signal == libc::SIGSYS { info.cast::<i32>().add(SIGSYS_CALL_WORD).read() } else { (*info).si_code };
        (code, if has_address { (*info).si_addr().addr() as u64 } else { 0 })
    };
    // SAFETY: set once, to a port that is never dropped.
    if let Some(port) = unsafe { PORT.load(Ordering::Acquire).as_ref() } {
        // SAFETY: `blame` keeps the module alive while its code runs, and the signal interrupted that code.
        let module = unsafe { MODULE.load(Ordering::Acquire).as_ref() };
        // SAFETY: the handler runs on the alternate stack of the thread that left the mark.
        let place = module.and_then(|module| Some((module, unsafe { place_in(module, pc, stack) }?)));
        let symbol = place.and_then(|(module, at)| module.nearest_symbol(at));
        let record = CrashRecord {
            signal: signal.cast_unsigned(),
            code: code.cast_unsigned(),
            fault_address: fault,
            pc,
            module_handle: HANDLE.load(Ordering::Relaxed),
            last_message: LAST_MESSAGE.load(Ordering::Relaxed),
            symbol: std::string::String::new(),
            offset: symbol.map_or(0, |(_, offset)| offset),
        };
        port.record_crash(&record, symbol.map_or(b"".as_slice(), |(name, _)| name.as_bytes()));
    }
    // SA_RESETHAND has restored the default action: raising the signal again ends the process with it.
    // SAFETY: `raise` is async-signal-safe.
    unsafe { libc::raise(signal) };
}
