//! Serves a sandbox until interrupted: `cargo run --example sandbox -- [PORT] [KUBECONFIG] [SPEED]`.

use std::io::Write;

use slipway_sandbox::{ClockSpeed, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().map_or(Ok(0), |p| p.parse())?;
    let kubeconfig = arguments.next();
    let speed: ClockSpeed = arguments.next().map_or(Ok(ClockSpeed::Real), |s| s.parse())?;
    let mut builder = Sandbox::builder().speed(speed);
    if let Some(dir) = arguments.next() {
        builder = builder.data_dir(dir);
    }
    let sandbox = builder.build()?;
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let (address, serving) = sandbox.listen(([127, 0, 0, 1], port).into(), interrupted).await?;
    let text = sandbox.kubeconfig(address);
    match kubeconfig {
        Some(file) => std::fs::write(file, text)?,
        None => std::io::stdout().write_all(text.as_bytes())?,
    }
    Ok(serving.await?)
}
