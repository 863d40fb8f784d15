//! The guide on secrets: every configuration and every reference it shows is right.

use std::path::Path;

use slipway_secrets::{ConfigOrigin, SecretReference, SecretsConfig};

use crate::support::layer;

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/secrets.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    text.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_configuration_of_the_guide_is_read_without_problems() {
    let guide = guide();
    let mut count = 0;
    for block in blocks(&guide, "yaml") {
        let is_section = block.lines().any(|line| line == "secrets:");
        // Recipes show entries of `providers`; the rest are values.
        let text = match (is_section, block.contains("{type:")) {
            (true, _) => block.clone(),
            (false, true) => {
                let entries: String = block.lines().map(|line| format!("    {line}\n")).collect();
                format!("secrets:\n  providers:\n{entries}")
            }
            (false, false) => continue,
        };
        count += 1;
        let layers = [layer(&text, Path::new("/conf"), ConfigOrigin::User)];
        let config = SecretsConfig::load(&layers).unwrap_or_else(|problems| panic!("{block}: {problems}"));
        assert!(config.warnings.is_empty(), "{block}: {}", config.warnings);
    }
    assert!(count >= 10, "{count} blocks");
}

#[test]
fn every_reference_of_the_guide_is_right() {
    let guide = guide();
    let mut count = 0;
    for found in guide.match_indices("secret://").map(|(at, _)| &guide[at..]) {
        let end = found
            .find(|c: char| c.is_whitespace() || matches!(c, '`' | ')' | '}' | ']' | '|' | '\'' | '…' | '⟧'));
        let text = &found[..end.unwrap_or(found.len())];
        // Patterns and placeholders.
        if text == "secret://" || text.contains("PATH") || text.contains('*') || text.contains("FILE") {
            continue;
        }
        count += 1;
        text.parse::<SecretReference>().unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert!(count >= 20, "{count} references");
}

/// The provider for SOPS that the guide tells to install, with a `sops` that decrypts one file.
#[cfg(unix)]
#[tokio::test]
async fn the_example_for_sops_works() {
    use crate::support::{run, write_program};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.yaml");
    std::fs::write(&file, "db: ENC[AES256_GCM,data:x]\nsops: {}\n").unwrap();
    write_program(
        &folder.path().join("sops"),
        "[ \"$1 $2 $3\" = '--decrypt --output-type json' ] || exit 9\n\
         case \"$4\" in *secrets.yaml) echo '{\"db\": {\"password\": \"sops-password-value\"}}';; *) exit 128;; esac",
    );
    let other = folder.path().join("other.yaml");
    std::fs::write(&other, "x: y\n").unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/secrets/sops-provider");
    let provider = folder.path().join("sops-provider");
    write_program(&provider, &format!("exec python3 {}", example.canonicalize().unwrap().display()));
    let path = format!("{}:{}", folder.path().display(), "/usr/local/bin:/usr/bin:/bin");
    for persistent in [false, true] {
        let config = format!(
            "secrets: {{providers: {{sops: {{type: exec, command: ['{}'], persistent: {persistent}}}}}}}",
            provider.display()
        );
        let run = run(&config, &[("PATH", &path)]);
        let place = file.display().to_string();
        let place = place.trim_start_matches('/');
        assert_eq!(run.text(&format!("secret://sops//{place}#/db/password")).await, "sops-password-value");
        let text = run
            .failure(&format!("secret://sops//{}#k", other.display().to_string().trim_start_matches('/')))
            .await;
        assert!(text.contains("forbidden: sops cannot decrypt"), "{text}");
        let text = run.failure("secret://sops/none.yaml#k").await;
        assert!(text.contains("not found: there is no file none.yaml"), "{text}");
    }
}
