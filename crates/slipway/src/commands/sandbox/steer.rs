//! `slipway sandbox reset|save|load|kubeconfig`: asking the running sandbox about itself.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use http::Request;
use serde_json::{Value, json};
use slipway_problem::{Location, Problem};

use super::place::{Place, not_running};
use crate::connect;
use crate::exit::Exit;
use crate::files;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct SaveArgs {
    /// File to write; `-` for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// File that `save` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct KubeconfigArgs {
    /// For this user instead of the administrator, to try what a role allows
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// A group the user is in; may be repeated
    #[arg(long = "group", value_name = "NAME", requires = "user")]
    groups: Vec<String>,

    /// With a client certificate instead of a token; holds at most two groups
    #[arg(long, requires = "user")]
    certificate: bool,
}

/// Sends one request to the running sandbox's own endpoints.
pub async fn call(
    session: &Session,
    place: &Place,
    method: &str,
    what: &str,
    body: Vec<u8>,
) -> anyhow::Result<Value> {
    let client = session.connect_to_sandbox(place).await?.cluster.client();
    let request = Request::builder()
        .method(method)
        .uri(format!("/sandbox/{what}"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)?;
    client.request(request).await.map_err(|error| connect::explain(error, &format!("{what} the sandbox")))
}

pub fn reset(place: &Place, session: &Session) -> anyhow::Result<Exit> {
    if place.running()?.is_some() {
        session.block_on(call(session, place, "POST", "reset", Vec::new()))?;
        say!("sandbox reset");
        return Ok(Exit::Done);
    }
    let kept = place.data();
    if !kept.exists() {
        return Err(not_running().into());
    }
    fs::remove_dir_all(&kept).with_context(|| format!("remove {}", kept.display()))?;
    say!("removed what the sandbox had kept");
    Ok(Exit::Done)
}

pub fn save(args: &SaveArgs, place: &Place, session: &Session) -> anyhow::Result<Exit> {
    place.required()?;
    let text = session.block_on(async {
        let client = session.connect_to_sandbox(place).await?.cluster.client();
        let request = Request::get("/sandbox/snapshot").body(Vec::new())?;
        let text = client.request_text(request).await;
        text.map_err(|error| connect::explain(error, "save the sandbox"))
    })?;
    if args.file.as_os_str() == "-" {
        show::data(text)?;
    } else {
        // It may hold secrets, as the cluster does.
        files::replace_private(&args.file, text.as_bytes())?;
        let objects = text.lines().count().saturating_sub(1);
        say!("saved {objects} objects to {}", args.file.display());
    }
    Ok(Exit::Done)
}

pub fn load(args: &LoadArgs, place: &Place, session: &Session) -> anyhow::Result<Exit> {
    place.required()?;
    let text = files::read_text_within(&args.file, slipway_sandbox::LARGEST_SNAPSHOT as u64)?;
    let said = session.block_on(async {
        let client = session.connect_to_sandbox(place).await?.cluster.client();
        let request = Request::put("/sandbox/snapshot").body(text.text.into_bytes())?;
        client.request::<Value>(request).await.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 400 => {
                Problem::error(status.message.clone()).at(Location::file(text.name.as_str())).into()
            }
            other => connect::explain(other, "load the sandbox"),
        })
    })?;
    say!("loaded {} objects", said["objects"]);
    Ok(Exit::Done)
}

pub fn kubeconfig(args: &KubeconfigArgs, place: &Place, session: &Session) -> anyhow::Result<Exit> {
    let running = place.required()?;
    let Some(user) = &args.user else {
        show::data(files::read(&place.kubeconfig())?)?;
        return Ok(Exit::Done);
    };
    let asked = json!({"user": user, "groups": args.groups, "certificate": args.certificate});
    let made =
        session.block_on(call(session, place, "POST", "credentials", asked.to_string().into_bytes()))?;
    show::data(made["kubeconfig"].as_str().unwrap_or_default())?;
    if !running.rbac {
        say!("note: this sandbox does not enforce RBAC; start it with `--rbac` to try roles");
    }
    Ok(Exit::Done)
}
