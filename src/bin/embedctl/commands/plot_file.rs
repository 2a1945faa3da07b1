//! Where a picture goes (`--plot`).

use std::path::Path;

use embedctl_common::atomic::NamedFile;

use crate::failure::CommandFailure;

/// A path of an SVG file in a folder that exists.
pub struct PlotFile<'a>(&'a Path);

impl<'a> PlotFile<'a> {
    /// Refuses a path that cannot be written, before anything is measured.
    pub fn of(path: &'a Path) -> Result<Self, CommandFailure> {
        if !path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("svg"))
        {
            return Err(CommandFailure::usage(format!(
                "--plot: {} does not end in .svg; SVG is the only plot format",
                path.display()
            )));
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(CommandFailure::usage(format!(
                "--plot: the folder {} does not exist",
                folder.display()
            )));
        }
        Ok(Self(path))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        self.0
    }

    /// Writes the picture, in place of one that is there.
    pub fn write(&self, svg: &str) -> Result<(), CommandFailure> {
        Ok(NamedFile::find(self.0)
            .and_then(|file| file.replace(svg.as_bytes()))
            .map_err(|error| embedctl::Error::io("write", self.0, error))?)
    }
}
