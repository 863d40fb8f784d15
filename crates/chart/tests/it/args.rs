//! The words after `helm template`, as far as the recorded cases use them.

use slipway_chart::{KubeVersion, RenderOptions, UserValues};

pub(crate) struct Parsed {
    pub(crate) chart: String,
    pub(crate) values: UserValues,
    pub(crate) options: RenderOptions,
}

pub(crate) fn parse(words: &str) -> Result<Parsed, slipway_chart::ChartError> {
    let mut options = RenderOptions::default();
    let mut values = UserValues::default();
    let mut plain = Vec::new();
    let mut words = words.split(' ').map(str::to_owned);
    let mut kube_version = None;
    while let Some(word) = words.next() {
        let mut next = || words.next().unwrap_or_default();
        match word.as_str() {
            "--set" => values.set.push(next()),
            "--set-string" => values.set_string.push(next()),
            "--set-json" => values.set_json.push(next()),
            "--set-literal" => values.set_literal.push(next()),
            "-n" => options.namespace = next(),
            "-s" => options.show_only.push(next()),
            "--kube-version" => kube_version = Some(next()),
            "--api-versions" => {
                let more = vec![next()];
                options.capabilities = options.capabilities.with_api_versions(more);
            }
            "--include-crds" => options.include_crds = true,
            "--skip-tests" => options.skip_tests = true,
            "--no-hooks" => options.no_hooks = true,
            "--is-upgrade" => options.is_upgrade = true,
            "--skip-schema-validation" => options.skip_schema_validation = true,
            flag if flag.starts_with('-') => panic!("unknown flag {flag}"),
            _ => plain.push(word),
        }
    }
    if let Some(version) = kube_version {
        options.capabilities.kube_version = KubeVersion::parse(&version)?;
    }
    options.name = plain[0].clone();
    Ok(Parsed { chart: plain[1].clone(), values, options })
}
