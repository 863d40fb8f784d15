//! `cargo xtask docs`: the pages made from the program itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{book, shell};

/// A generated page and the command that prints it.
const PAGES: &[(&str, &[&str])] = &[
    ("docs/reference/cli.md", &["reference", "cli"]),
    ("docs/reference/exit-codes.md", &["reference", "exit-codes"]),
    ("docs/reference/errors.md", &["reference", "errors"]),
    ("docs/reference/config.schema.json", &["reference", "config-schema"]),
    ("docs/reference/failure.schema.json", &["reference", "failure-schema"]),
    ("docs/reference/graph.schema.json", &["reference", "graph-schema"]),
    ("docs/reference/runbook.schema.json", &["run", "schema"]),
    ("docs/reference/stack.schema.json", &["reference", "stack-schema"]),
    ("docs/reference/release.schema.json", &["reference", "release-schema"]),
    ("docs/reference/policy.schema.json", &["reference", "policy-schema"]),
    ("docs/reference/output.schema.json", &["reference", "output-schema"]),
    ("docs/reference/data.md", &["reference", "data"]),
    ("docs/reference/unit.schema.json", &["reference", "unit-schema"]),
    ("docs/reference/image-map.schema.json", &["reference", "image-map-schema"]),
    ("docs/reference/pipeline-init.schema.json", &["reference", "pipeline-init-schema"]),
    ("docs/reference/gate-tests.schema.json", &["reference", "gate-tests-schema"]),
    ("docs/reference/tokens.schema.json", &["reference", "tokens-schema"]),
];

/// Commands and flags of other programs beside ours.
const PARITY: &str = "docs/reference/helm-and-nelm.md";

/// Generated definitions: the file, the example that prints it, and what the example is asked for.
const DEFINITIONS: &[(&str, &str, &str)] = &[
    ("crates/kro/crds/experimental.kro.run.yaml", "graph_definitions", "experimental.kro.run"),
    ("crates/kro/crds/graph.kardinal.io.yaml", "graph_definitions", "graph.kardinal.io"),
    ("deploy/crds/auditevents.yaml", "definitions", "auditevents.kardinal.io"),
    ("deploy/crds/bundles.yaml", "definitions", "bundles.kardinal.io"),
    ("deploy/crds/changewindows.yaml", "definitions", "changewindows.kardinal.io"),
    ("deploy/crds/metricchecks.yaml", "definitions", "metricchecks.kardinal.io"),
    ("deploy/crds/notificationhooks.yaml", "definitions", "notificationhooks.kardinal.io"),
    ("deploy/crds/pipelinegroups.yaml", "definitions", "pipelinegroups.kardinal.io"),
    ("deploy/crds/pipelines.yaml", "definitions", "pipelines.kardinal.io"),
    ("deploy/crds/policygates.yaml", "definitions", "policygates.kardinal.io"),
    ("deploy/crds/promotioncontracts.yaml", "definitions", "promotioncontracts.kardinal.io"),
    ("deploy/crds/promotionrecords.yaml", "definitions", "promotionrecords.kardinal.io"),
    ("deploy/crds/promotionsteps.yaml", "definitions", "promotionsteps.kardinal.io"),
    ("deploy/crds/promotiontemplates.yaml", "definitions", "promotiontemplates.kardinal.io"),
    ("deploy/crds/prstatuses.yaml", "definitions", "prstatuses.kardinal.io"),
    ("deploy/crds/rollbackpolicies.yaml", "definitions", "rollbackpolicies.kardinal.io"),
    ("deploy/crds/subscriptions.yaml", "definitions", "subscriptions.kardinal.io"),
];

/// Writes every generated page.
pub fn write() -> Result<()> {
    for (path, text) in made()? {
        fs::write(shell::root().join(path), text).with_context(|| format!("write {path}"))?;
        eprintln!("wrote {path}");
    }
    Ok(())
}

/// Draws the pictures of `docs/images` anew. The test that draws them fails when one is stale.
pub fn draw_pictures() -> Result<()> {
    let mut test = shell::cargo(&["test", "--workspace", "--locked", "--test", "it", "pictures"]);
    shell::run(test.env("SLIPWAY_PICTURES", "write"))
}

/// Fails when a page is not what the program prints now, cannot be found from the table of contents or has a link that leads nowhere.
pub fn check() -> Result<()> {
    book::check()?;
    let mut stale = Vec::new();
    for (path, text) in made()? {
        if fs::read_to_string(shell::root().join(path)).unwrap_or_default() != text {
            stale.push(path);
        }
    }
    if !stale.is_empty() {
        bail!("stale pages: {}\n  hint: run `cargo xtask docs` and commit the result", stale.join(", "));
    }
    eprintln!("generated pages are fresh");
    Ok(())
}

fn made() -> Result<Vec<(&'static str, String)>> {
    let slipway = shell::slipway(shell::Profile::Debug)?;
    let pages =
        PAGES.iter().map(|(path, args)| Ok((*path, shell::output(Command::new(&slipway).args(*args))?)));
    let parity = std::iter::once(crate::parity::page(&slipway).map(|page| (PARITY, page)));
    let mut examples = BTreeMap::new();
    let definitions = DEFINITIONS.iter().map(|(path, example, wanted)| {
        let printer = match examples.entry(*example) {
            Entry::Occupied(built) => built.into_mut(),
            Entry::Vacant(place) => place.insert(shell::example(example)?),
        };
        Ok((*path, shell::output(Command::new(printer).arg(wanted))?))
    });
    pages.chain(parity).chain(definitions).collect()
}
