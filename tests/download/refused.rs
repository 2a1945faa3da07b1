//! Access to the Hub: tokens, gated and private repositories, and the messages for refusals.

use std::fs;
use std::process::Command;

use insta::assert_snapshot;

use crate::hub::{Asked, At, Fault, Host};
use crate::sandbox::Run;
use crate::world::{MODEL, ONNX, TOKEN, World};

/// A Hub that knows one token.
fn hub_with_a_token() -> World {
    let world = World::new();
    world.hub.nature().tokens.insert(TOKEN.to_owned());
    world
}

fn gated() -> World {
    let world = hub_with_a_token();
    let gate = (MODEL.to_owned(), TOKEN.to_owned());
    world.hub.nature().gated.extend([gate]);
    world
}

fn private() -> World {
    let world = hub_with_a_token();
    let lock = (MODEL.to_owned(), TOKEN.to_owned());
    world.hub.nature().private.extend([lock]);
    world
}

impl World {
    fn as_somebody(&self, line: &str, token: &str) -> Run {
        self.finish(self.command(line).env("HF_TOKEN", token))
    }

    /// Runs with a token that opens the model, wherever it comes from.
    fn assert_opened(&self, command: &mut Command) {
        let run = self.finish(command);
        assert_eq!(run.code, Some(0), "{run}");
        self.assert_token_went_to_the_hub_alone();
    }

    fn assert_token_went_to_the_hub_alone(&self) {
        let asked = self.hub.asked();
        let wanted = format!("Bearer {TOKEN}");
        let (hub, storage): (Vec<&Asked>, Vec<&Asked>) =
            asked.iter().partition(|asked| asked.host == Host::Hub);
        assert!(!hub.is_empty() && !storage.is_empty());
        for asked in hub {
            assert_eq!(asked.authorization(), Some(wanted.as_str()), "{asked:?}");
        }
        for asked in storage {
            assert_eq!(asked.authorization(), None, "{asked:?}");
        }
    }
}

#[test]
fn an_unknown_repository() {
    let world = World::new();
    assert_snapshot!(world.run("download org/none"));
    assert_snapshot!(world.as_somebody("download org/none", TOKEN));
    assert_snapshot!(world.run("download org/none --list"));
    assert_snapshot!(world.embed("--model org/none"));
    assert!(!world.sandbox.path(".cache").exists());
}

#[test]
fn an_unknown_revision() {
    let world = World::new();
    assert_snapshot!(world.run("download org/small@v9"));
    let commit = "0".repeat(40);
    let run = world.run(&format!("download org/small@{commit}"));
    assert!(run.stderr.contains("has no revision"), "{run}");
    assert!(!world.sandbox.path(".cache").exists());
}

#[test]
fn a_gated_repository_without_a_token() {
    let world = gated();
    let run = world.run("download org/small");
    assert_snapshot!(run);
    world.assert_nothing_published();
}

#[test]
fn a_gated_repository_with_a_token_that_has_no_access() {
    let world = gated();
    world.hub.nature().tokens.insert("hf_other".to_owned());
    assert_snapshot!(world.as_somebody("download org/small", "hf_other"));
    world.assert_nothing_published();
}

#[test]
fn a_private_repository() {
    let world = private();
    let run = world.run("download org/small");
    assert!(run.stderr.contains("if it is private"), "{run}");
    let run = world.as_somebody("download org/small", TOKEN);
    assert_eq!(run.code, Some(0), "{run}");
    world.assert_whole();
}

#[test]
fn a_token_that_nobody_knows() {
    let world = hub_with_a_token();
    assert_snapshot!(world.as_somebody("download org/small", "hf_mistyped"));
    assert!(!world.sandbox.path(".cache").exists());
}

