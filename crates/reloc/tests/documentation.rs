//! The reference page has exactly the rows that the tables have.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use outboard_reloc::{Expr, Range, Row, Site, aarch64, c7x, x86_64};

fn columns(row: &Row) -> [String; 5] {
    let expr = match row.expr {
        Expr::Nothing => "–",
        Expr::Symbol => "S",
        Expr::SymbolAddend => "S + A",
        Expr::SymbolAddendPlace => "S + A − P",
        Expr::BiasAddend => "B + A",
        Expr::Refused(_) => "refused",
    };
    let site = match row.site {
        Site::Any => "any",
        Site::Code => "code",
        Site::Data => "data",
    };
    let range = match row.range {
        Range::Any => "any".to_owned(),
        Range::Signed(n) => format!("signed {n}"),
        Range::Unsigned(n) => format!("unsigned {n}"),
        Range::Either(n) => format!("either {n}"),
    };
    let field = row.field;
    let bits = format!("{}@{} of {}", field.width, field.bit, field.container * 8);
    match row.expr {
        Expr::Nothing => [expr.into(), "–".into(), "–".into(), "–".into(), site.into()],
        Expr::Refused(_) => [expr.into(), "–".into(), "–".into(), "–".into(), "–".into()],
        _ => [expr.into(), bits, field.shift.to_string(), range, site.into()],
    }
}

#[test]
fn the_page_of_the_relocation_types_has_the_rows_of_the_tables() {
    let page = include_str!("../../../docs/reference/relocations.md");
    let documented: BTreeMap<String, Vec<String>> = page
        .lines()
        .filter(|line| line.contains("| R_"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>())
        .map(|cells| (format!("{} {}", cells[0], cells[1]), cells[2..].to_vec()))
        .collect();
    let rows = [c7x::table(), x86_64::table(), aarch64::table()];
    // Refused types of the host processors are listed in a sentence; PCR16 has a row.
    let rows = rows.iter().flat_map(|table| table.rows());
    let rows: Vec<&Row> = rows.filter(|row| row.refused().is_none() || row.number == 4).collect();
    for row in &rows {
        let found = documented.get(&format!("{} {}", row.number, row.name));
        assert_eq!(found.map(Vec::as_slice), Some(&columns(row)[..]), "{}", row.name);
    }
    assert_eq!(documented.len(), rows.len());
}
