//! Unloading a module: five steps whose order keeps everything valid until its last use.
//!
//! The register file lies in the module's own data and holds objects whose memory the run allocated; the model slot refers to the
//! constants; the module's own cleanup needs all of it. Leaving a step out or moving it is a bug that shows later and elsewhere,
//! so the order is data, and tests run every wrong one.

use super::Service;
use crate::loader;
use crate::platform::Platform;
use crate::pool::Owner;
use crate::runtime::Runtime;
use alloc::format;

/// A step of unloading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnloadStep {
    /// The module's own cleanup: `tidl_bridge_cleanup`, then its finalisers.
    Module,
    /// What the register file holds, then what the last run allocated.
    Registers,
    /// The model slot of the embedded weights.
    ModelSlot,
    /// The constants of the embedded weights.
    Constants,
    /// The image, and whatever else the module allocated.
    Image,
}

impl UnloadStep {
    /// The order in which the steps must be taken.
    pub const ORDER: [Self; 5] = [Self::Module, Self::Registers, Self::ModelSlot, Self::Constants, Self::Image];
}

impl<P: Platform> Service<P> {
    /// Takes the steps of an unload in another order, or leaves some out: for tests that show what goes wrong then.
    #[doc(hidden)]
    pub fn unload_in_order(&mut self, steps: &[UnloadStep]) {
        self.unload_order = steps.to_vec();
    }

    /// Unloads a module; `false` when there is none with this handle.
    pub(super) fn unload(&mut self, handle: u32) -> bool {
        if !self.modules.contains_key(&handle) {
            return false;
        }
        for step in self.unload_order.clone() {
            match step {
                UnloadStep::Module => self.run_cleanup(handle),
                UnloadStep::Registers => self.drop_registers(handle),
                UnloadStep::ModelSlot => self.drop_slot(handle),
                UnloadStep::Constants => {
                    self.runtime.borrow_mut().release_owner(Owner::Constants(handle));
                    self.platform.trace(format_args!("[COMPUTE] unload {handle}: constants released"));
                }
                UnloadStep::Image => self.drop_image(handle),
            }
        }
        self.platform.trace(format_args!("[DLOAD] Unloaded module handle={handle}"));
        true
    }

    pub(super) fn unload_all(&mut self) {
        while let Some(handle) = self.modules.keys().next().copied() {
            self.unload(handle);
            self.modules.remove(&handle);
        }
        while let Some((id, _)) = self.models.pop_first() {
            self.runtime.borrow_mut().release_owner(Owner::Model(id));
        }
    }

    fn run_cleanup(&mut self, handle: u32) {
        let Some(module) = self.modules.get(&handle) else { return };
        if module.image.machine() != self.platform.machine() {
            return;
        }
        let cleanup = module.image.symbol(loader::TIDL_CLEANUP);
        for function in cleanup.iter().chain(module.image.finalisers()) {
            let _active = Runtime::activate(&self.runtime, handle);
            self.platform.call_void(handle, &module.image, *function);
        }
        if cleanup.is_some() {
            self.platform.trace(format_args!("[COMPUTE] unload {handle}: {} called", loader::TIDL_CLEANUP));
        }
    }

    fn drop_registers(&mut self, handle: u32) {
        if !self.runtime.borrow().registers_live(handle) {
            self.explain(&format!("ERROR: unload {handle}: the register file lies in memory that was freed already"));
        }
        self.reclaim(handle);
        self.platform.trace(format_args!("[COMPUTE] unload {handle}: registers cleaned"));
    }

    fn drop_slot(&mut self, handle: u32) {
        if self.embedded.remove(&handle).is_some() {
            self.platform.trace(format_args!("[COMPUTE] unload {handle}: model slot freed"));
        }
    }

    fn drop_image(&mut self, handle: u32) {
        let Some(module) = self.modules.remove(&handle) else { return };
        if module.image.machine() == self.platform.machine() {
            self.platform.unseal(&module.image);
        }
        let left = self.runtime.borrow().owned_by(Owner::Driver(handle));
        if left > 0 {
            self.explain(&format!(
                "ERROR: unload {handle}: {left} bytes of driver memory (appMemAlloc) were not given back; does the module export {}?",
                loader::TIDL_CLEANUP
            ));
        }
        self.runtime.borrow_mut().drop_symbols(handle);
        loader::release(&self.runtime, handle, module.image);
        self.runtime.borrow_mut().release_owner(Owner::Driver(handle));
        self.platform.trace(format_args!("[COMPUTE] unload {handle}: image released"));
    }
}
