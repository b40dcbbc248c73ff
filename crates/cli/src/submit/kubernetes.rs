//! Cluster mode on Kubernetes: a pod runs the driver. What that takes is in `firesteel-kubernetes`; here are the settings, the
//! console and the exit code.

use std::process::ExitCode;

use firesteel_conf::{Conf, FileSource, Master, entries};
use firesteel_kubernetes::submit::{self, Outcome, Submission};

use super::plan::{Files, Place, files_to_upload};
use super::upload::Upload;
use crate::{Failure, daemons};

/// What an API server is asked for.
#[derive(Debug)]
pub(super) struct Request {
    url: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Submit(Submission, Option<Upload>),
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
    /// Nothing if the master is of another kind.
    pub(super) fn submit(
        conf: &Conf,
        executable: &Place,
        arguments: &[String],
    ) -> Result<Option<Self>, Failure> {
        let Some(url) = url(conf)? else { return Ok(None) };
        if conf.get(&entries::DRIVER_SUPERVISE)? {
            let message = "--supervise is for standalone clusters: a driver's pod runs once; a template with restartPolicy \
                           OnFailure (spark.kubernetes.driver.podTemplateFile) has its kubelet start it again";
            return Err(message.into());
        }
        let mut conf = conf.clone();
        let Files { here, remote } = files_to_upload(&mut conf)?;
        check_not_remote(executable, &remote)?;
        let upload = Upload::plan(&mut conf, executable, here, &submit::unique())?;
        let program = executable.path().to_string_lossy().into_owned();
        let submission = Submission { program, arguments: arguments.to_vec(), conf };
        Ok(Some(Request { url, what: What::Submit(submission, upload) }))
    }

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
            What::Submit(submission, _) => &submission.conf,
            What::Kill(conf, _) | What::Status(conf, _) => conf,
        }
    }

    pub(super) fn carry_out(self) -> Result<ExitCode, Failure> {
        let url = &self.url;
        let mut tell = |line: &str| println!("{line}");
        let runtime = daemons::runtime()?;
        let outcome = match &self.what {
            What::Submit(submission, upload) => {
                upload.iter().try_for_each(|upload| upload.carry_out(&mut tell))?;
                let outcome = runtime.block_on(submit::submit(url, submission, &mut tell));
                // Pods that are yet to start need it.
                if outcome.as_ref().map_or(true, |outcome| outcome.is_over) {
                    upload.iter().for_each(Upload::remove);
                }
                outcome
            }
            What::Kill(conf, id) => runtime.block_on(submit::kill(url, conf, id, &mut tell)),
            What::Status(conf, id) => runtime.block_on(submit::status(url, conf, id, &mut tell)),
        }?;
        Ok(exit_code(&outcome))
    }
}

/// Pods fetch what submit uploaded, and nothing else.
fn check_not_remote(executable: &Place, files: &[(String, String)]) -> Result<(), Failure> {
    let program = match executable {
        Place::Remote { url, .. } => Some(url),
        Place::Here(_) | Place::OnWorkers(_) => None,
    };
    match program.or(files.first().map(|(_, url)| url)) {
        None => Ok(()),
        Some(url) => Err(format!(
            "{}: URLs are for standalone clusters; copy it here and give its path, or put it into the image (firesteel image)",
            FileSource::Url(url.clone())
        )
        .into()),
    }
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
    use super::*;

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
