//! Downloads that are interrupted or killed, and resumed by the next run.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use embedctl_testing::stride;

use crate::hub::{At, Fault, Host, sha256};
use crate::support::wait_for;
use crate::world::{MODEL, ONNX, World, names, small_model};

fn signal(child: &Child, signal: i32) {
    let id = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the child has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

/// Starts a command, and stops it when there is something to see.
fn interrupted<T>(command: &mut Command, kind: i32, what: &str, look: impl FnMut() -> Option<T>) {
    let child = command.spawn().unwrap();
    wait_for(what, look);
    signal(&child, kind);
    let signalled = Instant::now();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    // A list fetches nothing that could be kept.
    let last = if command.get_args().any(|argument| argument == "--list") {
        "error: interrupted\n"
    } else {
        "error: interrupted; downloaded data is kept, and the same command resumes the download\n"
    };
    assert!(said.ends_with(last), "{said}");
    // A request that cannot be called back is left after five seconds.
    assert!(signalled.elapsed() < Duration::from_secs(4), "{said}");
}

// Interrupts.

#[test]
fn a_stalled_download_stops_at_once_and_is_gone_on_with() {
    for kind in [libc::SIGINT, libc::SIGTERM] {
        let world = World::new();
        world
            .hub
            .spoil(At::Content(ONNX.into()), Fault::Stall(100_000));
        let partial = format!("{}.incomplete", sha256(small_model().get(ONNX)));
        let partial = world.cached().blob(&partial);
        interrupted(
            &mut world.command("download org/small"),
            kind,
            "the first part of the file",
            || (fs::metadata(&partial).ok()?.len() == 100_000).then_some(()),
        );
        world.assert_nothing_published();
        world.hub.take_asked();
        world.done("download org/small");
        assert_eq!(world.hub.ranges(ONNX), [Some(100_000)]);
        world.assert_whole();
    }
}

#[test]
fn a_hub_that_is_silent_keeps_nobody_waiting() {
    for line in ["download org/small", "download org/small --list"] {
        let world = World::new();
        world.hub.spoil_all(At::Api, Fault::Silence);
        interrupted(
            &mut world.command(line),
            libc::SIGINT,
            "the request",
            || world.hub.asked().pop(),
        );
    }
}

#[test]
fn embed_stops_while_it_fetches() {
    let world = World::new();
    world
        .hub
        .spoil_all(At::Content(ONNX.into()), Fault::Stall(100_000));
    let asked_storage = || {
        let asked = world.hub.asked();
        asked.into_iter().find(|asked| asked.host == Host::Storage)
    };
    let mut command = world.embed_command("--model org/small");
    interrupted(&mut command, libc::SIGINT, "the request", asked_storage);
    assert!(!world.sandbox.path("out.npy").exists());
    world.assert_nothing_published();
}

#[test]
fn a_pause_between_attempts_stops_at_once() {
    let world = World::new();
    let fault = Fault::Status(503, vec![("Retry-After", "200".to_owned())]);
    world.hub.spoil_all(At::Api, fault);
    let mut command = world.command("download org/small");
    interrupted(&mut command, libc::SIGINT, "the request", || {
        world.hub.asked().pop()
    });
    assert_eq!(world.hub.asked().len(), 1);
}

#[test]
fn waiting_for_another_process_stops_at_once() {
    let world = World::new();
    world
        .hub
        .spoil(At::Content(ONNX.into()), Fault::Stall(100_000));
    let mut first = world.command("download org/small -q").spawn().unwrap();
    let asked_storage = || {
        let asked = world.hub.asked();
        asked.into_iter().find(|asked| asked.host == Host::Storage)
    };
    wait_for("the request", asked_storage);
    // The second one asks what there is, and then waits.
    let mut command = world.command("download org/small");
    interrupted(&mut command, libc::SIGINT, "the second list", || {
        let asked = world.hub.asked();
        let lists = asked.iter().filter(|asked| asked.file.is_none());
        (lists.count() == 2).then_some(())
    });
    first.kill().unwrap();
    first.wait().unwrap();
    world.done("download org/small");
    world.assert_whole();
}

// Kills.

/// Numbers that look like chance and are the same every time.
struct Random(u64);

impl Random {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        // Knuth's MMIX.
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let limit = u64::try_from(limit).unwrap();
        usize::try_from((self.0 >> 33) % limit).unwrap()
    }
}

