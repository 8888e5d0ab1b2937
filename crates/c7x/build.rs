//! Compiles the variadic functions of the simulated device's C library, which Rust cannot define.

fn main() {
    println!("cargo::rerun-if-changed=src/sim/variadic.c");
    #[cfg(feature = "sim")]
    cc::Build::new()
        .file("src/sim/variadic.c")
        .flag_if_supported("-std=c11")
        .warnings(true)
        .compile("outboard_variadic");
}
