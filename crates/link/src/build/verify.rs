//! Phase *verify*: reads the finished sections again. Every place that was written must refer to its target, decoded from
//! the bytes; every other byte must be as in the input.

use alloc::boxed::Box;

use super::place::Placement;
use super::program::Program;
use super::relocate::{Relocated, usize_of};
use super::{BuildError, BuildErrors, Site};

/// Verifies the sections of an image.
pub(super) fn verify(program: &Program<'_>, placement: &Placement, relocated: &Relocated) -> Result<(), BuildErrors> {
    let mut sites = relocated.sites.iter().peekable();
    for (index, (output, data)) in placement.outputs.iter().zip(&relocated.data).enumerate() {
        let mut covered = 0;
        for id in &output.inputs {
            let section = program.section(*id);
            let Some((_, address)) = placement.addresses.get(id.0).copied().flatten() else { continue };
            if section.zeros() {
                continue;
            }
            let fault = |offset: u32, problem| BuildError::Verify { at: program.location(*id, offset), problem };
            let start = usize_of(address - output.address);
            let end = start + section.data.len();
            let (Some(found), Some(gap)) = (data.get(start..end), data.get(covered..start)) else {
                return Err(fault(0, "the section is not where it was placed").into());
            };
            if gap.iter().any(|byte| *byte != 0) {
                return Err(fault(0, "the bytes before the section are not zero").into());
            }
            let mut expected = section.data.to_vec();
            let mut actual = found.to_vec();
            while let Some(site) = sites.next_if(|site| site.section == index && usize_of(site.offset) < end) {
                let offset = site.offset.wrapping_sub(address - output.address);
                check(site, offset, &mut expected, &mut actual).map_err(|problem| fault(offset, problem))?;
            }
            if let Some(offset) = expected.iter().zip(&actual).position(|(expected, actual)| expected != actual) {
                let offset = u32::try_from(offset).unwrap_or(u32::MAX);
                return Err(fault(offset, "a byte that no relocation writes has changed").into());
            }
            covered = end;
        }
    }
    match sites.next() {
        None => Ok(()),
        Some(site) => {
            let at = Box::new(super::Location {
                file: Default::default(),
                section: Default::default(),
                offset: site.offset,
                symbol: None,
            });
            Err(BuildError::Verify { at, problem: "a relocation lies in no section" }.into())
        }
    }
}

/// The place refers to its target; its field is cleared in both copies, so that the rest can be compared.
fn check(site: &Site, offset: u32, expected: &mut [u8], actual: &mut [u8]) -> Result<(), &'static str> {
    let range = usize_of(offset)..usize_of(offset) + usize_of(site.patch.length());
    let outside = "a relocation lies outside of its section";
    let (Some(before), Some(after)) = (expected.get_mut(range.clone()), actual.get_mut(range)) else {
        return Err(outside);
    };
    if !site.patch.refers(after, site.place, site.target) {
        return Err("a place does not refer to its target");
    }
    site.patch.clear(before);
    site.patch.clear(after);
    Ok(())
}
