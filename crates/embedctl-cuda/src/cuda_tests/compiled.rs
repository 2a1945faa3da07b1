//! NVIDIA's compiler takes every kernel for every architecture, and keeps its values in registers.
//!
//! The compiler is `libnvrtc.so` of the package `nvidia-cuda-nvrtc`, which runs without a card: `EMBEDCTL_TEST_NVRTC` names it.

use std::collections::BTreeMap;

use libloading::Library;

use crate::CardElement;
use crate::kernels::{KernelPart, KernelShape, compile};
use crate::library::Compiler;

/// Bytes of a thread's own memory, beside registers, that a kernel may use: some values that are seldom read.
const MOST_SPILLED: u32 = 64;

/// Registers of a thread with which two blocks of a kernel's threads run on a multiprocessor.
const REGISTERS: u32 = 65_536;

/// The compiler. Where it must be there (`EMBEDCTL_TEST_REQUIRE=nvrtc`), its absence fails.
fn compiler() -> Option<Compiler> {
    let Some(path) = std::env::var_os("EMBEDCTL_TEST_NVRTC") else {
        let required = std::env::var("EMBEDCTL_TEST_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|it| it == "nvrtc"),
            "EMBEDCTL_TEST_NVRTC names no compiler"
        );
        eprintln!("skipped: EMBEDCTL_TEST_NVRTC names no libnvrtc.so");
        return None;
    };
    // SAFETY: it is NVIDIA's compiler, by the variable's word.
    let library = unsafe { Library::new(path) }.unwrap();
    Some(Compiler::of(library).unwrap())
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, count: usize) -> usize {
    bytes[at..at + count]
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

fn text(bytes: &[u8], at: usize) -> String {
    let end = bytes[at..].iter().position(|byte| *byte == 0).unwrap();
    String::from_utf8_lossy(&bytes[at..at + end]).into_owned()
}

/// Registers and spilled bytes of each kernel of a compiled module, by its attributes.
fn usage(module: &[u8]) -> BTreeMap<String, (u32, u32)> {
    const SYMBOLS: usize = 2;
    const FRAME_SIZE: u8 = 0x11;
    const REGISTER_COUNT: u8 = 0x2f;
    let (headers, size) = (number(module, 0x28, 8), number(module, 0x3a, 2));
    let section = |index: usize| headers + index * size;
    let field = |index: usize, at: usize, count: usize| number(module, section(index) + at, count);
    let names = field(number(module, 0x3e, 2), 0x18, 8);
    let (mut symbols, mut attributes) = (Vec::new(), None);
    for index in 0..number(module, 0x3c, 2) {
        let (start, bytes) = (field(index, 0x18, 8), field(index, 0x20, 8));
        if field(index, 4, 4) == SYMBOLS {
            let strings = field(field(index, 0x28, 4), 0x18, 8);
            let each = (start..start + bytes).step_by(24);
            symbols.extend(each.map(|at| text(module, strings + number(module, at, 4))));
        }
        if text(module, names + field(index, 0, 4)) == ".nv.info" {
            attributes = Some(start..start + bytes);
        }
    }
    let mut usage: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let range = attributes.expect("a module has attributes");
    let mut at = range.start;
    while at < range.end {
        // Format 4 has a size and so many bytes; the others have two bytes.
        if module[at] != 4 {
            at += 4;
            continue;
        }
        let bytes = number(module, at + 2, 2);
        if bytes == 8 && [FRAME_SIZE, REGISTER_COUNT].contains(&module[at + 1]) {
            let kernel = symbols[number(module, at + 4, 4)].clone();
            let value = number(module, at + 8, 4) as u32;
            let entry = usage.entry(kernel).or_default();
            match module[at + 1] {
                REGISTER_COUNT => entry.0 = value,
                _ => entry.1 = value,
            }
        }
        at += 4 + bytes;
    }
    usage
}

#[test]
fn kernels_are_compiled_for_every_architecture_without_spilling() {
    let Some(compiler) = compiler() else {
        return;
    };
    let all = [80, 86, 89, 90, 100, 120].map(|architecture| (architecture, CardElement::F16, 64));
    let others = [
        (90, CardElement::F16, 32),
        (80, CardElement::F16, 128),
        (90, CardElement::Bf16, 128),
        (90, CardElement::F16, 256),
        (80, CardElement::F32, 64),
        (120, CardElement::F32, 256),
    ];
    let mut wrong = Vec::new();
    for (architecture, element, head) in all.into_iter().chain(others) {
        let shape = KernelShape {
            element,
            head,
            has_extras: head == 64 || head == 256,
            norms: 255,
        };
        let mut usage_of_all = BTreeMap::new();
        for part in KernelPart::ALL {
            let options = shape.options(part, architecture);
            let module = compile(&compiler, &part.source(), &options, architecture).unwrap();
            usage_of_all.append(&mut usage(&module));
        }
        let usage = usage_of_all;
        assert!(
            usage.len() >= 20,
            "sm_{architecture}: {} kernels",
            usage.len()
        );
        // Functions that the compiler adds have no registers of their own.
        let kernels = usage.into_iter().filter(|(name, _)| !name.starts_with('$'));
        for (kernel, (registers, spilled)) in kernels {
            let threads = match kernel.as_str() {
                "norm_32768" | "place" => 1024,
                "activate" | "norm_8192" => 256,
                _ => 128,
            };
            let blocks = if threads == 1024 { 1 } else { 2 };
            if registers == 0 || registers * threads * blocks > REGISTERS || spilled > MOST_SPILLED
            {
                wrong.push(format!(
                    "{kernel} for sm_{architecture}, {element:?}, heads of {head}: {registers} registers, {spilled} bytes spilled"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
