//! Kernels of language models: attention over a cache, top-k, products with quantised weights.

use crate::error::{KernelError, bad_dimension, elements, expect};
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Columns that are summed at a time.
const TILE: usize = 256;

/// `out[m][n] = scale[n] · Σₖ activation[m][k] · weights[k][n]`, summed in single precision in the order of k.
///
/// # Errors
/// A slice has the wrong length.
pub fn dequantize_vecmatmul(
    (m, k, n): (usize, usize, usize),
    activation: &[f32],
    weights: &[i8],
    scale: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    expect("activation", activation.len(), elements("activation", &[m, k])?)?;
    expect("weights", weights.len(), elements("weights", &[k, n])?)?;
    expect("scale", scale.len(), n)?;
    expect("out", out.len(), elements("out", &[m, n])?)?;
    if out.is_empty() {
        return Ok(());
    }
    out.fill(0.0);
    if k > 0 {
        for (x, out) in activation.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
            for start in (0..n).step_by(TILE) {
                let end = n.min(start + TILE);
                let out = &mut out[start..end];
                for (x, row) in x.iter().zip(weights.chunks_exact(n)) {
                    for (out, weight) in out.iter_mut().zip(&row[start..end]) {
                        *out += x * f32::from(*weight);
                    }
                }
            }
        }
    }
    for row in out.chunks_exact_mut(n) {
        for (out, scale) in row.iter_mut().zip(scale) {
            *out *= scale;
        }
    }
    Ok(())
}

/// Sizes of [`sdpa_decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Heads of the query.
    pub query_heads: usize,
    /// Heads of the cache: every one serves `query_heads / kv_heads` heads of the query.
    pub kv_heads: usize,
    /// Numbers per head.
    pub head_dim: usize,
    /// Entries of the cache.
    pub cache_len: usize,
}

impl Attention {
    /// Elements of the query and of the output.
    ///
    /// # Errors
    /// They cannot be counted.
    pub fn query_len(&self) -> Result<usize, KernelError> {
        elements("Q", &[self.query_heads, self.head_dim])
    }

    /// Elements of each of the caches.
    ///
    /// # Errors
    /// They cannot be counted.
    pub fn cache_elements(&self) -> Result<usize, KernelError> {
        elements("K_cache", &[self.kv_heads, self.cache_len, self.head_dim])
    }
}

/// Attention of one new token over a cache: softmax(q · Kᵀ / √head_dim + mask) · V, per head of the query.
///
/// Query and output are `[query_heads, head_dim]`, the caches `[kv_heads, cache_len, head_dim]`, the mask `[cache_len]`,
/// added to the scores of every head. Entries with −∞ are not seen; a head that sees nothing gives zeros.
///
/// # Errors
/// A slice has the wrong length, or the query's heads are no multiple of the cache's.
pub fn sdpa_decode(
    sizes: &Attention,
    query: &[f32],
    (keys, values): (&[f32], &[f32]),
    mask: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let Attention { query_heads, kv_heads, head_dim, cache_len } = *sizes;
    if kv_heads == 0 || !query_heads.is_multiple_of(kv_heads) {
        return Err(bad_dimension("num_kv_heads", kv_heads, "it must divide num_q_heads"));
    }
    expect("Q", query.len(), sizes.query_len()?)?;
    expect("out", out.len(), query.len())?;
    expect("K_cache", keys.len(), sizes.cache_elements()?)?;
    expect("V_cache", values.len(), keys.len())?;
    if let Some(mask) = mask {
        expect("mask", mask.len(), cache_len)?;
    }
    out.fill(0.0);
    if out.is_empty() || keys.is_empty() {
        return Ok(());
    }
    let scale = 1.0 / libm::sqrtf(head_dim as f32);
    let mut scores = vec![0.0f32; cache_len];
    let heads = query.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)).enumerate();
    for (head, (query, out)) in heads {
        let start = head / (query_heads / kv_heads) * cache_len * head_dim;
        let cache = start..start + cache_len * head_dim;
        let (keys, values) = (&keys[cache.clone()], &values[cache]);
        for (score, key) in scores.iter_mut().zip(keys.chunks_exact(head_dim)) {
            *score = dot(query, key) * scale;
        }
        if let Some(mask) = mask {
            for (score, mask) in scores.iter_mut().zip(mask) {
                *score += mask;
            }
        }
        let largest = scores.iter().fold(f32::NEG_INFINITY, |largest, score| largest.max(*score));
        if largest == f32::NEG_INFINITY && !scores.iter().any(|score| score.is_nan()) {
            continue;
        }
        let mut sum = 0.0;
        for score in &mut scores {
            *score = libm::expf(*score - largest);
            sum += *score;
        }
        for (score, value) in scores.iter().zip(values.chunks_exact(head_dim)) {
            // An entry that is not seen may hold anything, NaN included.
            if *score == 0.0 {
                continue;
            }
            for (out, value) in out.iter_mut().zip(value) {
                *out += score * value;
            }
        }
        for out in out {
            *out /= sum;
        }
    }
    Ok(())
}

