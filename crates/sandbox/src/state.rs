//! The sandbox's whole content: taken, put back, emptied.

use std::io::{BufRead, Write};

use crate::core::Core;
use crate::sandbox::Sandbox;
use crate::store::{Draft, DurableError, Snapshot, Wanted};

impl Sandbox {
    /// Every object as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.store())
    }

    /// Replaces the content by a snapshot's, of this sandbox or another. Watchers see what changed.
    pub fn restore(&self, snapshot: &Snapshot) {
        let core = self.core();
        let mut wanted = Vec::with_capacity(snapshot.objects.len());
        for (table, object) in &snapshot.objects {
            let mut value = object.value();
            // Whose authority signs here is not for the snapshot to say.
            if (&**table, object.name()) == ("configmaps", "kube-root-ca.crt") {
                value["data"]["ca.crt"] = core.options.ca.as_str().into();
            }
            wanted.push(Wanted { table: table.clone(), key: object.key.clone(), draft: Draft::new(&value) });
        }
        core.store.replace(snapshot.revision, wanted);
        follow(core);
    }

    /// Empties the cluster: what is left is what a new one holds.
    pub fn reset(&self) {
        let core = self.core();
        core.store.replace(0, Vec::new());
        follow(core);
        crate::controllers::furnish_cluster(core, core.options.nodes);
    }

    /// Returns when everything written so far would survive a crash.
    pub async fn durable(&self) -> Result<(), DurableError> {
        self.store().durable(self.store().rev()).await
    }

    /// Writes every object to `out`.
    pub fn save(&self, out: &mut dyn Write) -> std::io::Result<()> {
        self.snapshot().write(out)
    }

    /// Replaces the content of the cluster by what [`Sandbox::save`] wrote.
    pub fn load(&self, input: &mut dyn BufRead) -> std::io::Result<()> {
        self.restore(&Snapshot::read(input)?);
        Ok(())
    }
}

/// Brings what is derived from the objects in line with them: served resources, taken addresses.
pub(crate) fn follow(core: &Core) {
    crate::api::crd::refresh(core);
    core.addresses.clear();
    for service in core.store.list("services", None) {
        core.addresses.adopt(&format!("{}/{}", service.namespace(), service.name()), &service.value());
    }
}
