//! Failures around a run: signals, closed pipes, full disks, folders that refuse.
//!
//! No test waits for a fixed time: each waits for what it needs (a line, a file, an end) with a deadline
//! that only a hang reaches.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

#[cfg(target_os = "linux")]
use insta::assert_snapshot;

use crate::sandbox::{REAL_MODEL, SMALL_MODEL, Sandbox, in_repository};
use crate::support::{DEADLINE, wait_for};

/// Gives a command the usual signals: whoever runs the tests in the background, or under nohup, ignores
/// some of them, which would be inherited.
fn defaults(command: &mut Command) {
    let reset = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: signal(2) may be called between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure calls nothing but signal(2).
    unsafe { command.pre_exec(reset) };
}

/// A running embedctl whose standard input is open and silent.
struct Running {
    child: Child,
    stderr: thread::JoinHandle<String>,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Running {
    /// Starts a command that was given `-v`; `input` is written, and standard input stays open.
    fn start(command: &mut Command, input: &[u8]) -> Self {
        defaults(command);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(input).unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = std::sync::mpsc::channel();
        let stderr = thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(stderr).lines() {
                let line = line.unwrap();
                all.push_str(&line);
                all.push('\n');
                let _ = sender.send(line);
            }
            all
        });
        Self {
            child,
            stderr,
            lines,
        }
    }

    /// Returns when the model is loaded and records are waited for.
    fn wait_until_started(&self) {
        self.wait_for_line("running on");
    }

    /// Returns when a line with these words was said.
    fn wait_for_line(&self, words: &str) {
        let said = || {
            self.lines
                .recv_timeout(DEADLINE)
                .expect("it should be said")
        };
        while !said().contains(words) {}
    }

    fn signal(&self, signal: i32) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the child has not been waited for, so its id is still its own.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }

    fn wait(mut self) -> (ExitStatus, String) {
        let status = wait_for("the end of the process", || self.child.try_wait().unwrap());
        (status, self.stderr.join().unwrap())
    }
}

fn stops_on(signal: i32) {
    let sandbox = Sandbox::new();
    let running = Running::start(
        &mut sandbox.embed_command("-o out.parquet -v"),
        b"half a line",
    );
    running.wait_until_started();
    running.signal(signal);
    let (status, stderr) = running.wait();
    assert_eq!(status.code(), Some(130), "{stderr}");
    let last = "error: interrupted (0 rows); nothing was written. To keep partial work, use `-o FOLDER/` or --resume\n";
    assert!(stderr.ends_with(last), "{stderr}");
    assert_eq!(sandbox.files(), [""; 0], "nothing may stay behind");
}

/// How far it was, and what is left of it: what stood under the output's name, or what standard output got.
#[test]
fn an_interrupt_says_how_far_the_run_was() {
    for (output, left) in [
        ("out.parquet --force", "out.parquet is unchanged"),
        ("-", "rows written: 2"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("out.parquet", "precious");
        let line = format!("-o {output} -v --window 2 --progress always");
        let running = Running::start(&mut sandbox.embed_command(&line), b"one\ntwo\nhalf");
        running.wait_for_line("2 rows, ");
        running.signal(libc::SIGINT);
        let (status, stderr) = running.wait();
        assert_eq!(status.code(), Some(130), "{stderr}");
        let last = format!("error: interrupted (2 rows); {left}\n");
        assert!(stderr.ends_with(&last), "{stderr}");
        assert_eq!(fs::read(sandbox.path("out.parquet")).unwrap(), b"precious");
    }
}

/// A library may crash when it is torn down: the output is then complete, and no message denies it.
#[test]
#[cfg(target_os = "linux")]
fn a_crash_after_the_output_is_explained_as_such() {
    use std::os::fd::AsRawFd;
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    // The summary blocks behind its first line, which comes when the output is there.
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let filled = 65_536 - 200;
    writer.write_all(&vec![b'\n'; filled]).unwrap();
    let mut command = sandbox.embed_command("texts.txt -o out.npy");
    let mut child = command.stderr(writer).spawn().unwrap();
    drop(command);
    wait_for("the summary's first line", || {
        let mut unread = 0;
        // SAFETY: the descriptor is open, and this request writes one int.
        let asked = unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &raw mut unread) };
        assert_eq!(asked, 0);
        (unread > libc::c_int::try_from(filled).unwrap()).then_some(())
    });
    let id = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the child has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(id, libc::SIGSEGV) }, 0);
    let mut stderr = String::new();
    reader.read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert!(
        stderr.contains("(SIGSEGV) after the output was written"),
        "{stderr}"
    );
    assert!(
        !stderr.contains("The output file was not written"),
        "{stderr}"
    );
    assert!(sandbox.path("out.npy").exists());
}

