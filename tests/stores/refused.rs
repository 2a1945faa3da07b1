//! Refusals of stores: the message has the address, the reason and a remedy, and never a secret.

use crate::hub::http::{Reply, Server as Faulty};
use crate::runs::World;
use crate::sandbox::Sandbox;
use crate::servers::{Server, google, moto};

/// A run that a store refuses; what it says.
fn refused(world: &World, line: &str, variables: &[(&str, &str)]) -> String {
    let mut command = world.command(line);
    command.envs(variables.iter().copied());
    let run = world.sandbox.finish(&mut command);
    assert_ne!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("5ecret"), "{}", run.stderr);
    run.stderr
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
}

#[test]
fn a_bucket_that_is_not_there() {
    let Some(store) = moto("a_bucket_that_is_not_there") else {
        return;
    };
    let world = World::new(store);
    let said = refused(&world, "texts.txt -o s3://nobodys/out.parquet", &[]);
    says(
        &said,
        &["s3://nobodys/out.parquet", "there is no bucket nobodys"],
    );
}

/// As in a folder.
#[test]
fn documents_that_are_not_text_are_named_below_a_prefix() {
    let Some(store) = moto("documents_that_are_not_text_are_named_below_a_prefix") else {
        return;
    };
    let world = World::new(store);
    store.bucket("papers");
    store.boto(
        "for key in ['d/a.md', 'd/b.pdf', 't/a.txt', 't/b.docx', 'r/a.jsonl', 'r/b.pdf', 'd/.c.pdf']:\n\
         \x20   s3.put_object(Bucket='papers', Key=key, Body=b'{\"text\": \"one\"}\\n')",
    );
    for (prefix, said) in [
        ("d", "s3://papers/d/b.pdf (a PDF) is"),
        ("t", "s3://papers/t/b.docx"),
    ] {
        let line = format!("s3://papers/{prefix}/ -o out.npy");
        let refusal = refused(&world, &line, &[]);
        says(&refusal, &[said, "convert with"]);
        assert!(!refusal.contains(".c.pdf"), "{refusal}");
    }
    world.done("s3://papers/r/ -o out.npy");
}

#[test]
fn a_bucket_that_one_may_not_use_and_keys_that_are_none() {
    let test = "a_bucket_that_one_may_not_use_and_keys_that_are_none";
    // The first three requests prepare; from then on credentials and permissions count.
    let Some(mut store) = Server::moto(test, &[("INITIAL_NO_AUTH_ACTION_COUNT", "4")]) else {
        return;
    };
    let keys = store.boto(
        "s3.create_bucket(Bucket='closed')\n\
         iam.create_user(UserName='u')\n\
         key = iam.create_access_key(UserName='u')['AccessKey']\n\
         print(key['AccessKeyId'], key['SecretAccessKey'])",
    );
    let (id, secret) = keys.split_once(' ').unwrap();
    let unknown = {
        let world = World::new(&store);
        refused(&world, "texts.txt -o s3://closed/out.parquet --force", &[])
    };
    says(
        &unknown,
        &[
            "s3://closed/out.parquet",
            "credentials are not accepted",
            "AWS_ACCESS_KEY_ID",
        ],
    );
    let (id, secret) = (id.to_owned(), secret.to_owned());
    store.settings.retain(|(name, _)| !name.contains("KEY"));
    store.settings.push(("AWS_ACCESS_KEY_ID", id));
    store
        .settings
        .push(("AWS_SECRET_ACCESS_KEY", secret.clone()));
    let world = World::new(&store);
    let said = refused(&world, "texts.txt -o s3://closed/out.parquet --force", &[]);
    says(
        &said,
        &[
            "s3://closed/out.parquet",
            "access is denied",
            "s3:PutObject",
        ],
    );
    assert!(!said.contains(&secret));
}

