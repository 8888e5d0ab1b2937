//! Reads slot tables: where the immediates of FLIX bundles lie. None are shipped, because none are known publicly.
//!
//! A table is a TOML file with one entry for each place of a 16-bit immediate:
//!
//! ```
//! let rows = outboard_ucode::slots::parse(r#"
//!     [[slot]]
//!     format = "N0"
//!     slot = 0
//!     mask = "0xf0"      # bits of the bundle that say what the slot holds
//!     bits = "0x40"      # their value
//!     immediate = [20, 21, 22, 23, 30, 31, 32, 33, 40, 41, 42, 43, 50, 51, 52, 53]   # lowest bit first
//! "#).unwrap();
//! assert_eq!(rows[0].insert(0, 1), 1 << 20);
//! ```

use outboard_link::pi::FlixSlot;

use crate::cores::BadTarget;

/// Reads a slot table.
///
/// # Errors
///
/// [`BadTarget`] names the entry and the field.
pub fn parse(text: &str) -> Result<Vec<FlixSlot>, BadTarget> {
    let file: toml::Table = text.parse().map_err(|error: toml::de::Error| BadTarget(error.to_string()))?;
    let rows = file.get("slot").and_then(toml::Value::as_array);
    let rows = rows.ok_or_else(|| BadTarget("a slot table needs [[slot]] entries".to_owned()))?;
    rows.iter().enumerate().map(|(index, row)| slot(index, row)).collect()
}

fn slot(index: usize, row: &toml::Value) -> Result<FlixSlot, BadTarget> {
    let wrong = |what: &str| BadTarget(format!("slot {index}: {what}"));
    let format = row.get("format").and_then(toml::Value::as_str).ok_or_else(|| wrong("`format` is missing"))?;
    let number = row.get("slot").and_then(toml::Value::as_integer).and_then(|slot| u8::try_from(slot).ok());
    let bits = |key: &str| {
        let text = row.get(key).and_then(toml::Value::as_str).and_then(|text| text.strip_prefix("0x"));
        let bits = text.and_then(|text| u128::from_str_radix(text, 16).ok());
        bits.ok_or_else(|| wrong(&format!("`{key}` must be a hexadecimal text such as \"0xf0\"")))
    };
    let immediate = row.get("immediate").and_then(toml::Value::as_array);
    let immediate: Option<Vec<u8>> =
        immediate.and_then(|list| list.iter().map(|bit| u8::try_from(bit.as_integer()?).ok()).collect());
    let immediate = immediate.and_then(|list| list.try_into().ok());
    let slot = FlixSlot {
        format: format.to_owned(),
        slot: number.ok_or_else(|| wrong("`slot` is missing or no slot number"))?,
        mask: bits("mask")?,
        bits: bits("bits")?,
        immediate: immediate.ok_or_else(|| wrong("`immediate` must list sixteen bundle bits, the lowest first"))?,
    };
    match slot.problem() {
        None => Ok(slot),
        Some(problem) => Err(wrong(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_entry_is_named_with_its_field() {
        let entry = |fields: &str| parse(&format!("[[slot]]\n{fields}")).unwrap_err().to_string();
        assert!(parse("").unwrap_err().to_string().contains("[[slot]]"));
        assert!(entry("slot = 0").contains("slot 0: `format`"));
        assert!(entry("format = \"N0\"").contains("`mask`") || entry("format = \"N0\"").contains("`slot`"));
        let fields = "format = \"N9\"\nslot = 0\nmask = \"0x0\"\nbits = \"0x0\"\n";
        assert!(entry(&format!("{fields}immediate = [1]")).contains("sixteen"));
        let all: Vec<String> = (20..36).map(|bit| bit.to_string()).collect();
        assert!(entry(&format!("{fields}immediate = [{}]", all.join(","))).contains("no such bundle format"));
    }
}