/// A dot product in eight strands, which is what lets a compiler use vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut strands = [0.0f32; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (a, b) in a8.iter().zip(b8) {
        for (strand, (a, b)) in strands.iter_mut().zip(a.iter().zip(b)) {
            *strand += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    strands.iter().sum::<f32>() + rest
}

/// The `k` largest numbers of every row of `n`, largest first, and where they stand.
///
/// Equal numbers keep their order; NaN is larger than every number; −0 equals 0.
///
/// # Errors
/// A slice has the wrong length, or `k` is above `n`.
pub fn top_k(
    (batch, n, k): (usize, usize, usize),
    data: &[f32],
    out_values: &mut [f32],
    out_indices: &mut [i64],
) -> Result<(), KernelError> {
    if k > n {
        return Err(bad_dimension("k", k, "it must not be above n"));
    }
    if u32::try_from(n).is_err() {
        return Err(bad_dimension("n", n, "it must be a 32-bit number"));
    }
    expect("data", data.len(), elements("data", &[batch, n])?)?;
    let results = elements("out_val", &[batch, k])?;
    expect("out_val", out_values.len(), results)?;
    expect("out_idx", out_indices.len(), results)?;
    if results == 0 {
        return Ok(());
    }
    let rows = data.chunks_exact(n).zip(out_values.chunks_exact_mut(k)).zip(out_indices.chunks_exact_mut(k));
    for ((row, values), indices) in rows {
        for ((value, index), (position, found)) in values.iter_mut().zip(indices).zip(largest(row, k)) {
            *value = found;
            *index = i64::from(position);
        }
    }
    Ok(())
}

/// Positions and values of the `k` largest numbers, in order.
fn largest(row: &[f32], k: usize) -> impl Iterator<Item = (u32, f32)> {
    // One number orders a candidate: rank of the value above, position (earlier is larger) below.
    let mut best: BinaryHeap<Reverse<u64>> = BinaryHeap::with_capacity(k);
    for (value, position) in row.iter().zip(0u32..) {
        let candidate = u64::from(rank(*value)) << 32 | u64::from(u32::MAX - position);
        if best.len() < k {
            best.push(Reverse(candidate));
        } else if let Some(mut worst) = best.peek_mut()
            && candidate > worst.0
        {
            *worst = Reverse(candidate);
        }
    }
    let ordered: Vec<_> = best.into_sorted_vec();
    ordered.into_iter().filter_map(|Reverse(candidate)| {
        let position = u32::MAX - u32::try_from(candidate & u64::from(u32::MAX)).ok()?;
        Some((position, *row.get(usize::try_from(position).ok()?)?))
    })
}

/// A number that orders floats: NaN above all, −0 as 0.
fn rank(value: f32) -> u32 {
    if value.is_nan() {
        return u32::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}
