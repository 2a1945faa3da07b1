//! Faults on the way: every time, a verified model is the end, or a message and nothing that could
//! be taken for a model.

use std::fs;
use std::time::Duration;

use insta::assert_snapshot;

use crate::hub::{At, Fault, etag, sha256};
use crate::world::{MODEL, ONNX, World, small_model};

fn content(file: &str) -> At {
    At::Content(file.to_owned())
}

fn at_hub(file: &str) -> At {
    At::Hub(file.to_owned())
}

/// The ONNX file's length.
fn length() -> usize {
    small_model().get(ONNX).len()
}

// Cut connections and ranges. The pauses are the library's to choose, so these go around the binary.

#[test]
fn a_cut_connection_is_gone_on_with() {
    let world = World::new();
    for after in [100_000, 50_000, 0] {
        world.hub.spoil(content(ONNX), Fault::Cut(after));
    }
    let (_, heard) = world.download().unwrap();
    // Faults are laid over each other: the first answer is cut at the first of its cuts.
    assert_eq!(heard.len(), 1, "{heard:?}");
    world.assert_whole();
}

#[test]
fn several_cut_connections_are_gone_on_with() {
    let world = World::new();
    for (skip, after) in [100_000, 50_000, 25_000].into_iter().enumerate() {
        world
            .hub
            .spoil_some(content(ONNX), skip, 1, Fault::Cut(after));
    }
    let (_, heard) = world.download().unwrap();
    assert_eq!(
        world.hub.ranges(ONNX),
        [None, Some(100_000), Some(150_000), Some(175_000)]
    );
    assert_snapshot!(heard.join("\n"));
    world.assert_whole();
}

#[test]
fn a_connection_that_is_always_cut_ends_in_a_message() {
    let world = World::new();
    world.hub.spoil_all(content(ONNX), Fault::Cut(10_000));
    assert_snapshot!(world.failure(&world.settings()));
    world.assert_nothing_published();
    let partial = format!("{}.incomplete", sha256(small_model().get(ONNX)));
    let kept = fs::read(world.cached().blob(&partial)).unwrap();
    assert_eq!(kept, small_model().get(ONNX)[..40_000]);
    world.hub.mend();
    world.hub.take_asked();
    world.download().unwrap();
    assert_eq!(world.hub.ranges(ONNX), [Some(40_000)]);
    world.assert_whole();
}

#[test]
fn attempts_that_get_somewhere_do_not_count() {
    let world = World::new();
    let files = small_model().with("onnx/model.onnx_data", vec![7; (12 << 20) + 1]);
    world.hub.publish(MODEL, files);
    let file = "onnx/model.onnx_data";
    world
        .hub
        .spoil_some(content(file), 0, 8, Fault::Cut(3 << 19));
    world.download().unwrap();
    assert_eq!(world.hub.ranges(file).len(), 9);
}

#[test]
fn a_connection_that_ends_without_an_answer() {
    let world = World::new();
    for at in [At::Api, at_hub(ONNX), content(ONNX), content("config.json")] {
        world.hub.spoil(at, Fault::NoAnswer);
    }
    world.download().unwrap();
    world.assert_whole();
}

#[test]
fn a_server_that_sends_files_from_their_beginning_only() {
    let world = World::new();
    world.hub.spoil(content(ONNX), Fault::Cut(100_000));
    world
        .hub
        .spoil_some(content(ONNX), 1, 1, Fault::IgnoreRange);
    let (_, heard) = world.download().unwrap();
    assert_eq!(world.hub.ranges(ONNX), [None, Some(100_000)]);
    assert_snapshot!(heard.join("\n"));
    world.assert_whole();
}

#[test]
fn a_server_that_sends_another_part() {
    let world = World::new();
    world.hub.spoil(content(ONNX), Fault::Cut(100_000));
    world.hub.spoil_some(content(ONNX), 1, 1, Fault::WrongRange);
    let (_, heard) = world.download().unwrap();
    assert_eq!(world.hub.ranges(ONNX), [None, Some(100_000), None]);
    assert_snapshot!(heard.join("\n"));
    world.assert_whole();
}

#[test]
fn a_server_that_says_the_range_is_not_there() {
    let world = World::new();
    world.hub.spoil(content(ONNX), Fault::Cut(100_000));
    let refusal = Fault::Status(416, Vec::new());
    world.hub.spoil_some(content(ONNX), 1, 1, refusal);
    let (_, heard) = world.download().unwrap();
    assert_eq!(world.hub.ranges(ONNX), [None, Some(100_000), None]);
    assert_snapshot!(heard.join("\n"));
    world.assert_whole();
}

