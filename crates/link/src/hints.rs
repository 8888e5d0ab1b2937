//! What to tell a person about missing symbols: near names, and advice that follows from the names.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::{ExportTable, MissingSymbol};

/// Near names are looked for only for this many symbols, so that a hostile file cannot buy hours of comparisons.
pub(crate) const SUGGEST_FOR: usize = 64;
/// And only for names up to this length.
const SUGGEST_LENGTH: usize = 80;
/// Near names per symbol.
const SUGGESTIONS: usize = 3;

/// Fills in up to three near names of the export table for each symbol. One whose own name is there is missing for another reason.
pub(crate) fn suggest(symbols: &mut [MissingSymbol], exports: &ExportTable) {
    let names = exports.sorted();
    for symbol in symbols.iter_mut().filter(|s| !s.name.is_empty() && s.name.len() <= SUGGEST_LENGTH).take(SUGGEST_FOR)
    {
        if exports.get(&symbol.name).is_some() {
            continue;
        }
        symbol.near = nearest(&symbol.name, names.iter().map(|(name, _)| *name));
    }
}

/// Up to three of `names` that look like `name`, nearest first; none for a name that is empty or very long.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    if name.is_empty() || name.len() > SUGGEST_LENGTH {
        return Vec::new();
    }
    let limit = 1 + name.chars().count() / 4;
    let mut near: Vec<(usize, &str)> = names
        .filter(|other| other.len() <= SUGGEST_LENGTH && other.len().abs_diff(name.len()) <= limit)
        .map(|other| (distance(name, other), other))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_string()).collect()
}

/// Edit distance: insertions, deletions, replacements and swaps of neighbours cost 1 each.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = core::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

/// Families of names that say how the module was built.
const FAMILIES: [(&[&str], &str); 4] = [
    (
        &["__tsan_", "__asan_", "__ubsan_", "__msan_", "__hwasan_", "__sanitizer_"],
        "hint: the module was built with a sanitizer; build it without -fsanitize",
    ),
    (
        &[
            "__gnu_Unwind_",
            "_Unwind_",
            "__gxx_personality",
            "__cxa_throw",
            "__cxa_begin_catch",
            "__cxa_end_catch",
            "__cxa_allocate_exception",
            "__cxa_rethrow",
        ],
        "hint: the module uses C++ exceptions, which the device does not provide; build it with -fno-exceptions",
    ),
    (&["__stack_chk_"], "hint: the module was built with stack protection; build it with -fno-stack-protector"),
    (
        &["__gcov_", "__llvm_profile_"],
        "hint: the module was built for coverage measurement; build it without --coverage",
    ),
];

/// Advice that follows from the missing names.
pub(crate) fn advice(symbols: &[MissingSymbol]) -> Vec<String> {
    let mut advice = Vec::new();
    for (prefixes, text) in FAMILIES {
        if symbols.iter().any(|symbol| prefixes.iter().any(|prefix| symbol.name.starts_with(prefix))) {
            advice.push(text.to_string());
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_edits_and_swaps() {
        assert_eq!(distance("memcpy", "memcpy"), 0);
        assert_eq!(distance("memcpy", "memcyp"), 1);
        assert_eq!(distance("memmov", "memmove"), 1);
        assert_eq!(distance("printf", "sprintf"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
