//! Cluster mode on Kubernetes: a pod runs the driver. What that takes is in `firesteel-kubernetes`; here are the settings, the
//! console and the exit code.

use std::process::ExitCode;

use firesteel_conf::{Conf, FileSource, Master, entries};
use firesteel_kubernetes::Error;
use firesteel_kubernetes::submit::{self, Outcome, Submission};
use firesteel_storage::LocalDirs;

use super::plan::{Application, Place, files_to_upload};
use super::remote;
use super::upload::{Upload, not_in_the_image};
use crate::{Failure, daemons};

/// What an API server is asked for.
#[derive(Debug)]
pub(super) struct Request {
    url: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Submit(Application),
    Kill(Conf, String),
    Status(Conf, String),
}

/// The API server of the settings, if their master is one.
fn url(conf: &Conf) -> Result<Option<String>, Failure> {
    let master: Option<Master> = conf.get(&entries::MASTER)?;
    Ok(match master {
        Some(Master::Kubernetes { url }) => Some(url),
        _ => None,
    })
}

impl Request {
    /// The master of the settings is an API server.
    pub(super) fn submit(
        conf: &Conf,
        executable: Place,
        arguments: Vec<String>,
    ) -> Result<Self, Failure> {
        let url = url(conf)?.ok_or("the master is not an API server")?;
        if conf.get(&entries::DRIVER_SUPERVISE)? {
            let message = "--supervise is for standalone clusters: a driver's pod runs once; a template with restartPolicy \
                           OnFailure (spark.kubernetes.driver.podTemplateFile) has its kubelet start it again";
            return Err(message.into());
        }
        let mut conf = conf.clone();
        let files = files_to_upload(&mut conf)?;
        let application = Application { executable, arguments, conf, files };
        check(&application)?;
        Ok(Request { url, what: What::Submit(application) })
    }

    /// Nothing if the master is of another kind.
    pub(super) fn kill(conf: &Conf, id: &str) -> Result<Option<Self>, Failure> {
        let what = || What::Kill(conf.clone(), id.to_owned());
        Ok(url(conf)?.map(|url| Request { url, what: what() }))
    }

    pub(super) fn status(conf: &Conf, id: &str) -> Result<Option<Self>, Failure> {
        let what = || What::Status(conf.clone(), id.to_owned());
        Ok(url(conf)?.map(|url| Request { url, what: what() }))
    }

    pub(super) fn conf(&self) -> &Conf {
        match &self.what {
            What::Submit(application) => &application.conf,
            What::Kill(conf, _) | What::Status(conf, _) => conf,
        }
    }

    pub(super) fn carry_out(self) -> Result<ExitCode, Failure> {
        let url = &self.url;
        let mut tell = |line: &str| println!("{line}");
        let runtime = daemons::runtime()?;
        let outcome = match self.what {
            What::Submit(application) => {
                // They go when pods can have them from elsewhere.
                let mut application = application;
                let downloads = gather(&mut application)?;
                let Application { executable, arguments, mut conf, files } = application;
                let upload = Upload::plan(&mut conf, &executable, files.here, &submit::unique())?;
                let program = executable.path().to_string_lossy().into_owned();
                let submission = Submission { program, arguments, conf };
                let prepared = runtime.block_on(submit::prepare(url, &submission))?;
                upload.iter().try_for_each(|upload| upload.carry_out(&mut tell))?;
                drop(downloads);
                let outcome = runtime.block_on(prepared.submit(&mut tell));
                match &upload {
                    Some(upload) if is_unused(&outcome) => upload.remove(),
                    Some(upload) => upload.stays(&mut tell),
                    None => {}
                }
                outcome
            }
            What::Kill(conf, id) => runtime.block_on(submit::kill(url, &conf, &id, &mut tell)),
            What::Status(conf, id) => runtime.block_on(submit::status(url, &conf, &id, &mut tell)),
        }?;
        Ok(exit_code(&outcome))
    }
}

/// Whether no pod needs any more what was uploaded: a driver that is not over may yet have executors start.
fn is_unused(outcome: &Result<Outcome, Error>) -> bool {
    match outcome {
        Ok(outcome) => outcome.is_over,
        Err(error) => !error.leaves_a_driver(),
    }
}

fn uploads(conf: &Conf) -> Result<bool, Failure> {
    Ok(conf.get(&entries::KUBERNETES_FILE_UPLOAD_PATH)?.is_some())
}

/// Whether pods can have the executable and the files, before anything is downloaded.
fn check(application: &Application) -> Result<(), Failure> {
    let Application { executable, conf, files, .. } = application;
    let shown = |url: &str| FileSource::Url(url.to_owned());
    match executable {
        Place::OnWorkers(_) => match files.remote.first() {
            None => Ok(()),
            Some((_, url)) => Err(format!(
                "{}: the executable is in the image, and then files are, too (firesteel image --file); or give the executable by \
                 its path or URL",
                shown(url)
            )
            .into()),
        },
        _ if uploads(conf)? => Ok(()),
        Place::Here(program) => Err(not_in_the_image(program)),
        Place::Remote { url, name } => {
            let name = name.to_string_lossy();
            let remote = files.remote.iter().map(|(name, url)| (name.as_str(), url));
            let mut all = [(&*name, url)].into_iter().chain(remote);
            let odd = all.find(|(name, url)| !is_plain(name, url));
            let here = files.here.first().map(|(name, _)| name.clone());
            match odd.map(|(_, url)| shown(url).to_string()).or(here) {
                None => Ok(()),
                Some(file) => Err(format!(
                    "{file}: pods cannot fetch it from there by themselves: set spark.kubernetes.file.upload.path, and submit \
                     copies it for them"
                )
                .into()),
            }
        }
    }
}