#[test]
fn an_answer_without_a_length() {
    let world = World::new();
    world.hub.spoil_all(content(ONNX), Fault::Unmeasured);
    world.hub.spoil(content(ONNX), Fault::Cut(100_000));
    world.download().unwrap();
    assert_eq!(world.hub.ranges(ONNX), [None, Some(100_000)]);
    world.assert_whole();
}

#[test]
fn a_slow_trickle() {
    let world = World::new();
    world.hub.spoil_all(content(ONNX), Fault::Trickle(5_000));
    world
        .hub
        .spoil_all(content("config.json"), Fault::Trickle(20));
    let (_, heard) = world.download().unwrap();
    assert_eq!(heard, [""; 0]);
    world.assert_whole();
}

#[test]
fn silence_counts_as_a_cut() {
    let world = World::new();
    let mut hasty = world.settings();
    hasty.net.idle_timeout = Duration::from_millis(100);
    world.hub.spoil(content(ONNX), Fault::Stall(100_000));
    world.hub.spoil(at_hub(ONNX), Fault::Silence);
    world.hub.spoil(At::Api, Fault::Silence);
    world.download_with(&hasty).unwrap();
    assert_eq!(world.hub.ranges(ONNX), [None, Some(100_000)]);
    world.assert_whole();
}

#[test]
fn a_hub_that_never_answers() {
    let world = World::new();
    let mut hasty = world.settings();
    hasty.net.idle_timeout = Duration::from_millis(20);
    world.hub.spoil_all(At::Api, Fault::Silence);
    assert_snapshot!(world.failure(&hasty));
    world.assert_nothing_published();
}

#[test]
fn a_hub_that_is_not_there() {
    let mut world = World::new();
    world.hub.stop();
    assert_snapshot!(world.run("download org/small"));
    assert_snapshot!(world.embed("--model org/small"));
    assert!(!world.cached().exists());
}

// Refusals that may pass.

#[test]
fn refusals_that_pass_are_waited_out() {
    for status in [408, 429, 500, 502, 503, 504] {
        for at in [At::Api, at_hub(ONNX), content(ONNX), content("config.json")] {
            let world = World::new();
            world.hub.spoil_some(at.clone(), 0, 3, Fault::again(status));
            let (_, heard) = world.download().unwrap();
            assert_eq!(heard.len(), 3, "{status} at {at:?}: {heard:?}");
            world.cached().assert_sound();
        }
    }
}

#[test]
fn a_refusal_that_does_not_pass_ends_in_a_message() {
    let world = World::new();
    world.hub.spoil_all(at_hub(ONNX), Fault::again(429));
    let mut run = world.run("download org/small");
    // The other files come or don't, according to the moment.
    run.stderr = lines_about(&run.stderr, ONNX);
    assert_snapshot!(run);
    world.assert_nothing_published();
}

#[test]
fn a_server_that_wants_to_be_left_alone_for_long() {
    let world = World::new();
    let fault = Fault::Status(429, vec![("Retry-After", "3600".to_owned())]);
    world.hub.spoil_all(At::Api, fault);
    assert_snapshot!(world.run("download org/small"));
    assert_eq!(world.hub.asked().len(), 1);
}

#[test]
fn a_pause_in_another_form_is_our_own() {
    let world = World::new();
    let date = "Fri, 31 Dec 1999 23:59:59 GMT".to_owned();
    let fault = Fault::Status(503, vec![("Retry-After", date)]);
    world.hub.spoil(At::Api, fault);
    world.download().unwrap();
}

// Content that is not what it should be.

#[test]
fn spoiled_content_is_fetched_again() {
    for file in [ONNX, "config.json"] {
        let world = World::new();
        world.hub.spoil(content(file), Fault::WrongByte);
        let (_, heard) = world.download().unwrap();
        assert!(heard[0].contains("starts over"), "{heard:?}");
        world.assert_whole();
    }
}

#[test]
fn wrong_content_is_never_published() {
    let world = World::new();
    world.hub.spoil_all(content(ONNX), Fault::WrongByte);
    let run = world.run("download org/small");
    assert_eq!(run.code, Some(1), "{run}");
    assert_snapshot!(lines_about(&run.stderr, ONNX));
    world.assert_nothing_published();
    let partial = format!("{}.incomplete", sha256(small_model().get(ONNX)));
    assert!(!world.cached().blob(&partial).exists(), "known to be wrong");
    let refused = world.embed("--model org/small");
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(!world.sandbox.path("out.npy").exists());
}

#[test]
fn wrong_content_of_a_small_file_is_never_published() {
    let world = World::new();
    let changed = Fault::Content(b"{\"tokenizer_class\": \"Evil\"}".to_vec());
    world
        .hub
        .spoil_all(content("tokenizer_config.json"), changed);
    let error = world.failure(&world.settings());
    assert!(error.contains("tokenizer_config.json"), "{error}");
    world.assert_nothing_published();
}

