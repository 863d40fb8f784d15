//! Commands of other tools, answered with the command that does the same here.
//!
//! Users type what they know from Helm, Nelm, Helmfile, kubectl, kustomize, khook and ktl. A word that is a command of one
//! of them and not of ours gets a hint instead of a bare refusal.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command of another tool and ours.
struct Translation {
    /// The words as they are typed, after the name of the tool.
    words: &'static [&'static str],
    ours: &'static str,
    /// What ours does, where that is not what the name of the command says.
    remark: &'static str,
}

const fn row(words: &'static [&'static str], ours: &'static str, remark: &'static str) -> Translation {
    Translation { words, ours, remark }
}

/// All translations; where two fit, the longer one counts.
const TRANSLATIONS: &[Translation] = &[
    // Helm
    row(&["install"], "slipway apply NAME CHART", "it installs a release, or brings it up to date"),
    row(&["upgrade"], "slipway apply NAME CHART", "it installs a release, or brings it up to date"),
    row(&["del"], "slipway delete NAME", ""),
    row(&["un"], "slipway delete NAME", ""),
    row(&["create"], "slipway chart create NAME", ""),
    row(&["pull"], "slipway chart pull CHART", ""),
    row(&["fetch"], "slipway chart pull CHART", ""),
    row(&["push"], "slipway chart push ARCHIVE REGISTRY", ""),
    row(&["show"], "slipway chart show PART CHART", ""),
    row(&["inspect"], "slipway chart show PART CHART", ""),
    row(&["search"], "slipway chart search repo WORD", "it looks through the repositories that were added"),
    row(
        &["search", "hub"],
        "slipway chart search repo WORD",
        "it asks the repositories that were added, no hub",
    ),
    row(&["dependency"], "slipway chart deps list|update|build CHART", ""),
    row(&["dep"], "slipway chart deps list|update|build CHART", ""),
    row(&["verify"], "slipway chart verify ARCHIVE", ""),
    row(&["registry"], "slipway chart registry login|logout HOST", ""),
    row(&["env"], "slipway config", "it shows every setting and where it comes from"),
    row(
        &["plugin"],
        "slipway --help",
        "there are no plugins; diff, secrets and encrypted values are built in",
    ),
    row(&["hist"], "slipway history NAME", ""),
    // Nelm
    row(
        &["release"],
        "slipway apply|plan|rollback|delete|list|history|get",
        "releases need no word before the verb",
    ),
    row(&["release", "install"], "slipway apply NAME CHART", ""),
    row(&["release", "uninstall"], "slipway delete NAME", ""),
    row(&["release", "rollback"], "slipway rollback NAME", ""),
    row(&["release", "list"], "slipway list", ""),
    row(&["release", "history"], "slipway history NAME", ""),
    row(&["release", "get"], "slipway get all NAME", ""),
    row(&["release", "plan"], "slipway plan NAME CHART", ""),
    row(&["chart", "render"], "slipway render NAME CHART", ""),
    row(&["chart", "lint"], "slipway lint CHART", ""),
    row(&["chart", "download"], "slipway chart pull CHART", ""),
    row(&["chart", "upload"], "slipway chart push ARCHIVE REGISTRY", ""),
    row(&["chart", "pack"], "slipway chart package CHART", ""),
    row(&["chart", "dependency"], "slipway chart deps list|update|build CHART", ""),
    row(&["chart", "init"], "slipway chart create NAME", ""),
    // Helmfile and ktl
    row(&["sync"], "slipway stack apply", "a stack holds many releases"),
    row(&["destroy"], "slipway stack delete", "of a runbook: `slipway run destroy FILE`"),
    row(
        &["deps"],
        "slipway chart deps update CHART",
        "charts of a stack are fetched by `slipway stack apply`",
    ),
    row(&["write-values"], "slipway stack explain RELEASE", "it says which layer set which value"),
    row(&["deploy"], "slipway apply NAME CHART", ""),
    // kardinal and Kargo
    row(&["promote"], "slipway pipeline promote PIPELINE --env ENV", ""),
    row(&["pause"], "slipway pipeline pause PIPELINE", ""),
    row(&["resume"], "slipway pipeline resume PIPELINE", ""),
    row(&["approve"], "slipway pipeline approve PIPELINE --env ENV", ""),
    row(&["simulate"], "slipway gate simulate WHEN --pipeline PIPELINE --env ENV", ""),
    row(&["override"], "slipway gate override GATE --reason TEXT", ""),
    row(&["policy"], "slipway gate list|test|simulate", ""),
    // kustomize and Kurel
    row(&["build"], "slipway kustomize build DIR", "of a package: `slipway package build DIR`"),
    row(&["edit"], "slipway kustomize edit", ""),
    row(
        &["explain"],
        "slipway render NAME SOURCE --explain KIND:FIELD",
        "of a package: `slipway package explain`",
    ),
    // khook
    row(&["validate"], "slipway run validate FILE", "of a package: `slipway package validate DIR`"),
    row(&["schema"], "slipway run schema", ""),
    // kubectl
    row(&["describe"], "slipway status NAME", ""),
    row(&["rollout"], "slipway rollback NAME", "`slipway status NAME` shows how it stands"),
    row(&["wait"], "slipway apply NAME SOURCE", "it waits until everything is ready"),
    row(&["events"], "slipway status NAME --show-resources", "it tells why objects are not ready"),
    row(
        &["scale"],
        "slipway apply NAME SOURCE --set KEY=VALUE",
        "what a source says is changed by its values",
    ),
    row(
        &["patch"],
        "slipway apply NAME SOURCE --set KEY=VALUE",
        "what a source says is changed by its values",
    ),
    row(&["set"], "slipway apply NAME SOURCE --set KEY=VALUE", "what a source says is changed by its values"),
    row(&["exec"], "slipway logs NAME", "for a shell in a pod use `kubectl exec`"),
    row(&["port-forward"], "slipway status NAME", "for a port of a pod use `kubectl port-forward`"),
    row(&["top"], "slipway status NAME", "for what pods consume use `kubectl top`"),
    row(&["cluster-info"], "slipway config --connect", ""),
    row(&["completion"], "slipway completions SHELL", ""),
    row(
        &["kubectl"],
        "slipway sandbox kubeconfig",
        "kubectl itself works with it: `KUBECONFIG=FILE kubectl get pods`",
    ),
    row(&["helm"], "slipway apply NAME CHART", "write commands without `helm`"),
    row(&["helmfile"], "slipway stack apply", "a stack holds many releases"),
    row(
        &["init"],
        "slipway chart create NAME",
        "of a package: `slipway package init NAME`; of a pipeline: `slipway pipeline init`",
    ),
    row(&["charts"], "slipway stack apply", "a stack holds many releases"),
    row(&["app"], "slipway list", ""),
    row(&["up"], "slipway sandbox up", "a release: `slipway apply NAME SOURCE`"),
    row(&["down"], "slipway sandbox down", "a release: `slipway delete NAME`"),
];

