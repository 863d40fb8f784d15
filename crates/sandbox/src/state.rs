//! The whole content of a sandbox: taken, restored, emptied.

use std::io::{BufRead, Write};

use crate::core::Core;
use crate::sandbox::Sandbox;
use crate::store::{DurableError, ObjectDraft, Snapshot, WantedObject};

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
            wanted.push(WantedObject {
                table: table.clone(),
                key: object.key.clone(),
                draft: ObjectDraft::new(&value),
            });
        }
        core.store.replace_content(snapshot.revision, wanted);
        rebuild_derived_state(core);
    }

    /// Empties the cluster: what is left is what a new one holds.
    pub fn reset(&self) {
        let core = self.core();
        core.store.replace_content(0, Vec::new());
        rebuild_derived_state(core);
        crate::controllers::furnish_cluster(core, core.options.nodes);
    }

    /// Returns when everything written so far would survive a crash.
    pub async fn durable(&self) -> Result<(), DurableError> {
        self.store().wait_durable(self.store().current_revision()).await
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
pub(crate) fn rebuild_derived_state(core: &Core) {
    crate::api::crd::refresh_registry(core);
    core.addresses.forget_all();
    for service in core.store.list("services", None) {
        core.addresses
            .adopt_service(&format!("{}/{}", service.namespace(), service.name()), &service.value());
    }
}