#[test]
fn content_that_is_too_long() {
    let world = World::new();
    let mut long = small_model().get(ONNX).to_vec();
    long.extend_from_slice(b"more");
    world.hub.spoil_all(content(ONNX), Fault::Content(long));
    assert_snapshot!(world.failure(&world.settings()));
    world.assert_nothing_published();
}

#[test]
fn content_that_is_too_short() {
    let world = World::new();
    let short = small_model().get(ONNX)[..1000].to_vec();
    world.hub.spoil_all(content(ONNX), Fault::Content(short));
    assert_snapshot!(world.failure(&world.settings()));
    world.assert_nothing_published();
}

#[test]
fn a_pointer_instead_of_the_file() {
    let world = World::new();
    let pointer = format!("oid sha256:{}\n", sha256(small_model().get(ONNX)));
    let fault = Fault::Content(pointer.into_bytes());
    world.hub.spoil_all(content(ONNX), fault);
    let error = world.failure(&world.settings());
    assert!(error.contains(ONNX), "{error}");
    world.assert_nothing_published();
}

// Remains of an earlier run.

fn left_behind(content: &[u8]) -> World {
    let world = World::new();
    let files = small_model();
    let partial = format!("{}.incomplete", etag(ONNX, files.get(ONNX)));
    let place = world.cached().blob(&partial);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, content).unwrap();
    world
}

#[test]
fn a_part_is_gone_on_with() {
    let world = left_behind(&small_model().get(ONNX)[..400_000]);
    world.done("download org/small");
    assert_eq!(world.hub.ranges(ONNX), [Some(400_000)]);
    world.assert_whole();
}

#[test]
fn a_complete_part_is_verified_and_published() {
    let world = left_behind(small_model().get(ONNX));
    world.done("download org/small");
    assert_eq!(world.hub.ranges(ONNX), []);
    world.assert_whole();
}

#[test]
fn a_wrong_part_is_thrown_away() {
    let wrong = vec![7; 400_000];
    let world = left_behind(&wrong);
    let run = world.done("download org/small");
    assert_eq!(world.hub.ranges(ONNX), [Some(400_000), None]);
    assert_snapshot!(lines_about(&run.stderr, ONNX));
    world.assert_whole();
}

#[test]
fn a_complete_and_wrong_part_is_thrown_away() {
    let world = left_behind(&vec![7; length()]);
    let run = world.done("download org/small");
    assert_eq!(world.hub.ranges(ONNX), [None]);
    assert_snapshot!(lines_about(&run.stderr, ONNX));
    world.assert_whole();
}

#[test]
fn a_part_that_is_too_long_is_thrown_away() {
    let world = left_behind(&vec![7; length() + 1]);
    let run = world.done("download org/small");
    assert_eq!(world.hub.ranges(ONNX), [None]);
    assert_snapshot!(lines_about(&run.stderr, ONNX));
    world.assert_whole();
}

// Redirects.

#[test]
fn redirects_without_an_end() {
    let world = World::new();
    let back = format!("/{MODEL}/resolve/{}/{ONNX}", world.commit);
    world
        .hub
        .spoil_all(at_hub(ONNX), Fault::Redirect(302, back));
    let error = world.failure(&world.settings());
    assert_snapshot!(error);
    world.assert_nothing_published();
}

#[test]
fn redirects_to_what_is_no_address() {
    for location in ["ftp://127.0.0.1/model", "http://", "file:///etc/passwd"] {
        let world = World::new();
        let fault = Fault::Redirect(302, location.to_owned());
        world.hub.spoil_all(at_hub(ONNX), fault);
        let error = world.failure(&world.settings());
        assert!(
            error.ends_with("redirects to an invalid address"),
            "{error}"
        );
        world.assert_nothing_published();
    }
}

#[test]
fn a_repository_with_a_new_name() {
    let world = World::new();
    let renamed = ("old/name".to_owned(), MODEL.to_owned());
    world.hub.nature().renamed.extend([renamed]);
    world.done("download old/name");
    let cached =
        crate::world::Cached::of(&world.sandbox.path(".cache/huggingface/hub"), "old/name");
    cached.assert_sound();
    assert_eq!(cached.files(&world.commit), small_model());
}

// Mirrors that say less.

#[test]
fn a_mirror_whose_list_has_names_alone() {
    let world = World::new();
    world.hub.nature().names_only = true;
    let (_, heard) = world.download().unwrap();
    assert_eq!(heard, [""; 0]);
    world.assert_whole();
    world.hub.take_asked();
    world.done("download org/small");
    assert_eq!(world.hub.fetched(), [""; 0]);
}

