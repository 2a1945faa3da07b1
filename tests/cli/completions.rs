//! `embedctl completions`, and the generated scripts in `completions/`.

use std::fs;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, in_repository};

const SHELLS: [(&str, &str); 5] = [
    ("bash", "embedctl.bash"),
    ("elvish", "embedctl.elv"),
    ("fish", "embedctl.fish"),
    ("powershell", "_embedctl.ps1"),
    ("zsh", "_embedctl"),
];

#[test]
fn committed_scripts_are_up_to_date() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("completions --dir fresh").code, Some(0));
    let fresh = sandbox.path("fresh");
    let files = SHELLS.map(|(_, file)| file);
    assert_eq!(fs::read_dir(&fresh).unwrap().count(), files.len());
    for file in files {
        let committed = fs::read_to_string(in_repository("completions").join(file));
        let fresh = fs::read_to_string(fresh.join(file)).unwrap();
        // Git may have changed line ends on the way.
        let same = committed.is_ok_and(|text| text.replace("\r\n", "\n") == fresh);
        assert!(
            same,
            "completions/{file} is stale; mend it with:\n\n    cargo run -- completions --dir completions\n"
        );
    }
}

#[test]
fn a_script_goes_to_standard_output() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("completions --dir all").code, Some(0));
    for (shell, file) in SHELLS {
        let run = sandbox.run(&format!("completions {shell}"));
        let script = fs::read_to_string(sandbox.path("all").join(file)).unwrap();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        assert_eq!(run.stdout, script);
    }
}

#[test]
fn unknown_shell() {
    assert_snapshot!(Sandbox::new().run("completions tcsh"));
}

#[test]
fn no_shell() {
    assert_snapshot!(Sandbox::new().run("completions"));
}

#[test]
fn a_folder_that_cannot_be_made() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    assert_snapshot!(sandbox.run("completions --dir file/folder"));
}