/// Runs a command and kills it when so many bytes of a file have been sent; returns whether it came to that.
fn killed_at(
    world: &World,
    command: &mut Command,
    file: &str,
    after: usize,
    wait: Duration,
) -> bool {
    let child: Arc<Mutex<Option<Child>>> = Arc::default();
    let (spawned, is_spawned) = mpsc::channel();
    let is_spawned = Mutex::new(is_spawned);
    let hook = {
        let child = Arc::clone(&child);
        move || {
            let _ = is_spawned.lock().unwrap().recv();
            thread::sleep(wait); // past the last byte: into verifying and publishing
            if let Some(child) = child.lock().unwrap().as_mut() {
                let _ = child.kill(); // does nothing to one that has ended
            }
        }
    };
    world
        .hub
        .spoil(At::Content(file.into()), Fault::call(after, hook));
    *child.lock().unwrap() = Some(command.spawn().unwrap());
    spawned.send(()).unwrap();
    let status = wait_for("the end of the process", || {
        child.lock().unwrap().as_mut().unwrap().try_wait().unwrap()
    });
    world.hub.mend();
    status.signal() == Some(libc::SIGKILL)
}

/// After a kill: what is called by a name is what it is called, and a branch stands for something whole.
fn assert_no_harm(world: &World) {
    let cached = world.cached();
    cached.assert_sound();
    let files = small_model();
    for commit in names(&cached.0.join("snapshots")) {
        for (path, content) in cached.files(&commit).0 {
            if !path.contains(".embedctl-") {
                assert_eq!(content, files.get(&path), "{path}");
            }
        }
    }
    if let Some(commit) = cached.commit("main") {
        let mut found = cached.files(&commit);
        found.0.retain(|path, _| !path.contains(".embedctl-"));
        assert_eq!(found, files);
    }
}

#[test]
fn killed_downloads_always_end_in_a_verified_model() {
    let mut random = Random(20_260_728);
    let sizes = small_model();
    let (mut kills, mut caches) = (0, 0);
    while kills < 40 / stride(3) {
        let world = World::new();
        caches += 1;
        for _ in 0..3 {
            // The large file most of the time: the others are one piece.
            let file = ["config.json", "tokenizer.json", ONNX, ONNX, ONNX][random.below(5)];
            let length = sizes.get(file).len();
            // One in four is sent to its end, and the process gets a moment more.
            let (after, wait) = match random.below(4) {
                0 => (length, Duration::from_micros(random.below(8000) as u64)),
                _ => (random.below(length), Duration::ZERO),
            };
            let mut command = world.command("download org/small -q");
            kills += usize::from(killed_at(&world, &mut command, file, after, wait));
            assert_no_harm(&world);
        }
        world.done("download org/small");
        assert_no_harm(&world);
        world.assert_whole();
        let cached = world.cached();
        assert_eq!(cached.incomplete(), [""; 0]);
        assert_eq!(cached.commit("main"), Some(world.commit.clone()));
        assert!(
            caches < 100,
            "only {kills} of {} runs were killed",
            caches * 3
        );
    }
}

#[test]
fn killed_downloads_into_a_folder_end_in_a_verified_model() {
    let mut random = Random(42);
    let length = small_model().get(ONNX).len();
    let mut kills = 0;
    for round in 0.. {
        let world = World::new();
        let line = "download org/small --local-dir small -q";
        let after = random.below(length + 1);
        let wait = Duration::ZERO;
        kills += usize::from(killed_at(
            &world,
            &mut world.command(line),
            ONNX,
            after,
            wait,
        ));
        assert!(!world.sandbox.path("small").join(ONNX).exists() || after == length);
        world.done(line);
        world.done("download --check small");
        assert!(!world.sandbox.path("small/.embedctl-partial").exists());
        if kills == 5 {
            break;
        }
        assert!(round < 20, "only {kills} runs were killed");
    }
}

#[test]
fn a_killed_embed_is_gone_on_with() {
    let world = World::new();
    let mut command = world.embed_command("--model org/small -q");
    assert!(killed_at(
        &world,
        &mut command,
        ONNX,
        200_000,
        Duration::ZERO
    ));
    assert_no_harm(&world);
    assert!(!world.sandbox.path("out.npy").exists());
    assert_eq!(world.embed("--model org/small").code, Some(0));
    world.assert_whole();
}

/// A branch that moves while a process is killed stands for the old commit or for the new one.
#[test]
fn a_killed_update_leaves_the_old_model_whole() {
    let world = World::new();
    world.done("download org/small");
    let mut onnx = small_model().get(ONNX).to_vec();
    onnx.extend_from_slice(&[0x32, 0]); // one more field, and empty
    world.hub.publish(MODEL, small_model().with(ONNX, onnx));
    let mut command = world.command("download org/small -q");
    assert!(killed_at(
        &world,
        &mut command,
        ONNX,
        200_000,
        Duration::ZERO
    ));
    assert_no_harm(&world);
    world.assert_whole();
    assert_eq!(world.embed("--model org/small --offline").code, Some(0));
}
