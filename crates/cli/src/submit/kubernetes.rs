//! Cluster mode on Kubernetes: a pod runs the driver. What that takes is in `firesteel-kubernetes`; here are the settings, the
//! console and the exit code.

use std::process::ExitCode;

use firesteel_conf::{Conf, Master, entries};
use firesteel_kubernetes::submit::{self, Outcome, Submission};

use super::plan::Place;
use crate::{Failure, daemons};

/// What an API server is asked for.
#[derive(Debug)]
pub(super) struct Request {
    url: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Submit(Submission),
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
        let Place::OnWorkers(program) = executable else {
            let path = executable.path().display();
            return Err(format!(
                "{path} is here, and a pod runs the driver: pack it with `firesteel image --app {path} --tag NAME:TAG -o \
                 image.tar`, and give its path in the image, such as local:///opt/app/{}",
                executable.path().file_name().unwrap_or_default().to_string_lossy()
            )
            .into());
        };
        if conf.get(&entries::DRIVER_SUPERVISE)? {
            let message = "--supervise is for standalone clusters: a driver's pod runs once; a template with restartPolicy \
                           OnFailure (spark.kubernetes.driver.podTemplateFile) has its kubelet start it again";
            return Err(message.into());
        }
        if conf.get(&entries::FILES)?.iter().any(|file| !file.is_empty()) {
            return Err("files do not go to pods: put them into the image (firesteel image --file), or on a volume".into());
        }
        let program = program.to_string_lossy().into_owned();
        let submission = Submission { program, arguments: arguments.to_vec(), conf: conf.clone() };
        Ok(Some(Request { url, what: What::Submit(submission) }))
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
            What::Submit(submission) => &submission.conf,
            What::Kill(conf, _) | What::Status(conf, _) => conf,
        }
    }

    pub(super) fn carry_out(self) -> Result<ExitCode, Failure> {
        let url = &self.url;
        let mut tell = |line: &str| println!("{line}");
        let outcome = daemons::runtime()?.block_on(async {
            match &self.what {
                What::Submit(submission) => submit::submit(url, submission, &mut tell).await,
                What::Kill(conf, id) => submit::kill(url, conf, id, &mut tell).await,
                What::Status(conf, id) => submit::status(url, conf, id, &mut tell).await,
            }
        })?;
        Ok(exit_code(&outcome))
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
        for (exit_code, succeeded, wanted) in [
            (Some(3), false, ExitCode::from(3)),
            (Some(0), true, ExitCode::SUCCESS),
            (None, true, ExitCode::SUCCESS),
            (None, false, ExitCode::FAILURE),
            (Some(0), false, ExitCode::FAILURE),
            (Some(300), false, ExitCode::FAILURE),
        ] {
            let outcome = Outcome { exit_code, succeeded };
            // Exit codes cannot be compared, but for how they are shown.
            let found = super::exit_code(&outcome);
            assert_eq!(format!("{found:?}"), format!("{wanted:?}"), "{outcome:?}");
        }
    }
}