/// A store that always answers the same.
fn always(
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> Faulty {
    Faulty::start(None, move |_| {
        let reply = Reply::new(status).body(body);
        headers
            .iter()
            .fold(reply, |reply, (name, value)| reply.with(name, value))
    })
}

fn with_store(server: &Faulty, variables: &[(&str, &str)], url: &str) -> String {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let mut command = sandbox.embed_command(&format!("texts.txt --force -o {url}"));
    command
        .env("AWS_ENDPOINT_URL", format!("http://{}", server.host()))
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(variables.iter().copied());
    let run = sandbox.finish(&mut command);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(!run.stderr.contains("5ecret"), "{}", run.stderr);
    assert_eq!(sandbox.files(), ["texts.txt"]);
    run.stderr
}

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "testkey"),
    ("AWS_SECRET_ACCESS_KEY", "5ecretkey5"),
];

#[test]
fn credentials_that_have_expired() {
    let body = "<Error><Code>ExpiredToken</Code><Message>The provided token has expired: 5ecretkey5.</Message></Error>";
    let said = with_store(&always(400, &[], body), &KEYS, "s3://b/out.parquet");
    says(
        &said,
        &[
            "s3://b/out.parquet",
            "have expired",
            "aws configure export-credentials",
        ],
    );
}

#[test]
fn inputs_that_are_refused_leave_nothing() {
    let denied = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
    let expired = "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>";
    for (status, body, parts) in [
        (
            403,
            denied,
            ["access is denied: it may not be read", "s3:GetObject"],
        ),
        (
            400,
            expired,
            ["have expired", "aws configure export-credentials"],
        ),
    ] {
        let server = always(status, &[], body);
        let sandbox = Sandbox::new();
        sandbox.write("texts.txt", "one\n");
        for (line, address, other) in [
            ("s3://b/in.parquet -o out.npy", "s3://b/in.parquet", parts),
            (
                "s3://b/in/ -o out.npy",
                "s3://b/in/",
                ["it may not be listed", "s3:ListBucket"],
            ),
            // Without permission to read metadata, writing is refused, too.
            (
                "texts.txt -o s3://b/out.npz -f jsonl",
                "s3://b/out.npz",
                ["it may not be written", "s3:PutObject"],
            ),
        ] {
            let mut command = sandbox.embed_command(line);
            command
                .env("AWS_ENDPOINT_URL", format!("http://{}", server.host()))
                .env("AWS_EC2_METADATA_DISABLED", "true")
                .envs(KEYS);
            let run = sandbox.finish(&mut command);
            assert_eq!(run.code, Some(1), "{run}");
            let parts = if status == 403 { other } else { parts };
            says(&run.stderr, &[&[address], &parts[..]].concat());
            assert_eq!(sandbox.files(), ["texts.txt"]);
        }
    }
}

#[test]
fn google_accepts_no_other_key() {
    let test = "google_accepts_no_other_key";
    let (Some(store), Some(other)) = (google(test), Server::google(test, &[])) else {
        return;
    };
    let world = World::new(store);
    let said = refused(&world, "texts.txt -o gs://nobodys/out.parquet", &[]);
    says(
        &said,
        &["gs://nobodys/out.parquet", "there is no bucket nobodys"],
    );
    store.bucket("guarded");
    let (name, key) = &other.settings[1];
    let line = "texts.txt -o gs://guarded/out.parquet";
    let said = refused(&world, line, &[(name, key)]);
    says(
        &said,
        &[
            "gs://guarded/out.parquet",
            "credentials are not accepted",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ],
    );
    let said = refused(&world, line, &[(name, "{}")]);
    says(&said, &["gs://guarded/out.parquet", "private_key"]);
}

#[test]
fn a_bucket_in_another_region() {
    let body = "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>";
    let server = always(301, &[("x-amz-bucket-region", "eu-west-1")], body);
    let said = with_store(&server, &KEYS, "s3://b/out.parquet");
    says(
        &said,
        &[
            "s3://b/out.parquet",
            "another region",
            "AWS_REGION=eu-west-1",
        ],
    );
}

#[test]
fn no_credentials_at_all() {
    let server = always(403, &[], "");
    let said = with_store(&server, &[], "s3://b/out.parquet");
    says(
        &said,
        &["s3://b/out.parquet", "no credentials", "AWS_ACCESS_KEY_ID"],
    );
    let said = with_store(&server, &[("AWS_PROFILE", "work")], "s3://b/out.parquet");
    says(
        &said,
        &[
            "profile work",
            "aws configure export-credentials --profile work --format env",
        ],
    );
}

