//! What templates can reach of this machine: time and names.

use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::SystemTime;

use slipway_chart::SeededHost;
use slipway_gotmpl::{FuncError, GoValue, NoHost, TemplateHost, WholeNumbers};

use super::validate::Live;

/// What the clock says in a seeded rendering.
const SEEDED_TIME: u64 = 1_700_000_000;

/// The host of a rendering on the command line.
pub struct RenderHost {
    seeded: Option<SeededHost>,
    dns: bool,
    /// What `lookup` asks.
    pub live: Option<Arc<Live>>,
}

impl RenderHost {
    pub fn new(seed: Option<u64>, dns: bool) -> Self {
        let seeded = seed.map(|seed| SeededHost::new(seed, SEEDED_TIME));
        Self { seeded, dns, live: None }
    }
}

impl TemplateHost for RenderHost {
    fn lookup_object(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<GoValue, FuncError> {
        let Some(live) = &self.live else { return NoHost.lookup_object(api_version, kind, namespace, name) };
        match live.find(api_version, kind, namespace, name) {
            Ok(found) => Ok(GoValue::from_json(&found, WholeNumbers::Int64)),
            Err(error) => Err(FuncError::new(error.to_string())),
        }
    }

    fn resolve_host(&self, host: &str) -> Option<String> {
        // Asked before the name service is: a name can carry what a chart should not tell.
        if !self.dns {
            return None;
        }
        let found = (host, 0).to_socket_addrs().ok()?;
        found.map(|address| address.ip().to_string()).next()
    }

    fn now(&self) -> SystemTime {
        self.seeded.as_ref().map_or_else(SystemTime::now, TemplateHost::now)
    }

    /// Seeded renderings do not depend on where they are made.
    fn local_zone(&self) -> Option<String> {
        if self.seeded.is_some() {
            return None;
        }
        jiff::tz::TimeZone::system().iana_name().map(str::to_owned)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        match &self.seeded {
            Some(seeded) => seeded.fill_random(bytes),
            None => NoHost.fill_random(bytes),
        }
    }

    fn is_stopped(&self) -> bool {
        crate::interrupt::stopping().is_cancelled()
    }

    fn is_seeded(&self) -> bool {
        self.seeded.as_ref().is_some_and(TemplateHost::is_seeded)
    }
}