#[test]
fn a_mirror_whose_list_has_names_alone_and_spoils_content() {
    let world = World::new();
    world.hub.nature().names_only = true;
    world.hub.spoil_all(content(ONNX), Fault::WrongByte);
    let error = world.failure(&world.settings());
    assert!(error.contains("does not match the Hub's record"), "{error}");
    world.assert_nothing_published();
}

#[test]
fn a_mirror_that_tells_no_hash() {
    let world = World::new();
    world.hub.nature().names_only = true;
    world.hub.nature().no_hashes = true;
    world.hub.spoil(content(ONNX), Fault::Cut(100_000));
    let (_, heard) = world.download().unwrap();
    assert!(
        heard.iter().any(|text| text.contains("no hash")),
        "{heard:?}"
    );
    assert_eq!(world.cached().files(&world.commit), small_model());
    let run = world.done("download --check org/small --offline");
    assert!(run.stderr.contains("no hash is known for"), "{run}");
    assert_eq!(world.embed("--model org/small --offline").code, Some(0));
}

/// Nothing could tell what an earlier run has left from the file itself.
#[test]
fn without_a_hash_no_part_is_gone_on_with() {
    let world = World::new();
    world.hub.nature().names_only = true;
    world.hub.nature().no_hashes = true;
    let partial = format!("{}-onnx--model.onnx.incomplete", world.commit);
    let place = world.cached().blob(&partial);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, [7; 1000]).unwrap();
    world.download().unwrap();
    assert_eq!(world.hub.ranges(ONNX), [None]);
    assert_eq!(world.cached().files(&world.commit), small_model());
}

#[test]
fn what_is_no_hub() {
    let world = World::new();
    let page = Fault::Content(b"<html>Please sign in to the hotel's network</html>".to_vec());
    world.hub.spoil(At::Api, page);
    assert_snapshot!(world.run("download org/small"));
    world.hub.spoil(At::Api, Fault::Content(b"{}".to_vec()));
    assert_snapshot!(world.run("download org/small"));
    assert!(!world.cached().exists());
}

#[test]
fn names_that_would_lead_out_of_the_cache() {
    let world = World::new();
    let files = small_model()
        .with("../../escaped", "x")
        .with("a:b", "x")
        .with("c\\d", "x");
    let commit = world.hub.publish(MODEL, files);
    let run = world.done("download org/small --all");
    assert_snapshot!(lines_about(&run.stderr, "left out"));
    assert_eq!(world.cached().files(&commit), small_model());
}

// The disk.

/// Content grows in a file of its own, never behind a link: that leads to somebody's file.
#[test]
#[cfg(target_os = "linux")]
fn a_link_where_content_grows() {
    let world = World::new();
    let partial = format!("{}.incomplete", sha256(small_model().get(ONNX)));
    let place = world.cached().blob(&partial);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    world.sandbox.write("precious", "mine");
    std::os::unix::fs::symlink(world.sandbox.path("precious"), &place).unwrap();
    let run = world.run("download org/small");
    assert_eq!(run.code, Some(1), "{run}");
    assert_snapshot!(
        run.stderr
            .lines()
            .find(|line| line.starts_with("error"))
            .unwrap()
    );
    assert_eq!(fs::read(world.sandbox.path("precious")).unwrap(), b"mine");
    fs::remove_file(place).unwrap();
    world.assert_nothing_published();
    world.done("download org/small");
    world.assert_whole();
}

/// Past a limit of the shell's (`ulimit -f`), writes fail as on a full disk, and what came before is kept.
#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_takes_no_more() {
    use std::os::unix::process::CommandExt;
    let world = World::new();
    let mut command = world.command("download org/small");
    let limit = || {
        let limit = libc::rlimit {
            rlim_cur: 300_000,
            rlim_max: 300_000,
        };
        // SAFETY: both calls are async-signal-safe, and the limit is a whole struct of our own.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no locks.
    unsafe { command.pre_exec(limit) };
    let run = world.finish(&mut command);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("File too large"), "{run}");
    world.assert_nothing_published();
    world.hub.take_asked();
    world.done("download org/small");
    assert_eq!(world.hub.ranges(ONNX), [Some(300_000)]);
    world.assert_whole();
}

#[test]
fn a_cache_that_cannot_be_made() {
    let world = World::new();
    world.sandbox.write("cache", "a file");
    let run = world.run("download org/small --cache-dir cache");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("[FOLDER]") || run.stderr.contains("cache/"),
        "{run}"
    );
}

fn lines_about(text: &str, what: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| line.contains(what)).collect()
}
