//! Boards as data: `targets/*.toml` say where a board's regions lie for the DSP and for Linux.

use std::string::String;
use std::vec::Vec;

/// How the DSP caches a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Write-back, outer shareable.
    Cached,
    /// Normal memory, not cached.
    NonCached,
    /// Strongly ordered.
    Device,
}

/// A region of a board's memory map.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardRegion {
    /// Name for people.
    pub name: String,
    /// First address as the DSP sees it.
    pub dsp: u64,
    /// First address as Linux sees it; none for memory inside the DSP.
    pub physical: Option<u64>,
    /// Bytes.
    pub size: u64,
    /// Cache attribute.
    pub cache: Cache,
}

/// A board.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Short name, as `--board` takes it.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Device-tree name of the DSP.
    pub remoteproc: String,
    /// Its memory map.
    #[serde(rename = "region")]
    pub regions: Vec<BoardRegion>,
}

/// The files that describe boards.
const FILES: [&str; 2] =
    [include_str!("../../../../targets/am67a-evm.toml"), include_str!("../../../../targets/beagley-ai.toml")];

impl Board {
    /// The boards Outboard knows; the first is the default.
    pub fn all() -> Vec<Self> {
        FILES.iter().filter_map(|text| Self::parse(text).ok()).collect()
    }

    /// Reads a board's description.
    ///
    /// # Errors
    /// What is missing or wrong, with line and column.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The board of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|board| board.name == name)
    }

    /// Where Linux sees the start of the shared carveout.
    pub fn carveout_physical(&self) -> Option<u64> {
        self.regions.iter().find(|region| region.name == "shared carveout")?.physical
    }

    /// The region an address of the DSP lies in.
    pub fn region(&self, address: u64) -> Option<&BoardRegion> {
        self.regions.iter().find(|region| outboard_wire::in_range(address, 1, region.dsp, region.size))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::memory::MemoryMap;

    #[test]
    fn every_file_is_read_and_its_regions_do_not_overlap() {
        let boards = Board::all();
        assert_eq!(boards.iter().map(|board| board.name.as_str()).collect::<Vec<_>>(), ["am67a-evm", "beagley-ai"]);
        for board in boards {
            let mut spans: Vec<_> = board.regions.iter().map(|region| (region.dsp, region.size)).collect();
            spans.sort_unstable();
            assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{}", board.name);
        }
    }

    #[test]
    fn boards_differ_in_the_physical_base_of_the_carveout_only() {
        let [evm, beagley] = <[Board; 2]>::try_from(Board::all()).unwrap();
        let differing: Vec<_> = evm.regions.iter().zip(&beagley.regions).filter(|(a, b)| a != b).collect();
        assert_eq!(differing.len(), 1);
        let (a, b) = differing[0];
        assert_eq!((a.physical, b.physical), (Some(0x9_0000_0000), Some(0x8_A000_0000)));
        assert_eq!((a.dsp, a.size), (b.dsp, b.size));
    }

    #[test]
    fn the_simulated_device_maps_its_regions_where_the_boards_do() {
        for board in Board::all() {
            for (name, region) in MemoryMap::AM67A.mapped() {
                let found = board.regions.iter().find(|known| known.name == name).unwrap();
                assert_eq!((found.dsp, found.size), (region.base, region.size), "{name}");
            }
            assert_eq!(board.region(0xAD20_0010).unwrap().name, "boot vector");
            assert!(board.region(0x7E20_0000).is_none());
        }
    }
}
