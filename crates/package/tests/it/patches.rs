//! Which patches apply, in which order, and why.

use crate::support::{Kit, errors, said, warnings};

const SET: &str = "[service.web]\nmetadata.annotations.last: ";

fn seed() -> Kit {
    let patch = |id: &str| format!("{SET}{id}\n");
    Kit::web("on: false\n")
        .patch("02-base-rbac", &patch("a02"))
        .sidecar("02-base-rbac", "enabled: false\n")
        .patch("05-metrics-base", &patch("a05"))
        .sidecar("05-metrics-base", "enabled: \"${on}\"\n")
        .patch("10-monitoring", &patch("a10"))
        .sidecar("10-monitoring", "requires: [05-metrics-base.kpatch, 15-monitoring-rbac]\n")
        .patch("15-monitoring-rbac", &patch("a15"))
        .sidecar("15-monitoring-rbac", "enabled: false\nrequires: [02-base-rbac]\n")
}

/// Scenario A-20 of the specification.
#[test]
fn requirements_come_first_and_reports_say_why() {
    let build = seed().built();
    let lines: Vec<String> = build
        .decision
        .order
        .iter()
        .map(|&index| {
            format!(
                "{} {} ({})",
                build.decision.states[index].mark().0,
                build.patches[index].id,
                build.decision.states[index]
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "→ 02-base-rbac.kpatch (required by 15-monitoring-rbac)",
            "→ 05-metrics-base.kpatch (required by 10-monitoring)",
            "→ 15-monitoring-rbac.kpatch (required by 10-monitoring)",
            "✓ 10-monitoring.kpatch (always enabled)",
        ]
    );
    let first = seed().stream();
    assert!(first.contains("last: a10"));
    for _ in 0..100 {
        assert_eq!(seed().stream(), first);
    }
}

/// Scenario A-21 of the specification.
#[test]
fn a_requirement_overrides_a_user_with_a_warning() {
    let text = said(&seed().values("values.yaml", "\non: false\n").built().problems, "KD021");
    assert!(
        text.contains(
            "05-metrics-base.kpatch was switched off by values.yaml:2 but is required by 10-monitoring.kpatch"
        ),
        "{text}"
    );
    assert!(!warnings(&seed().built().problems).contains(&"KD021"));
}

/// Scenarios of the specification.
#[test]
fn conflicts_cycles_and_unknown_ids_are_errors() {
    let conflict = Kit::web("ingress: {enabled: false}\n")
        .patch("20-ingress", SET)
        .sidecar("20-ingress", "enabled: \"${ingress.enabled}\"\nconflicts: [25-simple-ingress]\n")
        .patch("25-simple-ingress", SET)
        .sidecar("25-simple-ingress", "enabled: false\n")
        .patch("30-tls", SET)
        .sidecar("30-tls", "requires: [25-simple-ingress]\n");
    assert!(conflict.build().is_ok(), "only one is on");
    let text = said(&conflict.values("values.yaml", "ingress: {enabled: true}\n").fails(), "KD022");
    assert!(
        text.contains("20-ingress (ingress.enabled=true, values.yaml:1) conflicts with 25-simple-ingress (required by 30-tls)"),
        "{text}"
    );
    let cycle = Kit::web("")
        .patch("a", SET)
        .sidecar("a", "enabled: false\nrequires: [b]\n")
        .patch("b", SET)
        .sidecar("b", "enabled: false\nrequires: [a]\n")
        .fails();
    assert!(
        said(&cycle, "KD020").contains("circular dependency: a.kpatch -> b.kpatch -> a.kpatch"),
        "{cycle}"
    );
    for (sidecar, code) in [
        ("requires: [nothing]\n", "KD005"),
        ("requires: [a]\n", "KD007"),
        ("requires: b\n", "KD002"),
        ("enable: true\n", "KD001"),
        ("enabled: \"${x} && ${y}\"\n", "KD004"),
        ("enabled: \"yes\"\n", "KD003"),
        ("enabled: 1\n", "KD003"),
        ("enabled: \"${n}\"\n", "KD003"),
        ("enabled: \"${nope}\"\n", "KV020"),
    ] {
        let problems = Kit::web("n: 1\nx: true\ny: true\n").patch("a", SET).sidecar("a", sidecar).fails();
        assert!(errors(&problems).contains(&code), "{sidecar}: {problems}");
    }
    let loose = Kit::web("")
        .patch("a", SET)
        .sidecar("a", "conflicts: [gone]\n")
        .sidecar("orphan", "enabled: true\n")
        .file("patches/x.toml", "")
        .built();
    assert_eq!(
        warnings(&loose.problems).iter().filter(|code| code.starts_with("KD")).count(),
        3,
        "{}",
        loose.problems
    );
}

/// Scenario A-24 of the specification.
#[test]
fn local_patches_run_last_and_keep_to_themselves() {
    let kit = Kit::web("")
        .patch("00", &format!("{SET}package\n"))
        .local("patches/00.kpatch", &format!("{SET}local\n"));
    assert!(kit.stream().contains("last: local"));
    let requires = kit.clone().patch("10", SET).local("patches/00.yaml", "requires: [10]\n");
    assert_eq!(errors(&requires.fails()), ["KD030"]);
    assert_eq!(errors(&kit.clone().local("resources/x.yaml", "").fails()), ["KR040"]);
    let row = &kit.package().patch_list(&kit.inputs).unwrap()[1];
    assert_eq!((row.id.as_str(), row.order), ("local:00.kpatch", Some(2)));
}

/// Scenario A-36 of the specification.
#[test]
fn contention_is_listed_and_can_be_refused() {
    let kit = Kit::web("")
        .patch("00", "[deployment.web]\nspec.replicas: 2\n")
        .patch("10", "[deployment.web]\nspec.replicas: 3\n");
    let found = kit.built().contention();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].path.as_str(), found[0].writes.len(), found[0].differs()),
        ("spec.replicas", 2, true)
    );
    let mut refused = kit;
    refused.inputs.no_contention = true;
    assert_eq!(errors(&refused.fails()), ["KX060"]);
}

#[test]
fn the_patch_table_is_that_of_the_example() {
    let kit = Kit::web("monitoring: {enabled: false}\n")
        .patch("00-base", "metadata.labels.a: b\n")
        .patch("features/10-monitoring", "[service.web]\nmetadata.labels.x: y\nmetadata.labels.z: y\n")
        .sidecar("features/10-monitoring", "enabled: \"${monitoring.enabled}\"\ndescription: Scraping\n");
    let rows = kit.package().patch_list(&kit.inputs).unwrap();
    let shown: Vec<String> = rows
        .iter()
        .map(|row| format!("{:?} {} {} {} {}", row.order, row.state, row.id, row.reason, row.statements))
        .collect();
    assert_eq!(
        shown,
        [
            "Some(1) ✓ 00-base.kpatch always enabled 1",
            "None ○ features/10-monitoring.kpatch monitoring.enabled=false 2"
        ]
    );
    assert!(kit.package().patch_graph_dot().contains("features/10-monitoring.kpatch"));
}