#[test]
fn what_cannot_be_meant() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    for (line, part) in [
        ("texts.txt -o ftp://host/x.parquet", "s3://, gs://, az://"),
        (
            "texts.txt -o https://host/x.parquet",
            "nothing can be written to https://",
        ),
        (
            "texts.txt -o s3://b/x.parquet --storage-option colour=blue",
            "no object store has a setting",
        ),
        (
            "texts.txt -o x.parquet --storage-option aws_region=x",
            "is an address",
        ),
        (
            "texts.txt -o s3://b/x.parquet --storage-option aws_region",
            "KEY=VALUE",
        ),
    ] {
        let run = sandbox.embed(line);
        assert_eq!(run.code, Some(2), "{line}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{line}: {}", run.stderr);
        assert_eq!(sandbox.files(), ["texts.txt"]);
    }
}

/// A server that answers every request with a redirect.
fn redirecting(to: String) -> Faulty {
    Faulty::start(None, move |_| Reply::new(302).with("Location", &to))
}

fn from_address(url: &str) -> String {
    let sandbox = Sandbox::new();
    let run = sandbox.finish(&mut sandbox.embed_command(&format!("{url} -o out.npy")));
    assert!(!matches!(run.code, Some(0 | 101) | None), "{run}");
    assert!(sandbox.files().is_empty(), "{run}");
    run.stderr
}

#[test]
fn a_refusal_behind_redirects_names_the_host_that_refuses() {
    let guarded = always(403, &[], "");
    let between = redirecting(format!("http://{}/in.jsonl", guarded.host()));
    let first = redirecting(format!("http://{}/in.jsonl", between.host()));
    let said = from_address(&format!("http://{}/in.jsonl", first.host()));
    says(
        &said,
        &[
            "does not let it be read",
            &format!("{} answers 403", guarded.host()),
        ],
    );
}

/// Decided before any request: these addresses are never asked.
#[test]
fn redirects_to_metadata_services_are_not_followed() {
    for to in [
        "http://169.254.169.254/latest/meta-data/in.jsonl",
        "http://2852039166/in.jsonl",
        "http://[fe80::1]/in.jsonl",
        "http://[::ffff:a9fe:a9fe]/in.jsonl",
        "http://metadata.google.internal/in.jsonl",
    ] {
        let server = redirecting(to.to_owned());
        let said = from_address(&format!("http://{}/in.jsonl", server.host()));
        says(
            &said,
            &[
                &server.host(),
                "a link-local address; no redirect is followed to there",
            ],
        );
    }
}

/// Answers that no store gives, with a status as if all were well.
#[test]
fn answers_without_sense_are_not_blamed_on_credentials() {
    for (headers, body) in [
        (&[][..], ""),
        (&[], "<html>sign in</html>"),
        (&[], "<ListBucketResult><Contents>"),
        (&[("ETag", "\"1\"")], "{}"),
        (&[("Content-Type", "application/xml")], "<a/><a/>"),
    ] {
        for url in ["s3://b/in/", "s3://b/in/*.jsonl", "s3://b/in.jsonl"] {
            let server = always(200, headers, body);
            let sandbox = Sandbox::new();
            let mut command = sandbox.embed_command(&format!("{url} -o out.npy"));
            command
                .env("AWS_ENDPOINT_URL", format!("http://{}", server.host()))
                .envs(KEYS);
            let run = sandbox.finish(&mut command);
            assert!(!matches!(run.code, Some(101) | None), "{run}");
            assert!(
                !run.stderr.contains("AWS_ACCESS_KEY_ID"),
                "{url} {body}: {run}"
            );
            assert!(run.stderr.len() < 1500, "{run}");
        }
    }
    let said = with_store(&always(200, &[], "<html>"), &KEYS, "s3://b/parts/");
    says(
        &said,
        &[
            "s3://b/parts/",
            "the server's answer cannot be used",
            "AWS_ENDPOINT_URL",
        ],
    );
}