#[test]
fn sigint_stops_a_run_that_waits_for_input() {
    stops_on(libc::SIGINT);
}

#[test]
fn sigterm_stops_a_run_that_waits_for_input() {
    stops_on(libc::SIGTERM);
}

#[test]
fn sighup_stops_a_run_that_waits_for_input() {
    stops_on(libc::SIGHUP);
}

#[test]
fn signals_that_would_end_a_program_stop_the_run() {
    for signal in [
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGXCPU,
    ] {
        stops_on(signal);
    }
}

/// A file that would become larger than `ulimit -f` allows is an error with a message, not the end.
#[test]
fn a_limit_on_the_size_of_files_is_told() {
    let sandbox = Sandbox::new();
    let program = env!("CARGO_BIN_EXE_embedctl");
    let model = in_repository(SMALL_MODEL);
    let mut command = Command::new("sh");
    command.current_dir(sandbox.path(""));
    command.args([
        "-c",
        "ulimit -f 8; exec \"$0\" embed --provider rten -o out.jsonl -m \"$1\"",
    ]);
    command
        .arg(program)
        .arg(model)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = sandbox.run_with_input(&mut command, "a text\n".repeat(2000).as_bytes());
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("`ulimit -f` allows"), "{run}");
    assert_eq!(sandbox.files(), [""; 0], "nothing may stay behind");
}

/// The remains of a killed run go with the next run, which says so.
#[test]
fn what_killed_runs_leave_is_cleared_and_told() {
    let sandbox = Sandbox::new();
    let running = Running::start(&mut sandbox.embed_command("-o out.npy -v"), b"one\n");
    running.wait_until_started();
    running.signal(libc::SIGKILL);
    running.wait();
    assert_eq!(sandbox.files().len(), 2, "{:?}", sandbox.files());
    let run = sandbox.run_with_input(&mut sandbox.embed_command("-o out.npy"), b"one\n");
    assert!(run.stderr.contains("removed 2 temporary files"), "{run}");
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(sandbox.files().len(), 3);
}

#[test]
fn one_file_for_two_purposes_is_refused_before_work() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", "{\"text\":\"a\"}\n");
    fs::hard_link(sandbox.path("in.jsonl"), sandbox.path("twin.jsonl")).unwrap();
    for line in [
        "in.jsonl -o in.jsonl --force",
        "in.jsonl -o twin.jsonl --force",
        "in.jsonl -o out.npy --on-error skip --rejects out.npy.rows.jsonl",
        "in.jsonl -o out.npy --on-error skip --rejects in.jsonl --force",
        "in.jsonl -o out.jsonl --on-error skip --rejects ./out.jsonl",
    ] {
        let run = sandbox.run_with_input(&mut sandbox.embed_command(line), b"");
        assert_eq!(run.code, Some(2), "{line}: {run}");
        assert!(run.stderr.contains("is the same file as"), "{line}: {run}");
    }
    // Standard output that is appended to the input would never come to an end.
    let output = fs::File::options()
        .append(true)
        .open(sandbox.path("in.jsonl"))
        .unwrap();
    let mut command = sandbox.embed_command("in.jsonl -o -");
    let run = sandbox.run_with_input(command.stdout(output), b"");
    assert_eq!(run.code, Some(2), "{run}");
    assert_eq!(
        fs::read(sandbox.path("in.jsonl")).unwrap(),
        b"{\"text\":\"a\"}\n"
    );
}