/// Whether the URL can be seen by all who see pods, and names the file as it will be called.
fn is_plain(name: &str, url: &str) -> bool {
    let has_password = url.to_ascii_lowercase().starts_with("http") && url.contains('@');
    url.ends_with(&format!("/{name}")) && !url.contains([',', '?', '#', '%']) && !has_password
}

/// Downloads what is behind URLs and to be uploaded, or has pods fetch it. What it returns holds the copies: they go with it.
fn gather(application: &mut Application) -> Result<Option<LocalDirs>, Failure> {
    if uploads(&application.conf)? {
        return remote::download(application);
    }
    let Application { executable, conf, files, .. } = application;
    if let Place::Remote { url, .. } = executable {
        let files = std::mem::take(&mut files.remote).into_iter().map(|(_, url)| url);
        let urls: Vec<String> = [url.clone()].into_iter().chain(files).collect();
        conf.set(entries::KUBERNETES_FETCH.key(), urls.join(","));
    }
    Ok(None)
}

/// The application's, as far as it is known.
fn exit_code(outcome: &Outcome) -> ExitCode {
    match outcome.exit_code {
        // Kubernetes can end a driver that exits with 0 when it is told to: that is no success.
        Some(0) if !outcome.succeeded => ExitCode::FAILURE,
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None if outcome.succeeded => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Files;
    use super::*;

    fn behind_url(url: &str, files: Files) -> Application {
        let name = url.rsplit('/').next().unwrap_or_default().into();
        let executable = Place::Remote { url: url.to_owned(), name };
        Application { executable, arguments: Vec::new(), conf: Conf::new(), files }
    }

    #[test]
    fn pods_fetch_what_is_behind_urls_that_all_may_see() {
        let words = ("words".to_owned(), "s3a://bucket/words".to_owned());
        let files = Files { remote: vec![words.clone()], ..Files::default() };
        let mut application = behind_url("https://host/pi", files);
        check(&application).unwrap();
        assert!(gather(&mut application).unwrap().is_none());
        let fetched = application.conf.get(&entries::KUBERNETES_FETCH).unwrap();
        assert_eq!(fetched, ["https://host/pi", "s3a://bucket/words"]);
        assert!(application.files.remote.is_empty());
        let here = Files { here: vec![("x".to_owned(), "/x".into())], ..Files::default() };
        let mut secret = behind_url("https://host/pi", Files::default());
        secret.executable =
            Place::Remote { url: "https://host/pi?token=1".to_owned(), name: "pi".into() };
        for application in [behind_url("https://host/pi", here), secret] {
            let refused = check(&application).unwrap_err().to_string();
            let words = refused.contains("spark.kubernetes.file.upload.path");
            assert!(words && !refused.contains("token"), "{refused}");
        }
        let in_image = Application {
            executable: Place::OnWorkers("/opt/app/pi".into()),
            ..behind_url("", Files { remote: vec![words], ..Files::default() })
        };
        let refused = check(&in_image).unwrap_err().to_string();
        assert!(refused.contains("s3a://bucket/words"), "{refused}");
    }

    #[test]
    fn what_was_uploaded_stays_as_long_as_a_driver_may_need_it() {
        let outcome = |is_over| Ok(Outcome { exit_code: None, succeeded: true, is_over });
        assert!(is_unused(&outcome(true)) && !is_unused(&outcome(false)));
        let left = Error::DriverLeft { id: "a:b".to_owned(), source: Box::new(Error::NoImage) };
        assert!(is_unused(&Err(Error::NoImage)), "nothing was created");
        assert!(!is_unused(&Err(left)), "the driver may run on");
    }

    #[test]
    fn only_an_application_that_succeeded_has_the_exit_code_of_success() {
        let code =
            |exit_code, succeeded| exit_code_of(Outcome { exit_code, succeeded, is_over: true });
        for (outcome, wanted) in [
            (code(Some(3), false), ExitCode::from(3)),
            (code(Some(0), true), ExitCode::SUCCESS),
            (code(None, true), ExitCode::SUCCESS),
            (code(None, false), ExitCode::FAILURE),
            (code(Some(0), false), ExitCode::FAILURE),
            (code(Some(300), false), ExitCode::FAILURE),
        ] {
            assert_eq!(outcome, format!("{wanted:?}"));
        }
    }

    fn exit_code_of(outcome: Outcome) -> String {
        format!("{:?}", exit_code(&outcome))
    }
}
