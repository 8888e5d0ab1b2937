//! Gives the library the name under which programs built for the original look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libc7x_arm_runtime.so.1");
}