/// The first signal waits for the batch at work, which takes half a minute here; the second does not.
#[test]
fn a_second_signal_stops_at_once() {
    let sandbox = Sandbox::new();
    let mut command =
        sandbox.embed_command("-o out.parquet -v --batch-tokens 200000 --window 1000");
    command.arg("--model").arg(in_repository(REAL_MODEL));
    let records = format!("{}\n", "many words ".repeat(100)).repeat(1000);
    let running = Running::start(&mut command, records.as_bytes());
    running.wait_until_started();
    running.signal(libc::SIGINT);
    running.signal(libc::SIGTERM);
    let (status, stderr) = running.wait();
    assert_eq!(status.code(), Some(130), "{stderr}");
    // A run that ends by itself says so.
    assert!(
        !stderr.contains("interrupted"),
        "no faster than the first: {stderr}"
    );
    assert_eq!(sandbox.files(), [""; 0], "nothing may stay behind");
}

/// Nothing wakes a write into a full pipe; the run ends all the same, after a few seconds.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_a_run_whose_reader_has_stalled() {
    use std::os::fd::AsRawFd;
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("-o - -v --window 100");
    let running = Running::start(&mut command, "a text\n".repeat(5000).as_bytes());
    let stdout = running.child.stdout.as_ref().unwrap().as_raw_fd();
    wait_for("a full pipe", || {
        let mut unread = 0;
        // SAFETY: the descriptor is open, and this request writes one int.
        let asked = unsafe { libc::ioctl(stdout, libc::FIONREAD, &raw mut unread) };
        assert_eq!(asked, 0);
        (unread >= 60_000).then_some(()) // of the 65,536 bytes that a pipe holds
    });
    running.signal(libc::SIGTERM);
    let (status, stderr) = running.wait();
    assert_eq!(status.code(), Some(130), "{stderr}");
}

#[test]
fn a_killed_run_leaves_nothing_under_the_final_name() {
    let sandbox = Sandbox::new();
    let running = Running::start(
        &mut sandbox.embed_command("-o out.parquet -v"),
        b"one\ntwo\n",
    );
    running.wait_until_started();
    running.signal(libc::SIGKILL);
    let (status, stderr) = running.wait();
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{stderr}");
    assert!(!sandbox.path("out.parquet").exists());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one text of many\n".repeat(3000));
    let mut child = sandbox
        .embed_command("texts.txt -o - --window 100")
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap(); // and closed
    assert!(first.starts_with('{'), "{first}");
    let status = wait_for("the end of the process", || child.try_wait().unwrap());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_never_looked_is_no_error_either() {
    let sandbox = Sandbox::new();
    for line in ["--help", "man", "completions bash"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(line.split(' '));
        let run = sandbox.finish(command.stdout(writer));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{line}");
    }
}

#[cfg(target_os = "linux")]
fn full() -> fs::File {
    fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_behind_standard_output() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let run = sandbox.finish(sandbox.embed_command("texts.txt -o -").stdout(full()));
    assert_snapshot!(run);
    let run = sandbox.finish(sandbox.command(["man"]).stdout(full()));
    assert_snapshot!(run);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_as_output() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    assert_snapshot!(sandbox.embed("texts.txt -o /dev/full -f jsonl"));
    // Written directly, not replaced by a file that was renamed over it.
    let kind = fs::metadata("/dev/full").unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&kind));
}

#[test]
#[cfg(target_os = "linux")]
fn the_null_device_as_output() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let run = sandbox.embed("texts.txt -o /dev/null -f parquet");
    assert_eq!(run.code, Some(0), "{run}");
    let kind = fs::metadata("/dev/null").unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&kind));
}

/// The effect of `>&-`. Rust puts the null device in its place, where data would be lost in silence.
#[test]
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn a_closed_standard_output_loses_nothing_in_silence() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let lines = [
        "embed -p rten texts.txt -o -",
        "embed -p rten texts.txt -o /dev/stdout -f jsonl",
        "completions bash",
        "man",
        "--help",
    ];
    for line in lines {
        let mut command = sandbox.command(line.split(' '));
        command.env("EMBEDCTL_MODEL", in_repository(SMALL_MODEL));
        // SAFETY: `close` may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::close(libc::STDOUT_FILENO);
                Ok(())
            });
        }
        let run = sandbox.finish(&mut command);
        assert_eq!(run.code, Some(1), "{line}: {run}");
    }
    // Without data, it is not needed.
    let mut command = sandbox.embed_command("texts.txt -o out.npy");
    // SAFETY: as above.
    unsafe {
        command.pre_exec(|| {
            libc::close(libc::STDOUT_FILENO);
            Ok(())
        });
    }
    let run = sandbox.finish(&mut command);
    assert_eq!(run.code, Some(0), "{run}");
}

