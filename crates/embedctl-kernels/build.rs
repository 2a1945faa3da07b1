//! Chooses the instruction sets that kernels are compiled for, as `cfg(kernels = "...")`: in the profile `dev` the best of
//! this machine, where the program will run, and in others all that a processor of the target may have. The portable
//! kernels are always there. `EMBEDCTL_KERNELS=all` or `=here` chooses instead.

#[path = "src/detection.rs"]
mod detection;

/// Of each architecture. AMX is used beside AVX-512.
const ALL: [(&str, &[&str]); 2] = [
    ("x86_64", &["amx", "avx512", "avx2-vnni", "avx2"]),
    ("aarch64", &["neon-i8mm", "neon-dot", "neon"]),
];

/// A unit for tiles as plain code, for tests: in builds of the profile `dev` alone.
const EMULATED: &str = "plain-tiles";

const VARIABLE: &str = "EMBEDCTL_KERNELS";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/detection.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    for name in ALL.iter().flat_map(|(_, names)| *names).chain([&EMULATED]) {
        println!("cargo::rustc-check-cfg=cfg(kernels, values(\"{name}\"))");
    }
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    // Built for another machine, or for many.
    let for_others = of("HOST") != of("TARGET") || of("PROFILE") != "debug";
    let here = match of(VARIABLE).as_str() {
        "" => !for_others,
        "all" => false,
        "here" => true,
        other => panic!("{VARIABLE} is `{other}`; it takes `all` and `here`"),
    };
    let architecture = of("CARGO_CFG_TARGET_ARCH");
    let all = ALL.iter().find(|(name, _)| *name == architecture);
    let all = all.map_or(&[][..], |(_, names)| *names);
    if of("PROFILE") == "debug" {
        println!("cargo::rustc-cfg=kernels=\"{EMULATED}\"");
    }
    let best = detection::vectors()[0];
    let is_here = |name| name == best || name == "amx" && detection::has_tiles();
    let is_linux = of("CARGO_CFG_TARGET_OS") == "linux";
    for &name in all {
        // Other systems' tiles are left alone.
        let is_known = name != "amx" || is_linux;
        if is_known && (!here || is_here(name)) {
            println!("cargo::rustc-cfg=kernels=\"{name}\"");
        }
    }
}
