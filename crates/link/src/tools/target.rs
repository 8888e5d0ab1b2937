//! Boards as data (`targets/*.toml`): where modules are staged, pools, windows.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use toml::{Table, Value};

/// A range of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Region {
    /// Device address.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
}

/// What a module needs to know about a board.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Target {
    /// Short name.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Where files are staged.
    pub staging: Region,
    /// Pools by name: `MAIN` and `FAST`.
    pub pools: BTreeMap<String, Region>,
    /// Room for the input and output buffers together.
    pub window: Region,
}

/// A target file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not TOML.
    #[error("the target file is not valid TOML: {0}")]
    Syntax(String),
    /// A key is missing or has another type.
    #[error("the target file has no usable {key}: expected {expected}")]
    Key {
        /// The key, with its table.
        key: String,
        /// What it must be.
        expected: &'static str,
    },
}

impl Target {
    /// The board that the C7x service was written for.
    ///
    /// ```
    /// let board = outboard_link::target::Target::am67a();
    /// assert_eq!(board.staging.address, 0xc000_0000);
    /// assert_eq!(board.pools["MAIN"].size, 352 << 20);
    /// ```
    #[must_use]
    pub fn am67a() -> Self {
        // The file is part of this program; the test below reads every key of it.
        Self::parse(include_str!("../../../../targets/am67a.toml")).unwrap_or_else(|_| Self::empty())
    }

    fn empty() -> Self {
        let none = Region { address: 0, size: 0 };
        Self { name: String::new(), description: String::new(), staging: none, pools: BTreeMap::new(), window: none }
    }

    /// Reads a target file.
    ///
    /// # Errors
    ///
    /// [`TargetError`] naming the key.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| TargetError::Syntax(error.to_string()))?;
        let pools = sub_table(&table, "pools")?;
        Ok(Self {
            name: string(&table, "name")?,
            description: string(&table, "description")?,
            staging: region(&table, "staging")?,
            pools: pools.keys().map(|name| Ok((name.clone(), region(pools, name)?))).collect::<Result<_, _>>()?,
            window: region(&table, "window")?,
        })
    }

    /// A pool by name; of size 0 when the board has none.
    #[must_use]
    pub fn pool(&self, name: &str) -> Region {
        self.pools.get(name).copied().unwrap_or(Region { address: 0, size: 0 })
    }
}

fn missing(key: &str, expected: &'static str) -> TargetError {
    TargetError::Key { key: key.to_string(), expected }
}

fn sub_table<'t>(table: &'t Table, key: &str) -> Result<&'t Table, TargetError> {
    table.get(key).and_then(Value::as_table).ok_or_else(|| missing(key, "a table"))
}

fn string(table: &Table, key: &str) -> Result<String, TargetError> {
    table.get(key).and_then(Value::as_str).map(String::from).ok_or_else(|| missing(key, "a string"))
}

fn region(table: &Table, key: &str) -> Result<Region, TargetError> {
    let inner = sub_table(table, key)?;
    let number = |name: &str| {
        let value = inner.get(name).and_then(Value::as_integer).and_then(|value| u64::try_from(value).ok());
        value.ok_or_else(|| missing(&alloc::format!("{key}.{name}"), "a number that is not negative"))
    };
    Ok(Region { address: number("address")?, size: number("size")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_board_is_read_whole() {
        let board = Target::parse(include_str!("../../../../targets/am67a.toml")).unwrap();
        assert_eq!(board.name, "am67a");
        assert_eq!(board.staging.size, 490_733_568);
        assert_eq!(board.pool("MAIN"), Region { address: 0x1_0200_0000, size: 369_098_752 });
        assert_eq!(board.pool("FAST").size, 128 << 10);
        assert_eq!(board.window.size, 33_488_896);
        assert_eq!(board.pool("NONE").size, 0);
    }

    #[test]
    fn a_faulty_target_file_names_its_key() {
        assert!(matches!(Target::parse("name = "), Err(TargetError::Syntax(_))));
        let error = Target::parse("name = 'x'\n[pools]\n[staging]\naddress = -1\nsize = 1").unwrap_err();
        assert!(error.to_string().contains("description"), "{error}");
        let error =
            Target::parse("name = 'x'\ndescription = 'y'\n[pools]\n[staging]\naddress = -1\nsize = 1").unwrap_err();
        assert!(error.to_string().contains("staging.address"), "{error}");
    }
}
