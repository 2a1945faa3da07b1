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

/// Hangs, and leaves a process behind that holds all that it holds; its number goes to the file that `FAKE_PID` names.
pub const FORKS: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    __attribute__((constructor)) static void at_load(void) {
        if (fork() == 0) {
            if (getenv(\"FAKE_LEAVES\")) setsid();
            FILE *file = fopen(getenv(\"FAKE_PID\"), \"w\");
            fprintf(file, \"%d\\n\", getpid());
            fclose(file);
            alarm(60);
            for (;;) pause();
        }
        for (;;) pause();
    }
";

/// Talks without an end, and never ends a line.
pub const TALKS: &str = "
    #include <unistd.h>
    __attribute__((constructor)) static void at_load(void) {
        static char much[65536];
        for (;;) { write(1, much, sizeof much); write(2, much, sizeof much); }
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

/// NVIDIA's management library on a machine with two GPUs of 80 GiB, the second one half full and busy.
pub const NVML: &str = "
    #include <stdio.h>
    #include <string.h>
    #include <stddef.h>
    typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
    typedef struct { unsigned gpu, memory; } rates;
    int nvmlInit_v2(void) { return 0; }
    int nvmlShutdown(void) { return 0; }
    int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, \"580.95.05\"); return 0; }
    int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }
    int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
    int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
        *device = (void *)(size_t)(index + 1);
        return index < 2 ? 0 : 2;
    }
    int nvmlDeviceGetName(void *device, char *text, unsigned size) { snprintf(text, size, \"NVIDIA Fake 80\"); return 0; }
    int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
        snprintf(text, size, \"GPU-0000000%zu-0000-0000-0000-000000000000\", (size_t)device - 1);
        return 0;
    }
    int nvmlDeviceGetMemoryInfo_v2(void *device, memory *info) {
        info->total = 80ULL << 30;
        info->used = (size_t)device == 2 ? 40ULL << 30 : 0;
        info->free = info->total - info->used;
        return 0;
    }
    int nvmlDeviceGetUtilizationRates(void *device, rates *rates) {
        rates->gpu = (size_t)device == 2 ? 97 : 0;
        return 0;
    }
    int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { *major = 9; *minor = 0; return 0; }
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