/// Keeps of the commands that sound alike the one that is nearest, if it is near.
pub fn keep_nearest(error: &mut clap::Error) {
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) if names.len() > 1 => names.clone(),
        _ => return,
    };
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let near =
        slipway_problem::nearest_name(unknown, suggested.iter().map(String::as_str)).map(str::to_owned);
    error.remove(ContextKind::SuggestedSubcommand);
    if let Some(near) = near {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(near));
    }
}

/// Returns a hint where a command line failed on a command of another tool.
pub fn translation_hint(error: &clap::Error, line: &[OsString]) -> Option<String> {
    let words: Vec<&str> = line.iter().skip(1).filter_map(|word| word.to_str()).collect();
    match (error.kind(), words.first()) {
        (ErrorKind::InvalidSubcommand, _) => {}
        (ErrorKind::MissingRequiredArgument, Some(&"apply" | &"plan"))
            if words.contains(&"-f") || words.contains(&"--filename") =>
        {
            return Some(
                "manifests need the name of a release: `slipway apply NAME FILE|DIR`; -f names values"
                    .to_owned(),
            );
        }
        (ErrorKind::InvalidValue, Some(&"get")) => {
            return Some("`slipway status NAME --show-resources` shows the objects of a release".to_owned());
        }
        _ => return None,
    }
    let ContextValue::String(unknown) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let at = words.iter().position(|word| word == unknown)?;
    // The unknown word may be the first of the other tool's command or follow a word that we know.
    let starts = [at.checked_sub(1), Some(at)];
    let fitting = starts.into_iter().flatten().flat_map(|start| {
        TRANSLATIONS.iter().filter(move |row| start + row.words.len() > at).filter({
            let words = words.clone();
            move |row| words[start..].starts_with(row.words)
        })
    });
    let row = fitting.max_by_key(|row| row.words.len())?;
    let remark = if row.remark.is_empty() { String::new() } else { format!(" ({})", row.remark) };
    Some(format!("here it is `{}`{remark}", row.ours))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn hint(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let error = Cli::read(&words).err()?;
        translation_hint(&error, &words)
    }

    #[test]
    fn commands_of_other_tools_are_answered_with_ours() {
        let cases = [
            ("slipway install web ./chart", "slipway apply NAME CHART"),
            ("slipway -n shop upgrade --install web ./chart", "slipway apply NAME CHART"),
            ("slipway release install -n shop", "slipway apply NAME CHART"),
            ("slipway release", "releases need no word"),
            ("slipway chart lint .", "slipway lint CHART"),
            ("slipway search hub nginx", "no hub"),
            ("slipway search repo nginx", "slipway chart search repo WORD"),
            ("slipway build overlays/prod", "slipway kustomize build DIR"),
            ("slipway apply -f web.yaml", "slipway apply NAME FILE|DIR"),
            ("slipway get pods", "slipway status NAME --show-resources"),
            ("slipway exec -it web -- sh", "kubectl exec"),
            ("slipway helm upgrade web ./chart", "without `helm`"),
        ];
        for (line, expected) in cases {
            let said = hint(line).unwrap_or_default();
            assert!(said.contains(expected), "{line}: {said}");
        }
        for line in [
            "slipway frobnicate",
            "slipway chart frobnicate",
            "slipway render",
            "slipway apply",
            "slipway --nope",
        ] {
            assert_eq!(hint(line), None, "{line}");
        }
    }

    /// A row for a command we have would never be read, and an answer must be a command we have.
    #[test]
    fn every_answer_is_a_command_of_ours() {
        let mut tree = Cli::command();
        tree.build();
        for row in TRANSLATIONS {
            let ours = row.ours.strip_prefix("slipway ").expect("answers name the program");
            let mut at = &tree;
            for word in ours.split(' ') {
                if !at.has_subcommands() || word.starts_with('-') || word.chars().all(char::is_uppercase) {
                    break;
                }
                let verbs: Vec<&str> = word.split('|').collect();
                for verb in &verbs {
                    assert!(at.find_subcommand(verb).is_some(), "{ours}: no `{verb}`");
                }
                at = at.find_subcommand(verbs[0]).expect("was just found");
            }
            if let [word] = row.words {
                assert!(tree.find_subcommand(word).is_none(), "`{word}` is a command of ours");
            }
        }
    }
}
