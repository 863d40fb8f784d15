//! Rules on where a plan comes from and when it is carried out: providers of secrets, release units, time.

use std::time::Duration;

use super::Violation;
use crate::input::PolicyInput;
use crate::model::UnitCheck;
use crate::pattern::PatternList;
use crate::report::PolicyCode;
use crate::window::TimeWindow;

pub(super) fn check_providers(approved: &PatternList, input: &PolicyInput<'_>) -> Vec<Violation> {
    let refused = input.secrets.iter().filter(|used| !approved.fits(&used.provider));
    refused
        .map(|used| {
            let message = format!("the provider `{}` is not approved", used.provider);
            Violation::of_fact(used.reference.as_str(), PolicyCode::SecretProvider, message)
        })
        .collect()
}

pub(super) fn check_time(windows: &[TimeWindow], input: &PolicyInput<'_>) -> Vec<Violation> {
    if windows.iter().any(|window| window.contains(input.now)) {
        return Vec::new();
    }
    let allowed: Vec<String> = windows.iter().map(|window| format!("`{}`", window.text())).collect();
    let message =
        format!("{} is outside of {}", input.now.strftime("%a %Y-%m-%d %H:%M UTC"), allowed.join(", "));
    vec![Violation::of_fact("time", PolicyCode::OutsideWindow, message)]
}

pub(super) fn check_unit(check: &UnitCheck, input: &PolicyInput<'_>) -> Vec<Violation> {
    let Some(unit) = &input.unit else {
        let message = "only release units may be deployed here";
        return vec![Violation::of_fact("unit", PolicyCode::NotAUnit, message)];
    };
    let mut found = Vec::new();
    let mut report = |code, message: String| found.push(Violation::of_fact("unit", code, message));
    let is_signed = unit.signed_by.iter().any(|key| check.require_signed_by.contains(key));
    if !check.require_signed_by.is_empty() && !is_signed {
        let keys: Vec<String> = check.require_signed_by.iter().map(|key| format!("`{key}`")).collect();
        report(PolicyCode::NotSigned, format!("is not signed by {}", keys.join(" or ")));
    }
    for environment in &check.require_verified_in {
        if !unit.verified_in.contains(environment) {
            report(PolicyCode::NotVerified, format!("is not verified in `{environment}`"));
        }
    }
    if let Some(most) = &check.max_age {
        let age = unit.created.map(|created| input.now.duration_since(created));
        let is_young = age.is_some_and(|age| age <= signed(most.limit));
        if !is_young {
            let message = match age {
                Some(age) => format!("is {} hours old, at most {} is allowed", age.as_hours(), most.text),
                None => format!("its age is unknown, at most {} is allowed", most.text),
            };
            report(PolicyCode::TooOld, message);
        }
    }
    if check.require_clean_git && unit.clean_git != Some(true) {
        let message = match unit.clean_git {
            Some(_) => "was made from uncommitted changes",
            None => "was not made from a Git commit",
        };
        report(PolicyCode::UncleanGit, message.to_owned());
    }
    found
}

fn signed(duration: Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}
