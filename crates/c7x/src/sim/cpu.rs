//! Features of this machine's CPU, by the names that modules note.

macro_rules! detect {
    ($detect:ident: $($name:tt)*) => {
        /// The features this program can ask for, and whether the CPU has them.
        pub(super) fn has(name: &str) -> bool {
            match name {
                $($name => std::arch::$detect!($name),)*
                _ => false,
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
detect! { is_x86_feature_detected:
    "aes" "pclmulqdq" "rdrand" "rdseed" "sse" "sse2" "sse3" "ssse3" "sse4.1" "sse4.2" "sse4a" "sha" "avx" "avx2"
    "avx512f" "avx512cd" "avx512bw" "avx512dq" "avx512vl" "avx512ifma" "avx512vbmi" "avx512vpopcntdq" "avx512vbmi2" "gfni"
    "vaes" "vpclmulqdq" "avx512vnni" "avx512bitalg" "avx512bf16" "avx512vp2intersect" "avx512fp16" "avxvnni" "f16c" "fma"
    "bmi1" "bmi2" "lzcnt" "tbm" "popcnt" "fxsr" "xsave" "xsaveopt" "xsaves" "xsavec" "cmpxchg16b" "adx" "rtm" "movbe"
}

#[cfg(target_arch = "aarch64")]
detect! { is_aarch64_feature_detected:
    "neon" "pmull" "fp" "fp16" "fhm" "dotprod" "sve" "sve2" "crc" "lse" "rdm" "rcpc" "aes" "sha2" "sha3" "sm4" "bf16"
    "i8mm" "jsconv" "fcma"
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn has(_name: &str) -> bool {
    false
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #[test]
    fn the_baseline_is_there_and_an_unknown_feature_is_not() {
        assert!(super::has("sse2"));
        assert!(!super::has("quantum"));
    }
}
