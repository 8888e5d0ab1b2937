//! Questions to a library beside its dispatches: what a function returns, what is at an address.

use crate::error::Error;
use crate::library::run_on;
use crate::runtime::Runtime;

/// What a function that was asked did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It returned this.
    Returned(u32),
    /// The library has no function of that name, or its file no names.
    NoSuchFunction,
}

impl Runtime {
    /// Calls a function of the library that was entered last, on one core, with one number. The library may be one that
    /// [`Runtime::load`] refused after its entry had run, so that the reason can be looked for.
    ///
    /// # Errors
    /// The core fails, or uses up its instructions ([`Runtime::set_fuel`]).
    pub fn ask(&mut self, core: usize, function: &str, argument: u32) -> Result<Answer, Error> {
        let pool = &mut self.device.pool;
        let address = pool.cores.get(core).and_then(|core| core.symbols.find(function));
        let (Some(address), false) = (address, pool.entered.is_empty()) else { return Ok(Answer::NoSuchFunction) };
        let (dispatch, functions) = (pool.entered.clone(), vec![address; pool.cores.len()]);
        let answers = run_on(pool, 1 << core, &dispatch, &functions, argument)?;
        // A core that was called has returned or failed.
        Ok(answers.get(core).copied().flatten().map_or(Answer::NoSuchFunction, Answer::Returned))
    }

    /// The text with a zero behind it at an address that a core sees; `None` when it is longer than `longest` bytes, no UTF-8, or
    /// not in memory.
    pub fn text_at(&mut self, core: usize, address: u32, longest: usize) -> Option<String> {
        let core = self.device.pool.cores.get_mut(core)?;
        let mut text = Vec::new();
        for offset in 0..=longest {
            let mut byte = [0];
            core.memory().peek(address.wrapping_add(offset as u32), &mut byte).ok()?;
            match byte {
                [0] => return String::from_utf8(text).ok(),
                [other] => text.push(other),
            }
        }
        None
    }

    /// The name of the function that begins at an address, by the symbols of a core's file.
    pub fn function_at(&self, core: usize, address: u32) -> Option<&str> {
        self.device.pool.cores.get(core)?.symbols.names_at(address).next()
    }

    /// Whether the file of a core has a function with this linker name.
    pub fn has_function(&self, core: usize, name: &str) -> bool {
        self.device.pool.cores.get(core).is_some_and(|core| core.symbols.find(name).is_some())
    }

    /// Linker names of the functions of a core's file.
    pub fn function_names(&self, core: usize) -> impl Iterator<Item = &str> {
        self.device
            .pool
            .cores
            .get(core)
            .into_iter()
            .flat_map(|core| core.symbols.iter().map(|function| function.name.as_str()))
    }

    /// Whether the file of a core names its functions.
    pub fn has_names(&self, core: usize) -> bool {
        self.device.pool.cores.get(core).is_some_and(|core| core.symbols.iter().next().is_some())
    }
}
