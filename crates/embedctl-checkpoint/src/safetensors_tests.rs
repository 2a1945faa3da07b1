use safetensors::tensor::TensorView;

use super::*;

#[test]
fn damaged_checkpoints_are_read_or_refused() {
    let tensors = ["a", "b.weight"].map(|name| {
        let view = TensorView::new(safetensors::Dtype::F32, vec![2, 3], &[0; 24]).unwrap();
        (name, view)
    });
    let good = safetensors::serialize(tensors, None).unwrap();
    embedctl_testing::mutation::each("model.safetensors", &good, 300, |path| {
        let folder = path.parent().unwrap();
        if let Some(checkpoint) = embedctl_testing::assert_no_bug(Checkpoint::open(folder)) {
            let checkpoint = checkpoint.expect("the file is there");
            // No tensor reaches beyond its file.
            for extent in checkpoint.extents.values() {
                assert!(extent.bytes.end <= checkpoint.files[extent.file].length());
            }
            for name in checkpoint.names() {
                let tensor = checkpoint.get(name).expect("it is named");
                embedctl_testing::assert_no_bug(tensor.floats());
                embedctl_testing::assert_no_bug(tensor.integers());
            }
        }
    });
    let index = br#"{"metadata": {"total_size": 48}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    embedctl_testing::mutation::each("model.safetensors.index.json", index, 300, |path| {
        let folder = path.parent().unwrap();
        for file in embedctl_testing::assert_no_bug(checkpoint_files(folder))
            .into_iter()
            .flatten()
        {
            assert_eq!(file.parent(), Some(folder));
        }
    });
}

#[test]
fn a_shape_of_elements_that_are_not_read_asks_for_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for shape in ["[1099511627776]", "[4294967296,4294967296]"] {
        for element in ["U8", "F8_E4M3"] {
            let header =
                format!(r#"{{"a":{{"dtype":"{element}","shape":{shape},"data_offsets":[0,4]}}}}"#);
            let length = (header.len() as u64).to_le_bytes();
            std::fs::write(&path, [&length, header.as_bytes(), &[0; 4]].concat()).unwrap();
            let checkpoint = Checkpoint::open_files(std::slice::from_ref(&path)).unwrap();
            let tensor = checkpoint.get("a").unwrap();
            let asked = embedctl_testing::mutation::most_asked(|| {
                let error = tensor.floats().unwrap_err().to_string();
                assert!(error.contains(element) && error.contains("'a'"), "{error}");
            });
            assert!(asked < 1 << 20, "{asked} bytes were asked for");
        }
    }
}

#[test]
fn a_file_that_is_written_to_or_cut_while_it_is_read_is_an_error_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let content = |value: f32| {
        let data: Vec<u8> = (0..30_000).flat_map(|_| value.to_le_bytes()).collect();
        let tensors = ["a", "table"].map(|name| {
            let view = TensorView::new(safetensors::Dtype::F32, vec![100, 300], &data).unwrap();
            (name, view)
        });
        safetensors::serialize(tensors, None).unwrap()
    };
    let (ours, theirs) = (content(1.5), content(7.5));
    let cut = |length: u64| {
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
    };
    let half = ours.len() as u64 / 2;
    let changes: [(&str, &dyn Fn()); 4] = [
        ("other weights", &|| std::fs::write(&path, &theirs).unwrap()),
        ("half of it", &|| cut(half)),
        ("its header", &|| cut(8)),
        ("nothing", &|| cut(0)),
    ];
    for (name, change) in changes {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, &ours).unwrap();
        // The clock of files ticks slowly, and this was written long ago.
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        let checkpoint = Checkpoint::open_files(std::slice::from_ref(&path)).unwrap();
        let table = checkpoint.table("table", None, None).unwrap();
        checkpoint.check_unchanged().unwrap();
        change();
        // Elements read before the change stay the same.
        let mut row = vec![0.0; 300];
        for index in [0, 57, 99] {
            table.row(index, &mut row);
            assert!(row.iter().all(|value| *value == 1.5), "{name}");
        }
        // A read now is refused at once, or by the check at the end.
        let read = checkpoint.get("a").unwrap().floats();
        let refused = [read.map(drop), checkpoint.check_unchanged()];
        let errors = refused.into_iter().filter_map(std::result::Result::err);
        for error in errors.map(|error| error.to_string()) {
            assert!(error.contains("was changed while") && error.contains("model.safetensors"));
        }
        checkpoint.check_unchanged().unwrap_err();
    }
    // Another file under its name changes nothing of the one that is open.
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, &ours).unwrap();
    let checkpoint = Checkpoint::open_files(std::slice::from_ref(&path)).unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, &theirs).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let floats = checkpoint.get("a").unwrap().floats().unwrap();
    assert!(floats.iter().all(|value| *value == 1.5));
    checkpoint.check_unchanged().unwrap();
}
