//! Libraries that are not what their name says, made with the C compiler.

#![allow(dead_code)] // Each test file uses some of these.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::skip;

pub const ABORTS_AT_LOAD: &str = "
    #include <stdlib.h>
    __attribute__((constructor)) static void at_load(void) { abort(); }
";

pub const ABORTS_WITH_WORDS: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    const void *OrtGetApiBase(void) {
        printf(\"some progress\\n\");
        fputs(\"terminate called after throwing an instance of 'fake'\\n\\n\", stderr);
        abort();
    }
";

pub const SEGFAULTS: &str = "
    const void *OrtGetApiBase(void) { *(volatile int *)8 = 1; return 0; }
";

pub const ILLEGAL: &str = "
    #include <signal.h>
    const void *OrtGetApiBase(void) { raise(SIGILL); return 0; }
";

pub const HANGS: &str = "
    #include <unistd.h>
    __attribute__((constructor)) static void at_load(void) { for (;;) pause(); }
";

/// Hangs, too, and says first who does: in the file that `FAKE_PID` names.
pub const HANGS_BY_NAME: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    __attribute__((constructor)) static void at_load(void) {
        FILE *file = fopen(getenv(\"FAKE_PID\"), \"w\");
        fprintf(file, \"%d\\n\", getpid());
        fclose(file);
        for (;;) pause();
    }
";

pub const EXITS: &str = "
    #include <unistd.h>
    const void *OrtGetApiBase(void) { _exit(7); }
";

pub const OTHER: &str = "int something_else(void) { return 1; }";

pub const NULL: &str = "const void *OrtGetApiBase(void) { return 0; }";

pub const OLD: &str = "
    static const void *api(unsigned version) { return 0; }
    static const char *version(void) { return \"1.23.2\"; }
    static const struct { const void *(*api)(unsigned); const char *(*version)(void); } base = { api, version };
    const void *OrtGetApiBase(void) { return &base; }
";

/// A library with the code `code`, in a folder `name` of its own, for the test named `test`; `None` where
/// there is no C compiler, and the test is to be skipped.
pub fn fake(parent: &Path, name: &str, code: &str, test: &str) -> Option<PathBuf> {
    let folder = parent.join(name);
    fs::create_dir_all(&folder).unwrap();
    let source = folder.join("fake.c");
    fs::write(&source, code).unwrap();
    let ending = if cfg!(target_vendor = "apple") {
        "dylib"
    } else {
        "so"
    };
    let library = folder.join(format!("libonnxruntime.{ending}"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let made = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output();
    match made {
        Ok(output) if output.status.success() => Some(library),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => skip(test, "cc", "a C compiler"),
    }
}
