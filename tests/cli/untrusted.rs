//! Code that another user may have planted: it is neither loaded nor run, and a message names the skipped file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::fakes::fake;
use crate::sandbox::{ONNX_MODEL, Run, Sandbox, in_repository};
use crate::support::{wait_for, wait_for_end};

/// Tells that it was loaded, in the file that `FAKE_MARK` names.
const MARKS: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    __attribute__((constructor)) static void at_load(void) {
        FILE *file = fopen(getenv(\"FAKE_MARK\"), \"w\");
        if (file) fclose(file);
    }
";

const CAPI: &str = "lib/python3.12/site-packages/onnxruntime/capi";

struct World(Sandbox);

impl World {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("texts.txt", "one\n");
        Self(sandbox)
    }

    /// A `python3` that does what `script` says, in a folder.
    fn python(&self, folder: &str, script: &str) {
        fs::create_dir_all(self.0.path(folder)).unwrap();
        let path = self.0.path(&format!("{folder}/python3"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.0.path(path), Permissions::from_mode(mode)).unwrap();
    }

    /// `embed` with ONNX Runtime on the CPU, which is nowhere to be had but where the variables lead.
    fn command(&self, variables: &[(&str, &str)]) -> Command {
        let line = "embed texts.txt -o out.npy --threads 1 -p cpu";
        let mut command = self.0.command(line.split(' '));
        command
            .env("EMBEDCTL_MODEL", in_repository(ONNX_MODEL))
            .env("FAKE_MARK", self.0.path("mark"))
            .envs(variables.iter().copied());
        command
    }

    /// A run that must not run what is there, but name it.
    fn untouched(&self, variables: &[(&str, &str)], named: &str, reason: &str) -> Run {
        let run = self.0.finish(&mut self.command(variables));
        assert!(
            !self.0.path("mark").exists(),
            "{variables:?}: it was run; {run}"
        );
        assert!(
            run.stderr.contains(named) || run.code == Some(0),
            "{variables:?}: {run}"
        );
        assert!(
            run.stderr.contains(reason) || run.code == Some(0),
            "{variables:?}: {run}"
        );
        run
    }
}

#[test]
fn a_library_of_the_current_folder_is_not_loaded() {
    let world = World::new();
    let user = format!("home/.local/{CAPI}");
    for place in [
        "onnxruntime/capi",
        "packages/onnxruntime/capi",
        "lib",
        CAPI,
        &user,
    ] {
        if fake(
            &world.0.path(""),
            place,
            MARKS,
            "libraries of the current folder",
        )
        .is_none()
        {
            return;
        }
    }
    world.python("tools/bin", "exit 1");
    let bin = world.0.path("tools/bin");
    let path = bin.to_str().unwrap();
    for (variables, named) in [
        (
            &[("PATH", path), ("PYTHONPATH", "packages")][..],
            "packages/onnxruntime/capi",
        ),
        (
            &[("PATH", path), ("PYTHONPATH", ":/nowhere")],
            "onnxruntime/capi",
        ),
        (
            &[("PATH", path), ("PYTHONPATH", "/nowhere::.")],
            "onnxruntime/capi",
        ),
        (&[("VIRTUAL_ENV", ".")], CAPI),
        (&[("CONDA_PREFIX", ".")], "lib/libonnxruntime"),
        (&[("PATH", path), ("HOME", "home")], "home/.local/lib"),
    ] {
        world.untouched(variables, named, "relative path");
    }
    // A bare name is the loader's to find, and it does not look here.
    fs::copy(
        world.0.path("lib/libonnxruntime.so"),
        world.0.path("libonnxruntime.so"),
    )
    .ok();
    for path in ["lib", "./lib/libonnxruntime.so", "libonnxruntime.so"] {
        let reason = "must name an absolute path";
        world.untouched(&[("EMBEDCTL_ORT_LIB", path)], "EMBEDCTL_ORT_LIB", reason);
        let reason = if path.contains('/') { reason } else { "" };
        world.untouched(&[("ORT_DYLIB_PATH", path)], "ORT_DYLIB_PATH", reason);
    }
}

#[test]
fn a_library_that_others_may_replace_is_not_loaded() {
    let world = World::new();
    let place = format!("venv/{CAPI}");
    if fake(
        &world.0.path(""),
        &place,
        MARKS,
        "libraries that others may replace",
    )
    .is_none()
    {
        return;
    }
    let venv = world.0.path("venv");
    let variables = [("VIRTUAL_ENV", venv.to_str().unwrap())];
    for part in ["venv", "venv/lib", &place] {
        for mode in [0o777, 0o757] {
            world.mode(part, mode);
            world.untouched(
                &variables,
                "(in $VIRTUAL_ENV)",
                "others than you and root may write to",
            );
        }
        world.mode(part, 0o755);
    }
    // The same library is loaded as soon as it is nobody else's, so the marks are worth something.
    world.0.finish(&mut world.command(&variables));
    assert!(world.0.path("mark").exists());
}

#[test]
fn an_interpreter_of_the_current_folder_is_not_asked() {
    let world = World::new();
    world.python("bin", ": > \"$FAKE_MARK\"");
    world.python("", ": > \"$FAKE_MARK\"");
    world.python("open", ": > \"$FAKE_MARK\"");
    world.mode("open", 0o777);
    let open = world.0.path("open");
    for path in [
        "bin",
        "",
        ".",
        "/nowhere::bin",
        "./bin/../bin",
        open.to_str().unwrap(),
    ] {
        world.untouched(&[("PATH", path)], "", "");
    }
    // The first that may be run is taken, and what was passed over before it is named.
    world.python("good", ": > \"$FAKE_MARK\"");
    let path = format!("{}:{}", open.display(), world.0.path("good").display());
    let run = world.0.finish(&mut world.command(&[("PATH", &path)]));
    assert!(world.0.path("mark").exists(), "{run}");
    if run.code != Some(0) {
        assert!(
            run.stderr
                .contains("not of [FOLDER]/open/python3 (others than you"),
            "{run}"
        );
    }
}

#[test]
fn an_interpreter_gets_no_code_from_the_current_folder() {
    let world = World::new();
    world.python(
        "good",
        "pwd > \"$FAKE_MARK\"; echo \"$1\" >> \"$FAKE_MARK\"",
    );
    let path = world.0.path("good");
    world
        .0
        .finish(&mut world.command(&[("PATH", path.to_str().unwrap())]));
    assert_eq!(fs::read_to_string(world.0.path("mark")).unwrap(), "/\n-I\n");
}

#[test]
fn an_interpreter_that_prints_for_ever_is_ended() {
    let world = World::new();
    world.python(
        "good",
        "echo $$ > \"$FAKE_MARK\"; while :; do echo /nowhere; done",
    );
    let path = world.0.path("good");
    for line in ["embed", "devices"] {
        let mut command = world.command(&[("PATH", path.to_str().unwrap())]);
        if line == "devices" {
            command = world.0.command(["devices"]);
            command
                .env("PATH", &path)
                .env("FAKE_MARK", world.0.path("mark"));
        }
        let run = world.0.finish(&mut command);
        assert!(run.code.is_some(), "{run}");
        wait_for_end(&world.0.path("mark"));
    }
}

#[test]
fn an_interpreter_that_hangs_does_not_outlive_an_interrupt() {
    let world = World::new();
    world.python(
        "good",
        "sleep 600 & echo $! > \"$FAKE_MARK.new\"; mv \"$FAKE_MARK.new\" \"$FAKE_MARK\"; wait",
    );
    let path = world.0.path("good");
    // The script's own programs.
    let path = format!("{}:/usr/bin:/bin", path.display());
    let mark = world.0.path("mark");
    let embed = world.command(&[("PATH", &path)]);
    let mut devices = world.0.command(["devices"]);
    devices.env("PATH", &path).env("FAKE_MARK", &mark);
    for mut command in [embed, devices] {
        let child = command.spawn().unwrap();
        wait_for("the interpreter", || mark.exists().then_some(()));
        let number = i32::try_from(child.id()).unwrap();
        // SAFETY: the child has not been waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(number, libc::SIGINT) }, 0);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        wait_for_end(&mark);
        fs::remove_file(&mark).unwrap();
    }
}

#[test]
fn more_threads_than_anybody_has_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    for provider in ["rten", "cpu", "native"] {
        let line = format!("texts.txt -o out.npy --provider {provider} --threads 100000");
        let run = sandbox.embed(&line);
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains("--threads 100000: "), "{run}");
    }
}

/// Rust ends a process without memory as a crash would; it is not called one.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_runs_out_is_called_that() {
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;
    let sandbox = Sandbox::new();
    let line = "embed - -o out.npy --provider rten --threads 1 --max-record-bytes 1GiB";
    let mut command = sandbox.command(line.split(' '));
    command.env("EMBEDCTL_MODEL", in_repository(ONNX_MODEL));
    let limit = || {
        let limit = libc::rlimit {
            rlim_cur: 1 << 30,
            rlim_max: 1 << 30,
        };
        // SAFETY: the call reads the struct and nothing else.
        match unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: `setrlimit` may be called between fork and exec.
    unsafe { command.pre_exec(limit) };
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        let part = vec![b'a'; 1 << 20];
        // Until the other side is gone: no record ends.
        while input.write_all(&part).is_ok() {}
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("memory ran out"), "{said}");
    assert!(
        !said.contains("native library") && !said.contains("bug"),
        "{said}"
    );
}