#[test]
fn a_token_that_no_header_can_hold() {
    let world = gated();
    assert_snapshot!(world.as_somebody("download org/small", "hf_two words"));
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn a_refusal_in_no_known_words() {
    let world = World::new();
    let fault = Fault::coded(403, "DisabledRepo", "Access to this resource is disabled.");
    world.hub.spoil(At::Api, fault);
    assert_snapshot!(world.run("download org/small"));
    world.hub.spoil(At::Api, Fault::Status(418, Vec::new()));
    assert_snapshot!(world.run("download org/small"));
}

#[test]
fn a_listed_file_that_is_not_there() {
    let world = World::new();
    let fault = Fault::coded(404, "EntryNotFound", "Entry not found");
    world.hub.spoil_all(At::Hub(ONNX.into()), fault);
    let error = world.failure(&world.settings());
    assert_snapshot!(error);
    world.assert_nothing_published();
}

#[test]
fn a_storage_that_refuses() {
    let world = World::new();
    let fault = Fault::Status(403, Vec::new());
    world.hub.spoil_all(At::Content(ONNX.into()), fault);
    let error = world.failure(&world.settings());
    assert_snapshot!(error);
    world.assert_nothing_published();
}

// Where the token comes from, and where it goes to.

#[test]
fn the_token_of_the_environment() {
    for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
        let world = gated();
        let mut command = world.command("download org/small");
        world.assert_opened(command.env(name, format!(" {TOKEN}\n")));
    }
}

#[test]
fn the_token_of_a_file() {
    let world = gated();
    world.sandbox.write("secret", format!("{TOKEN}\n"));
    let mut command = world.command("download org/small");
    world.assert_opened(command.env("HF_TOKEN_PATH", "secret"));
}

#[test]
fn the_token_that_was_stored() {
    let world = gated();
    let folder = world.sandbox.path(".cache/huggingface");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("token"), TOKEN).unwrap();
    let mut command = world.command("download org/small");
    let command = command.env("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
    assert_eq!(world.finish(command).code, Some(1));
    world.hub.take_asked();
    world.assert_opened(&mut world.command("download org/small"));
}

#[test]
fn the_token_that_was_stored_elsewhere() {
    let world = gated();
    fs::create_dir(world.sandbox.path("hf")).unwrap();
    world.sandbox.write("hf/token", TOKEN);
    world.assert_opened(world.command("download org/small").env("HF_HOME", "hf"));
    assert!(world.sandbox.path("hf/hub/models--org--small").is_dir());
}

#[test]
fn the_token_follows_a_repository_to_its_new_name() {
    let world = gated();
    let renamed = ("old/name".to_owned(), MODEL.to_owned());
    world.hub.nature().renamed.extend([renamed]);
    world.assert_opened(world.command("download old/name").env("HF_TOKEN", TOKEN));
}

#[test]
fn embed_passes_the_token_too() {
    let world = gated();
    world.assert_opened(
        world
            .embed_command("--model org/small")
            .env("HF_TOKEN", TOKEN),
    );
}

/// A mirror that sends to another host of the same kind must not have the token carried there.
#[test]
fn the_token_goes_to_no_other_hub() {
    let world = gated();
    let other = World::new();
    let target = format!("{}/api/models/org/small/revision/main", other.hub.url());
    world.hub.spoil(At::Api, Fault::Redirect(302, target));
    let run = world.as_somebody("download org/small", TOKEN);
    assert_ne!(other.hub.asked().len(), 0, "{run}");
    assert!(
        other
            .hub
            .asked()
            .iter()
            .all(|asked| asked.authorization().is_none())
    );
}

/// Every run of these tests is looked through for the token; these say as much as there is to say.
#[test]
fn the_token_is_in_no_message() {
    let faults = [
        Fault::Status(403, Vec::new()),
        Fault::coded(401, "RepoNotFound", "Repository not found"),
        Fault::again(503),
        Fault::Redirect(302, format!("http://user:{TOKEN}@/nowhere")),
        Fault::Redirect(302, format!("ftp://127.0.0.1/{TOKEN}")),
        Fault::Redirect(302, format!("http://127.0.0.1:1/{TOKEN}?signature={TOKEN}")),
        Fault::Content(b"no JSON".to_vec()),
    ];
    for fault in faults {
        for at in [At::Api, At::Hub(ONNX.into())] {
            let world = gated();
            world.hub.spoil_all(at.clone(), fault.clone());
            for form in ["text", "json"] {
                let line = format!("download org/small -v --log-format {form} --json");
                // Looks for the token.
                let run = world.as_somebody(&line, TOKEN);
                if !matches!((&at, &fault), (At::Hub(_), Fault::Content(_))) {
                    assert_eq!(run.code, Some(1), "{run}");
                }
            }
        }
    }
}
