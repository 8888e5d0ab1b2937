//! What a device offers to modules, asked by messages: it loads a probe exactly when it has every name the probe imports.

use super::Session;
use crate::Error;

/// Name of probes in reports.
const PROBE: &str = "the probe of exports";

impl Session {
    /// Those of `candidates` that the device offers to modules, in their order. There is no message that lists them: probes are loaded and
    /// unloaded, one when all are there, some for each that is not. `probe` makes a module that imports the names it is given and does
    /// nothing (`outboard_link::export_sets::probe_module`).
    ///
    /// # Errors
    /// The device fails in another way than by refusing a probe.
    pub fn exports<'n>(
        &mut self,
        candidates: &[&'n str],
        probe: impl Fn(&[&str]) -> Vec<u8>,
    ) -> Result<Vec<&'n str>, Error> {
        let mut found = Vec::with_capacity(candidates.len());
        self.halve(&probe, candidates, &mut found)?;
        Ok(found)
    }

    fn halve<'n>(
        &mut self,
        probe: &dyn Fn(&[&str]) -> Vec<u8>,
        names: &[&'n str],
        found: &mut Vec<&'n str>,
    ) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        match self.load(&probe(names), PROBE) {
            Ok(module) => {
                found.extend_from_slice(names);
                self.unload(module)
            }
            Err(Error::LoadFailed { .. }) if names.len() == 1 => Ok(()),
            Err(Error::LoadFailed { .. }) => {
                let (first, second) = names.split_at(names.len() / 2);
                self.halve(probe, first, found)?;
                self.halve(probe, second, found)
            }
            Err(other) => Err(other),
        }
    }
}