/// The effect of `<&-`: there are no records to be read, which is not the same as no record.
#[test]
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn a_closed_standard_input_is_no_empty_one() {
    let sandbox = Sandbox::new();
    for (line, code) in [
        ("- -o out.npy", 1),
        ("- -o out.jsonl --resume", 1),
        ("- -o -", 1),
        ("texts.txt -o texts.npy", 0),
    ] {
        sandbox.write("texts.txt", "one\n");
        let mut command = sandbox.embed_command(line);
        // SAFETY: `close` may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::close(libc::STDIN_FILENO);
                Ok(())
            });
        }
        let run = sandbox.finish(&mut command);
        assert_eq!(run.code, Some(code), "{line}: {run}");
        if code == 1 {
            assert!(run.stderr.contains("standard input is closed"), "{run}");
            assert_eq!(run.stdout, "");
        }
    }
    assert_eq!(
        sandbox.files(),
        [
            "texts.npy",
            "texts.npy.json",
            "texts.npy.rows.jsonl",
            "texts.txt"
        ]
    );
    // Of the null device nothing is read, as it is meant.
    let run = sandbox.embed("- -o out.npy");
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn standard_error_that_cannot_be_written_to() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = sandbox.finish(sandbox.embed_command("texts.txt -o out.npy").stderr(writer));
    assert_eq!(run.code, Some(0));
    assert!(sandbox.path("out.npy").exists());
}

#[test]
fn a_folder_that_cannot_be_written_to() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let folder = sandbox.path("locked");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    // root may write anywhere, except where no file can be made at all.
    let target = match fs::write(folder.join("probe"), "") {
        Ok(()) => "/proc/self/fd/out.npy",
        Err(_) => "locked/out.npy",
    };
    let run = sandbox.embed(&format!("texts.txt -o {target}"));
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.starts_with("error: cannot create "), "{run}");
    assert!(
        run.stderr.contains("(os error "),
        "the cause is missing: {run}"
    );
}

#[test]
fn a_named_pipe_as_output() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo\n");
    let path =
        std::ffi::CString::new(sandbox.path("pipe").into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: `path` is a C string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let mut child = sandbox
        .embed_command("texts.txt -o pipe -f jsonl")
        .spawn()
        .unwrap();
    let rows = fs::read_to_string(sandbox.path("pipe")).unwrap();
    let status = wait_for("the end of the process", || child.try_wait().unwrap());
    assert_eq!((status.code(), rows.lines().count()), (Some(0), 2));
}

/// A library that crashes while the model runs cannot be caught; who did it and what helps can be said.
#[test]
fn a_crash_is_explained() {
    for (signal, name) in [(libc::SIGSEGV, "SIGSEGV"), (libc::SIGABRT, "SIGABRT")] {
        for (format, output, left) in [
            ("text", "out.npy", "The output file was not written"),
            ("json", "out/", "are kept; --resume continues"),
            (
                "text",
                "out.npy --resume",
                "finished parts are kept beside it, and --resume continues",
            ),
        ] {
            let sandbox = Sandbox::new();
            let line = format!("-o {output} -v --log-format {format} -p rten");
            let running = Running::start(&mut sandbox.embed_command(&line), b"one\n");
            running.wait_until_started();
            running.signal(signal);
            let (status, stderr) = running.wait();
            assert_eq!(status.signal(), Some(signal), "{stderr}");
            let last = stderr.lines().last().unwrap();
            let crash = format!("the process crashed ({name}) while rten");
            assert!(
                last.contains(&crash) && last.contains("--provider cpu"),
                "{stderr}"
            );
            assert!(last.contains(left), "{stderr}");
            if format == "json" {
                let last: serde_json::Value = serde_json::from_str(last).unwrap();
                assert_eq!(last["level"], "error");
                // Every line has a time, and times go on: that of the crash is no placeholder.
                let time = |line: &str| {
                    let line: serde_json::Value = serde_json::from_str(line).unwrap();
                    let time = line["time"].as_str().map(str::to_owned);
                    time.unwrap_or_else(|| panic!("no time: {line}"))
                };
                let times: Vec<String> = stderr.lines().map(time).collect();
                assert!(times.len() > 1 && times.is_sorted(), "{times:?}");
            }
            assert!(!sandbox.path("out.npy").exists());
        }
    }
}
