//! `embedctl completions`, and the generated scripts in `completions/`.

use std::fs;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, in_repository};
use crate::support;
#[cfg(unix)]
use crate::support_terminal::at_a_terminal;

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

/// Begun command lines, and what one press of the tabulator makes of them in a folder with `texts.txt`.
const COMPLETED: [(&str, &str); 8] = [
    ("embed tex", "texts.txt"),
    ("embed --output-format par", "parquet"),
    ("embed --provider webg", "webgpu"),
    ("bench --provider openv", "openvino"),
    ("embed --pooling las", "lasttoken"),
    ("devices --require xnn", "xnnpack"),
    ("dow", "download"),
    ("help be", "bench"),
];

/// Types the lines at a shell in whose place of `embedctl` a function says what it was given.
#[cfg(unix)]
fn completes(shell: &str, arguments: &[&str], load: &str) {
    use std::os::unix::process::CommandExt;
    let Some(program) = support::program(shell, &format!("completions in {shell}")) else {
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "");
    let mut typed = format!("{load}; embedctl() {{ echo \"ran: $*.\" >&2; }}\n");
    for (line, _) in COMPLETED {
        typed += &format!("embedctl {line}\t\n");
    }
    typed += "exit\n";
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        .current_dir(sandbox.path(""))
        .env("SCRIPTS", in_repository("completions"))
        .env("HOME", sandbox.path(""));
    // SAFETY: both calls may be made between fork and exec; the first argument is standard input, a terminal. The
    // second's type differs between systems.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY as _, 0);
            Ok(())
        });
    }
    let (_, shown) = at_a_terminal(&mut command, typed.as_bytes());
    for (line, completed) in COMPLETED {
        let (before, _) = line.rsplit_once(' ').unwrap_or_default();
        let whole = format!("{before} {completed}");
        let ran = format!("ran: {}.", whole.trim_start());
        assert!(shown.contains(&ran), "{shell}: {ran}\n{shown}");
    }
}

#[test]
#[cfg(unix)]
fn bash_completes_files_and_values() {
    completes(
        "bash",
        &["--norc", "-i"],
        "source \"$SCRIPTS/embedctl.bash\"",
    );
}

#[test]
#[cfg(unix)]
fn zsh_completes_files_and_values() {
    let load = "fpath=($SCRIPTS $fpath); autoload -U compinit; compinit -u -D";
    completes("zsh", &["-f", "-i"], load);
}

#[test]
fn fish_completes_files_and_values() {
    let Some(fish) = support::program("fish", "completions in fish") else {
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "");
    let script = in_repository("completions/embedctl.fish");
    for (line, completed) in COMPLETED {
        let ask = format!("source {}; complete -C 'embedctl {line}'", script.display());
        let mut command = std::process::Command::new(&fish);
        command
            .args(["--no-config", "-c", &ask])
            .current_dir(sandbox.path(""));
        let said = command.env("HOME", sandbox.path("")).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let offered = said
            .lines()
            .any(|offer| offer.split('\t').next() == Some(completed));
        assert!(offered, "{line}: {said}");
    }
}

/// Clap's names of arguments are nothing to type.
#[test]
fn no_script_offers_names_of_arguments() {
    let script = fs::read_to_string(in_repository("completions/embedctl.bash")).unwrap();
    for line in script.lines().filter(|line| line.contains("opts=")) {
        assert!(!line.contains(['[', '<']), "{line}");
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
