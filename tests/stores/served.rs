//! `serve --like` with an output in a store.

use serde_json::Value;

use crate::runs::World;
use crate::sandbox::{SMALL_MODEL, in_repository};
use crate::server::Server;
use crate::servers::moto;

#[test]
fn a_server_is_like_an_object_and_like_a_folder_of_parts() {
    let Some(store) = moto("a_server_is_like_an_object_and_like_a_folder_of_parts") else {
        return;
    };
    let world = World::new(store);
    store.bucket("served");
    let model = in_repository(SMALL_MODEL).display().to_string();
    for output in [
        "served.jsonl",
        "s3://served/a/out.parquet",
        "s3://served/parts/",
    ] {
        let format = if output.ends_with('/') {
            "-f parquet --part-rows 2"
        } else {
            ""
        };
        let run = world.any(&format!(
            "embed texts.txt --keep text -m {model} -p native -o {output} {format}"
        ));
        assert_eq!(run.code, Some(0), "{run}");
    }
    let lines = std::fs::read_to_string(world.sandbox.path("served.jsonl")).unwrap();
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for like in ["s3://served/a/out.parquet", "s3://served/parts/"] {
        let mut command = world.sandbox.command(["serve", "--listen", "127.0.0.1:0"]);
        command.args(["--like", like, "--verify", "2"]);
        let settings = store.settings.iter();
        command.envs(settings.map(|(name, value)| (*name, value)));
        let server = Server::spawn(&mut command);
        let said = server.messages();
        assert!(
            said.contains("2 rows embedded again: least cosine 1.0"),
            "{said}"
        );
        let texts: Vec<String> = rows
            .iter()
            .map(|row| row["text"].as_str().unwrap().to_owned())
            .collect();
        for (served, row) in server.vectors(&texts).iter().zip(&rows) {
            let own: Vec<f32> = serde_json::from_value(row["embedding"].clone()).unwrap();
            assert_eq!(served.len(), own.len());
            let apart = served.iter().zip(&own).map(|(a, b)| (a - b).abs());
            assert!(apart.fold(0.0, f32::max) < 1e-5, "{like}");
        }
    }
    let run = world.any("serve --listen 127.0.0.1:0 --like s3://served/gone.parquet");
    assert_eq!(run.code, Some(2), "{run}");
    let words = "there is no object s3://served/gone.parquet";
    assert!(run.stderr.contains(words), "{run}");
}
