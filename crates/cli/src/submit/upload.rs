//! An executable and files that are here, for pods: they go to a directory of their own below `spark.kubernetes.file.upload.path`.

use std::path::{Path, PathBuf};

use firesteel_conf::{Conf, entries};
use firesteel_io::Location;

use super::plan::Place;
use crate::{Failure, fetch};

/// What is to be uploaded, and whereto.
#[derive(Debug)]
pub(super) struct Upload {
    directory: Location,
    /// The executable first, with their names there.
    files: Vec<(String, PathBuf)>,
}

impl Upload {
    /// Nothing, if nothing is here. Takes the files that are here out of the settings.
    pub(super) fn plan(
        conf: &mut Conf,
        executable: &Place,
        files: Vec<(String, PathBuf)>,
        unique: &str,
    ) -> Result<Option<Self>, Failure> {
        let Place::Here(program) = executable else {
            return match files.first() {
                None => Ok(None),
                Some((name, _)) => Err(format!(
                    "{name} is here, and the executable in the image: put both into the image (firesteel image --file), or \
                     upload both (spark.kubernetes.file.upload.path)"
                )
                .into()),
            };
        };
        let Some(path) = conf.get(&entries::KUBERNETES_FILE_UPLOAD_PATH)? else {
            return Err(not_in_the_image(program));
        };
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if files.iter().any(|(other, _)| *other == name) {
            return Err(format!("spark.files {name}: the executable has the same name").into());
        }
        let mut all = vec![(name, program.clone())];
        all.extend(files);
        let options = fetch::store_options(conf);
        let directory = Location::parse(&path, &options).child(&format!("spark-upload-{unique}"));
        let upload = Upload { directory, files: all };
        conf.set(entries::KUBERNETES_FETCH.key(), upload.urls().join(","));
        Ok(Some(upload))
    }

    fn urls(&self) -> Vec<String> {
        let scheme = if self.directory.local().is_some() { "file://" } else { "" };
        let url = |(name, _): &(String, PathBuf)| format!("{scheme}{}", self.directory.child(name));
        self.files.iter().map(url).collect()
    }

    /// Copies all of them, or leaves nothing.
    pub(super) fn carry_out(&self, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        for (name, path) in &self.files {
            let to = self.directory.child(name);
            let sent = firesteel_io::upload(path, &to);
            let bytes = sent.map_err(|error| {
                self.remove();
                format!("could not upload {} to {to}: {error}", path.display())
            })?;
            tell(&format!("{} uploaded to {to} ({bytes} bytes)", path.display()));
        }
        Ok(())
    }

    /// Pods may need it, and nobody waits for their end.
    pub(super) fn stays(&self, tell: &mut dyn FnMut(&str)) {
        tell(&format!("{} stays: remove it when the application is over", self.directory));
    }

    /// Nobody needs it any more.
    pub(super) fn remove(&self) {
        if let Err(error) = self.directory.remove_directory() {
            tracing::warn!(directory = %self.directory, %error, "what was uploaded could not be removed");
        }
    }
}

pub(super) fn not_in_the_image(program: &Path) -> Failure {
    let path = program.display();
    format!(
        "{path} is here, and a pod runs the driver: pack it with `firesteel image --app {path} --tag NAME:TAG -o image.tar`, and \
         give its path in the image, such as local:///opt/app/{}; or set spark.kubernetes.file.upload.path, from where pods \
         fetch it",
        program.file_name().unwrap_or_default().to_string_lossy()
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_and_its_files_go_to_a_directory_of_their_own_and_pods_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, name).unwrap();
            path
        };
        let (program, words) = (Place::Here(file("pi")), file("words"));
        let there = directory.path().join("there");
        let mut conf = Conf::new();
        let refused = Upload::plan(&mut conf, &program, Vec::new(), "1").unwrap_err().to_string();
        assert!(refused.contains("firesteel image --app"), "{refused}");
        conf.set("spark.kubernetes.file.upload.path", format!("file://{}", there.display()));
        let files = vec![("words".to_owned(), words)];
        let upload = Upload::plan(&mut conf, &program, files, "1").unwrap().unwrap();
        let of = |name: &str| format!("file://{}/spark-upload-1/{name}", there.display());
        let told = conf.get(&entries::KUBERNETES_FETCH).unwrap();
        assert_eq!(told, [of("pi"), of("words")]);
        let mut lines = 0;
        upload.carry_out(&mut |_| lines += 1).unwrap();
        assert_eq!(std::fs::read(there.join("spark-upload-1/words")).unwrap(), b"words");
        assert_eq!(lines, 2);
        upload.remove();
        assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0);
        let in_image = Place::OnWorkers("/opt/app/pi".into());
        assert!(Upload::plan(&mut conf, &in_image, Vec::new(), "2").unwrap().is_none());
    }
}
