//! A master's pages, read as JSON.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(5);

/// The JSON at `path` of the page at `address`.
pub(crate) fn json(address: &str, path: &str) -> Result<Value> {
    let socket = address.parse().with_context(|| format!("{address} is no address"))?;
    let mut stream = TcpStream::connect_timeout(&socket, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer of a web server")?;
    serde_json::from_str(body).with_context(|| format!("http://{address}{path} is not JSON"))
}

/// What a master says of itself in `/json/`.
#[derive(Debug, PartialEq)]
pub(crate) struct Overview {
    pub(crate) alive_workers: u64,
    pub(crate) cores_used: u64,
    pub(crate) active: usize,
    /// States of the applications that are over.
    pub(crate) completed: Vec<String>,
}

pub(crate) fn overview(address: &str) -> Result<Overview> {
    let page = json(address, "/json/")?;
    Overview::read(&page).context("the master's page is not as it was")
}

impl Overview {
    fn read(page: &Value) -> Option<Self> {
        let states = page["completedapps"].as_array()?.iter();
        Some(Self {
            alive_workers: page["aliveworkers"].as_u64()?,
            cores_used: page["coresused"].as_u64()?,
            active: page["activeapps"].as_array()?.len(),
            completed: states.filter_map(|app| Some(app["state"].as_str()?.to_owned())).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Overview;

    #[test]
    fn the_page_of_a_master_is_read() {
        let page = json!({
            "aliveworkers": 2, "coresused": 1, "activeapps": [{}], "completedapps": [{"state": "FAILED"}]
        });
        let completed = vec!["FAILED".to_owned()];
        let expected = Overview { alive_workers: 2, cores_used: 1, active: 1, completed };
        assert_eq!(Overview::read(&page), Some(expected));
        assert_eq!(Overview::read(&json!({})), None);
    }
}
