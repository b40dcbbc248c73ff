//! `firesteel master`.

use std::process::ExitCode;

use clap::Args;
use firesteel_standalone::master::{self, MasterArgs, RunningMaster};

use crate::Failure;
use crate::daemons::{self, Ending, Shared};

#[derive(Args)]
pub(crate) struct MasterFlags {
    #[command(flatten)]
    shared: Shared,
    /// The port for workers and applications [default: SPARK_MASTER_PORT, else 7077].
    #[arg(short, long)]
    port: Option<u16>,
    /// The port of its page [default: SPARK_MASTER_WEBUI_PORT, else 8080].
    #[arg(long)]
    webui_port: Option<u16>,
}

pub(crate) fn run(flags: MasterFlags) -> Result<ExitCode, Failure> {
    daemons::draw_pages();
    let args = check(&flags)?;
    daemons::runtime()?.block_on(async {
        let mut ending = Ending::listen()?;
        let running = master::start(args).await?;
        announce(&running);
        ending.told().await;
        running.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}

fn check(flags: &MasterFlags) -> Result<MasterArgs, Failure> {
    let (conf, rpc) = flags.shared.settings()?;
    let (host, advertise) = flags.shared.host("SPARK_MASTER_HOST", &conf, &rpc);
    Ok(MasterArgs {
        host,
        advertise,
        port: daemons::number(flags.port, "SPARK_MASTER_PORT", 7077)?,
        web_port: Some(daemons::number(flags.webui_port, "SPARK_MASTER_WEBUI_PORT", 8080)?),
        rest_port: MasterArgs::rest_port_of(&conf, &rpc)?,
        conf,
        rpc,
        recovery: None,
    })
}

fn announce(running: &RunningMaster) {
    let web = running.web_address.as_ref().expect("it has a page");
    let rest = running.rest_address.as_ref();
    let rest = rest.map_or_else(String::new, |rest| format!(", REST http://{rest}"));
    println!("firesteel master: {}{rest}, page http://{web}/", running.url());
}
