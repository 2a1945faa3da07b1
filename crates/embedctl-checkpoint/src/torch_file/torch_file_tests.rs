//! Files that PyTorch wrote, and damage.

use std::fs;
use std::path::Path;

use embedctl_testing::{assert_no_bug, mutation};

use super::*;

/// Heads in the layout of bge-m3, which `fixtures/heads/generate.py` has made.
const MODEL: &str = "../../fixtures/heads/xlm-roberta/model";

const NAMES: [&str; 2] = ["weight", "bias"];

fn head(name: &str) -> BTreeMap<String, SavedTensor> {
    read(&Path::new(MODEL).join(name), &NAMES).unwrap()
}

#[test]
fn layers_of_every_type_are_read() {
    for (name, outputs) in [("sparse_linear.pt", 1), ("colbert_linear.pt", 16)] {
        let tensors = head(name);
        let names: Vec<_> = tensors.keys().map(String::as_str).collect();
        assert_eq!(names, ["bias", "weight"], "{name}");
        assert_eq!(tensors["weight"].shape, [outputs, 32]);
        assert_eq!(tensors["bias"].shape, [outputs]);
        for tensor in tensors.values() {
            assert_eq!(tensor.values.len(), tensor.shape.iter().product::<usize>());
            assert!(tensor.values.iter().any(|value| *value != 0.0));
        }
    }
}

/// The pickle of `os.system('true')`, and other programs.
#[test]
fn programs_are_refused() {
    for (program, word) in [
        (
            &b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R."[..],
            "posix",
        ),
        (b"\x80\x02cbuiltins\neval\n)R.", "eval"),
        (b"\x80\x02c__builtin__\ngetattr\n.", "getattr"),
        (b"\x80\x02ctorch\nload\n.", "load"),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93.", "0x8c"),
        (b"(S'true'\niposix\nsystem\n.", "0x53"),
        (b"\x80\x02}X\x01\x00\x00\x00aK\x01s.", "not a tensor"),
        (b"\x80\x02K\x01.", "something else"),
        (b"\x80\x05.", "protocol 5"),
        (b"\x80\x02ccollections\nOrderedDict\n)R", "cut short"),
        (
            b"\x80\x02ccollections\nOrderedDict\n)Rq\x00(X\x01\x00\x00\x00ah\x00u.",
            "twice",
        ),
        (b"", "cut short"),
    ] {
        let reason = pickle::tensors(program).unwrap_err();
        assert!(reason.contains(word), "{reason}");
    }
    // A bomb of memory: each tuple holds the one before it twice.
    let mut bomb = b"\x80\x02)".to_vec();
    (0..200_u8).for_each(|at| bomb.extend([b'q', at, b'h', at, 0x86]));
    bomb.push(b'.');
    pickle::tensors(&bomb).unwrap_err();
}

#[test]
fn deep_values_are_refused_without_recursion() {
    let deep = |level: &[u8]| {
        let mut program = b"\x80\x02)".to_vec();
        (0..100_000).for_each(|_| program.extend(level));
        program.push(b'.');
        pickle::tensors(&program).unwrap_err()
    };
    // TUPLE1, and a dictionary around each.
    assert!(deep(b"\x85").contains("8 deep"));
    let mut program = b"\x80\x02".to_vec();
    (0..2000).for_each(|_| program.extend(b"}X\x01\x00\x00\x00a"));
    program.push(b'N');
    program.extend([b's'; 2000]);
    program.push(b'.');
    let reason = pickle::tensors(&program).unwrap_err();
    assert!(reason.contains("8 deep"), "{reason}");
}

#[test]
fn tensors_that_nobody_asked_for_are_not_read_nor_more_than_the_file_holds() {
    let good = fs::read(Path::new(MODEL).join("colbert_linear.pt")).unwrap();
    let reason = tensors(&good, &["weight"]).unwrap_err();
    assert!(reason.contains("a tensor 'bias'"), "{reason}");
    // The archive's pickle names one storage for every tensor.
    let storage = [0_u8; 4096];
    let program = |names: &[&str]| {
        let mut program = b"\x80\x02}(".to_vec();
        for name in names {
            program.extend([b"X", &[name.len() as u8, 0, 0, 0][..], name.as_bytes()].concat());
            program.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nHalfStorage\n");
            program.extend(b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuM\x00\x08tQK\x00M\x00\x08\x85K\x01\x85\x89NtR");
        }
        program.extend(b"u.");
        program
    };
    let names = ["a", "b", "c", "d"];
    let file = |names| archive::stored(&[("data.pkl", &program(names)), ("data/0", &storage)]);
    assert_eq!(
        tensors(&file(&names[..1]), &names).unwrap()["a"]
            .values
            .len(),
        2048
    );
    let reason = tensors(&file(&names), &names).unwrap_err();
    assert!(reason.contains("larger than the file"), "{reason}");
}

#[test]
fn damaged_files_are_read_or_refused() {
    for name in ["sparse_linear.pt", "colbert_linear.pt"] {
        let good = fs::read(Path::new(MODEL).join(name)).unwrap();
        mutation::each(name, &good, 2000, |path| {
            assert_no_bug(read(path, &NAMES));
        });
        let archive = Archive::read(&good).unwrap();
        let program = archive.get("data.pkl").unwrap();
        mutation::each("data.pkl", program, 2000, |path| {
            let _ = pickle::tensors(&fs::read(path).unwrap());
        });
    }
}
