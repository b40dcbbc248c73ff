//! Says that the network is simulated to the code of `firesteel-rpc` that this package compiles.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(firesteel_simulated)");
    println!("cargo:rustc-cfg=firesteel_simulated");
}
