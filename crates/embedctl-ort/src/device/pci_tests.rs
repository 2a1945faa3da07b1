//! Machines as their `/sys` shows them.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A machine without devices.
fn machine() -> TempDir {
    TempDir::new().unwrap()
}

/// Adds a device to the bus: its files, and its driver if it has one.
fn device(machine: &TempDir, address: &str, files: &[(&str, &str)], driver: Option<&str>) {
    let folder = machine.path().join("sys/bus/pci/devices").join(address);
    write(&folder, files);
    if let Some(driver) = driver {
        let target = format!("../../../../bus/pci/drivers/{driver}");
        symlink(target, folder.join("driver")).unwrap();
    }
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }
}

const H100: [(&str, &str); 3] = [
    ("vendor", "0x10de"),
    ("device", "0x2330"),
    ("class", "0x030200"),
];

#[test]
fn a_server_with_its_console_chip_alone_has_no_gpu() {
    let machine = machine();
    let aspeed = [
        ("vendor", "0x1a03"),
        ("device", "0x2000"),
        ("class", "0x030000"),
    ];
    device(&machine, "0000:03:00.0", &aspeed, Some("ast"));
    let network = [("vendor", "0x8086"), ("class", "0x020000")];
    device(&machine, "0000:04:00.0", &network, Some("ice"));
    assert!(gpus(machine.path()).is_empty());
    assert!(gpus(TempDir::new().unwrap().path()).is_empty());
}

#[test]
fn a_card_without_its_driver_is_seen_and_says_so() {
    let words = |driver| {
        let machine = machine();
        device(&machine, "0000:01:00.0", &H100, driver);
        let gpus = gpus(machine.path());
        assert_eq!(gpus[0].name, "NVIDIA GPU 10de:2330");
        gpus[0].problem.as_ref().unwrap().to_string()
    };
    assert_eq!(words(None), "the NVIDIA driver is not installed");
    assert_eq!(
        words(Some("nouveau")),
        "the NVIDIA driver is not installed (nouveau is in use)"
    );
    assert!(words(Some("nvidia")).contains("libcuda.so.1"));
    assert!(words(Some("vfio-pci")).contains("virtual machines"));
}

#[test]
fn amds_cards_have_rocms_numbers() {
    let machine = machine();
    write(
        machine.path(),
        &[
            (
                "usr/share/misc/pci.ids",
                "1002  AMD\n\t744c  Navi 31 [Radeon RX 7900 XTX]\n\t164e  Raphael",
            ),
            ("dev/kfd", ""),
            (
                "sys/class/kfd/kfd/topology/nodes/0/properties",
                "cpu_cores_count 32\nsimd_count 0\nlocation_id 0",
            ),
            (
                "sys/class/kfd/kfd/topology/nodes/1/properties",
                "simd_count 192\nlocation_id 768\ndomain 0\ngfx_target_version 110000",
            ),
            (
                "sys/class/kfd/kfd/topology/nodes/10/properties",
                "simd_count 4\nlocation_id 5376\ndomain 0\ngfx_target_version 100306",
            ),
        ],
    );
    // The integrated one comes first on the bus, but second for ROCm.
    let integrated = [
        ("vendor", "0x1002"),
        ("device", "0x164e"),
        ("class", "0x030000"),
    ];
    device(&machine, "0000:15:00.0", &integrated, Some("amdgpu"));
    let card = [
        ("vendor", "0x1002"),
        ("device", "0x744c"),
        ("class", "0x030000"),
        ("mem_info_vram_total", "25753026560"),
        ("mem_info_vram_used", "753026560"),
        ("gpu_busy_percent", "17"),
    ];
    device(&machine, "0000:03:00.0", &card, Some("amdgpu"));
    let gpus = gpus(machine.path());
    let shown: Vec<_> = gpus
        .iter()
        .map(|gpu| (gpu.number, gpu.name.as_str(), gpu.architecture.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [
            (Some(0), "AMD Radeon RX 7900 XTX", Some("gfx1100")),
            (Some(1), "AMD Raphael", Some("gfx1036")),
        ]
    );
    assert_eq!(gpus[0].memory, Some(25_753_026_560));
    assert_eq!(gpus[0].memory_free, Some(25_000_000_000));
    assert_eq!(gpus[0].utilization, Some(17));
}

#[test]
fn a_large_accelerator_of_amds_is_a_gpu() {
    let machine = machine();
    let files = [
        ("vendor", "0x1002"),
        ("device", "0x74a1"),
        ("class", "0x120000"),
        ("product_name", "AMD Instinct MI300X"),
    ];
    device(&machine, "0000:05:00.0", &files, Some("amdgpu"));
    let gpus = gpus(machine.path());
    assert_eq!(gpus[0].name, "AMD Instinct MI300X");
    assert_eq!(gpus[0].problem, Some(GpuProblem::NoNode("/dev/kfd".into())));
    assert_eq!(gpus[0].number, None);
}

#[test]
fn targets_are_written_as_compilers_know_them() {
    let machine = machine();
    write(
        machine.path(),
        &[
            (
                "sys/class/kfd/kfd/topology/nodes/1/properties",
                "simd_count 1\nlocation_id 256\ngfx_target_version 90402",
            ),
            (
                "sys/class/kfd/kfd/topology/nodes/2/properties",
                "simd_count 1\nlocation_id 512\ngfx_target_version 90010",
            ),
        ],
    );
    let nodes = compute_nodes(machine.path());
    assert_eq!(nodes["0000:01:00.0"].target.as_deref(), Some("gfx942"));
    assert_eq!(nodes["0000:02:00.0"].target.as_deref(), Some("gfx90a"));
}

#[test]
fn intels_card_needs_its_render_node() {
    let machine = machine();
    let files = [
        ("vendor", "0x8086"),
        ("device", "0x56a0"),
        ("class", "0x030000"),
        ("drm/renderD128/dev", "226:128"),
        ("drm/card0/dev", "226:0"),
    ];
    device(&machine, "0000:00:02.0", &files, Some("i915"));
    let gpu = &gpus(machine.path())[0];
    assert_eq!(gpu.name, "Intel GPU 8086:56a0");
    let node = "/dev/dri/renderD128".to_owned();
    assert_eq!(gpu.problem, Some(GpuProblem::NoNode(node)));
    write(machine.path(), &[("dev/dri/renderD128", "")]);
    assert_eq!(gpus(machine.path())[0].problem, None);
}

#[test]
fn npus_go_by_their_drivers() {
    let machine = machine();
    for (number, driver) in [("0", "intel_vpu"), ("1", "amdxdna"), ("2", "rocket")] {
        let folder = machine
            .path()
            .join(format!("sys/class/accel/accel{number}/device"));
        write(&folder, &[("vendor", "0x8086")]);
        symlink(format!("../drivers/{driver}"), folder.join("driver")).unwrap();
    }
    let npus = npus(machine.path());
    let names: Vec<&str> = npus.iter().map(|npu| npu.name.as_str()).collect();
    assert_eq!(
        names,
        ["Intel NPU", "AMD NPU (XDNA)", "accelerator (rocket)"]
    );
    assert_eq!(npus[1].path, "/dev/accel/accel1");
    assert_eq!(npus[0].vendor, Vendor::Intel);
}
