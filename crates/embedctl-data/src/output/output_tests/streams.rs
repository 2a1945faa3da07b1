//! Devices and FIFOs are written as they are.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::output::tests::support::*;
use crate::output::{Compression, OutputFormat, OutputOptions};
use embedctl_common::error::ErrorKind;

const JSONL: OutputFormat = OutputFormat::Jsonl(Compression::None);
const STREAMED: [OutputFormat; 5] = [
    OutputFormat::Parquet,
    OutputFormat::Arrows,
    JSONL,
    OutputFormat::Jsonl(Compression::Gzip),
    OutputFormat::Jsonl(Compression::Zstd),
];

fn at_format(path: &Path, format: OutputFormat) -> OutputOptions {
    with_format(options(path), format)
}

fn make_fifo(path: &Path) {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn a_fifo_gets_the_bytes_and_stays() {
    for format in STREAMED {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, file) = (at(&folder, "fifo"), at(&folder, "file"));
        make_fifo(&fifo);
        let mut writer = writer(&at_format(&fifo, format)).unwrap();
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        writer.write(id_rows(0, 2000, 2)).unwrap();
        finish(writer, id_schema()).unwrap();
        write(&at_format(&file, format), 2000).unwrap();
        let (read, written) = (reader.join().unwrap(), fs::read(&file).unwrap());
        match format {
            // A file holds its own hash, a stream cannot.
            OutputFormat::Parquet => {
                let rows = written.len() / 2;
                assert!(read[..rows] == written[..rows]);
            }
            _ => assert!(read == written, "{format}"),
        }
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
        assert!(!at(&folder, "fifo.json").exists());
    }
}

#[test]
fn an_empty_output_ends_a_fifo_too() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = at(&folder, "fifo");
    make_fifo(&fifo);
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo).unwrap()
    });
    write(&at_format(&fifo, JSONL), 0).unwrap();
    assert_eq!(reader.join().unwrap(), b"");
}

#[test]
fn a_reader_that_leaves_closes_the_pipe() {
    for format in STREAMED {
        let folder = tempfile::tempdir().unwrap();
        let fifo = at(&folder, "fifo");
        make_fifo(&fifo);
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || File::open(fifo).unwrap().read_exact(&mut [0; 4]).unwrap()
        });
        let mut writer = writer(&at_format(&fifo, format)).unwrap();
        // More than a pipe holds, and more than a row group.
        let result = (0..40)
            .try_for_each(|window| writer.write(id_rows(window * 10_000, 10_000, 2)))
            .and_then(|()| finish(writer, id_schema()));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ClosedPipe);
        reader.join().unwrap();
    }
}

#[test]
fn a_dropped_writer_sends_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = at(&folder, "fifo");
    make_fifo(&fifo);
    let mut writer = writer(&at_format(&fifo, OutputFormat::Parquet)).unwrap();
    // The encoder holds these back; were they written at the drop, it would wait for a reader.
    writer.write(id_rows(0, 10, 2)).unwrap();
    drop(writer);
}

#[test]
fn npy_needs_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = at(&folder, "fifo.npy");
    make_fifo(&fifo);
    let error = writer(&options(&fifo)).err().unwrap();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("-f "));
    let stdout = with_format(
        OutputOptions::new(crate::output::Destination::Stdout),
        OutputFormat::Npy,
    );
    assert_eq!(
        writer(&stdout).err().map(|error| error.kind()),
        Some(ErrorKind::Usage)
    );
}

#[test]
fn the_null_device_takes_everything_and_stays() {
    for format in STREAMED {
        write(&at_format(Path::new("/dev/null"), format), 3).unwrap();
    }
    let metadata = fs::metadata("/dev/null").unwrap();
    assert!(metadata.file_type().is_char_device());
    assert!(!Path::new("/dev/null.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_says_so() {
    for format in STREAMED {
        let error = write(&at_format(Path::new("/dev/full"), format), 3).unwrap_err();
        let message = chain(&error);
        assert!(
            message.starts_with("cannot write to /dev/full: No space left on device;"),
            "{message}"
        );
    }
}

#[test]
fn an_open_descriptor_is_written_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "redirected");
    let mut file = File::create(&path).unwrap();
    std::io::Write::write_all(&mut file, b"before\n").unwrap();
    let number = format!("/dev/fd/{}", file.as_raw_fd());
    write(&at_format(Path::new(&number), JSONL), 1).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\n{\"id\":\"0\""), "{text}");
    assert_eq!(listing(folder.path()), ["redirected"]);
    drop(file);

    let closed = at_format(Path::new("/dev/fd/987654"), JSONL);
    assert_eq!(
        writer(&closed).err().map(|error| error.kind()),
        Some(ErrorKind::Io)
    );
}

/// A file system of 256 KiB; taken away when dropped.
#[cfg(target_os = "linux")]
struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "embedctl-test"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg(self.0.path())
            .status();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_says_so_and_nothing_stays() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: a_full_disk_says_so_and_nothing_stays: a tmpfs cannot be mounted");
        return;
    };
    for name in ["out.parquet", "out.npy", "out.jsonl"] {
        let error = write(&options(&at(&disk.0, name)), 100_000).unwrap_err();
        let message = chain(&error);
        assert!(
            message.starts_with("cannot write to ") && message.contains(": No space left"),
            "{message}"
        );
        assert_eq!(listing(disk.0.path()), Vec::<String>::new());
    }
}
