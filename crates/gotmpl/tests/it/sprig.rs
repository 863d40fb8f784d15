//! Sprig and Helm's data functions: what Helm 3.17.3 answers, what is random, what is refused.
//!
//! `vectors/sprig.jsonl` was recorded with `helm template r CHART` under `TZ=UTC`; a template is
//! `templates/_s.tpl` of a chart named `c` with the values below, included by `templates/t.yaml`. Rows
//! are `[template, "ok", text]` or `[template, "err", message]`; text has one character per byte.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slipway_go::semver::{Constraints, Version};
use slipway_gotmpl::{
    FuncMap, GoMap, GoValue, MapKind, NoHost, RenderLimits, TemplateHost, TemplateRenderer, TemplateSet,
    WholeNumbers, sprig,
};

const FILE: &str = "c/templates/_s.tpl";

fn root() -> GoValue {
    let values = serde_json::json!({
        "i": 1, "f": 1.5, "big": 1_000_000, "s": "hi", "e": "", "z": 0, "t": true, "n": null,
        "l": ["a", 1, null, true, 1.5], "el": [], "em": {}, "ls": ["b", "a", "c", "a"],
        "m": {"b": 1, "a": {"c": null, "d": [1]}}
    });
    let typed = |value: GoValue| match value {
        GoValue::Map(map) => GoValue::Map(map.with_kind(MapKind::Values)),
        other => other,
    };
    let root: GoMap =
        [("Values", typed(GoValue::from_json(&values, WholeNumbers::Float64)))].into_iter().collect();
    typed(root.into())
}

fn render_with(template: &str, limits: &RenderLimits, host: &dyn TemplateHost) -> Result<Vec<u8>, String> {
    let mut set = TemplateSet::new(FuncMap::helm(&sprig::functions()), limits);
    set.parse(FILE, template).map_err(|error| format!("Error: {}", error.helm_text(FILE)))?;
    TemplateRenderer::new(&set, limits, host).execute(FILE, &root()).map_err(|error| error.to_string())
}

fn render(template: &str) -> Result<String, String> {
    render_with(template, &RenderLimits::default(), &NoHost)
        .map(|text| String::from_utf8_lossy(&text).into_owned())
}

fn rows() -> Vec<(String, String, String)> {
    include_str!("vectors/sprig.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The time when the rows were recorded: what is no time stands for now.
struct WhenRecorded;

impl TemplateHost for WhenRecorded {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_794_781_800)
    }
}

#[test]
fn functions_agree_with_helm() {
    let mut failures = Vec::new();
    let rows = rows();
    let limits = RenderLimits::default();
    let funcs = FuncMap::helm(&sprig::functions());
    for (template, outcome, want) in &rows {
        let mut set = TemplateSet::new(funcs.clone(), &limits);
        let got = set
            .parse(FILE, template)
            .map_err(|error| format!("Error: {}", error.helm_text(FILE)))
            .and_then(|()| {
                TemplateRenderer::new(&set, &limits, &WhenRecorded)
                    .execute(FILE, &root())
                    .map_err(|error| error.to_string())
            });
        let want = match outcome.as_str() {
            "ok" => Ok(want.chars().map(|rune| u8::try_from(u32::from(rune)).unwrap()).collect::<Vec<u8>>()),
            _ => Err(want.clone()),
        };
        if got != want {
            let show = |result: &Result<Vec<u8>, String>| match result {
                Ok(text) => format!("text  {:?}", String::from_utf8_lossy(text)),
                Err(text) => format!("error {text}"),
            };
            failures.push(format!("{template}\n  got  {}\n  want {}", show(&got), show(&want)));
        }
    }
    assert!(failures.is_empty(), "{} of {} differ\n{}", failures.len(), rows.len(), failures.join("\n"));
}

/// Functions whose results no recording can hold.
const RANDOM: &[&str] = &[
    "bcrypt",
    "buildCustomCert",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "htpasswd",
    "now",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randInt",
    "randNumeric",
    "shuffle",
    "uuidv4",
    "ago",
    "encryptAES",
];

#[test]
fn every_function_has_a_recorded_case() {
    let rows = rows();
    let recorded: BTreeSet<&str> = rows
        .iter()
        .flat_map(|(template, ..)| template.split(|rune: char| !rune.is_alphanumeric() && rune != '_'))
        .collect();
    let library = sprig::functions();
    let missing: Vec<&str> = library
        .names()
        .into_iter()
        .filter(|name| !recorded.contains(name) && !RANDOM.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(library.get("env").is_none() && library.get("expandenv").is_none());
}

/// A host whose clock stands still and whose randomness starts from a seed.
struct Seeded(RefCell<u64>);

impl TemplateHost for Seeded {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_600_000_000)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        // SplitMix64: enough to be different everywhere and the same every time.
        for byte in bytes {
            let mut state = self.0.borrow_mut();
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = *state;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (mixed ^ mixed >> 31) as u8;
        }
    }

    fn is_seeded(&self) -> bool {
        true
    }
}

#[test]
fn random_text_has_its_shape() {
    let cases = [
        ("{{ randAlphaNum 20 }}", "^[0-9A-Za-z]{20}$"),
        ("{{ randAlpha 20 }}", "^[A-Za-z]{20}$"),
        ("{{ randNumeric 20 }}", "^[0-9]{20}$"),
        ("{{ randAscii 20 }}", "^[ -~]{20}$"),
        ("{{ randBytes 16 | b64dec | len }}", "^16$"),
        ("{{ randInt 5 7 }}", "^[56]$"),
        ("{{ uuidv4 }}", "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"),
        (r#"{{ shuffle "abc" | splitList "" | sortAlpha | join "" }}"#, "^abc$"),
        (r#"{{ decryptAES "key" (encryptAES "key" "plain") }}"#, "^plain$"),
        ("{{ ago now }}", "^0s$"),
        ("{{ now | typeOf }} {{ now.Year | lt 2020 }}", "^time.Time true$"),
    ];
    for (template, shape) in cases {
        let text = render(template).unwrap();
        assert!(regex::Regex::new(shape).unwrap().is_match(&text), "{template}: {text}");
    }
}

#[test]
fn texts_without_content_are_read_as_helm_reads_them() {
    let end = "unexpected end of JSON input";
    for (function, text, expected) in [
        ("fromYaml", "", "{}"),
        ("fromYaml", " \\n", "{}"),
        ("fromYaml", "# nothing", "{}"),
        ("fromYaml", "null", "{}"),
        ("fromYamlArray", "", "[]"),
        ("fromYamlArray", " \\n", "[]"),
        ("fromYamlArray", "# nothing", "[]"),
        ("fromYamlArray", "null", "[]"),
        ("fromYamlArray", "---", "[]"),
        ("fromJson", "", &format!("{{\"Error\":\"{end}\"}}")),
        ("fromJson", " ", &format!("{{\"Error\":\"{end}\"}}")),
        ("fromJson", "null", "null"),
        ("fromJsonArray", "", &format!("[\"{end}\"]")),
        ("fromJsonArray", " ", &format!("[\"{end}\"]")),
        ("fromJsonArray", "null", "null"),
        ("fromToml", "", "{}"),
        ("fromToml", "# nothing", "{}"),
    ] {
        let template = format!("{{{{ {function} \"{text}\" | toJson }}}}");
        assert_eq!(render(&template).unwrap(), expected, "{template}");
    }
}

#[test]
fn a_seed_makes_everything_repeatable() {
    let template = r#"{{ randAlphaNum 8 }} {{ uuidv4 }} {{ shuffle "abcdef" }} {{ randInt 0 1000 }} {{ now | date "2006-01-02" }}"#;
    let run = |seed: u64| {
        let host = Seeded(RefCell::new(seed));
        String::from_utf8(render_with(template, &RenderLimits::default(), &host).unwrap()).unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!(run(1).ends_with("2020-09-13"));
}

#[cfg(feature = "crypto")]
mod crypto {
    use super::*;

    #[test]
    fn keys_and_certificates_have_their_shape() {
        let cases = [
            (r#"{{ bcrypt "x" }}"#, r"^\$2a\$10\$[./0-9A-Za-z]{53}$"),
            (r#"{{ htpasswd "u" "x" }}"#, r"^u:\$2a\$10\$[./0-9A-Za-z]{53}$"),
            (
                r#"{{ genPrivateKey "ecdsa" }}"#,
                r"(?s)^-----BEGIN EC PRIVATE KEY-----\n.*\n-----END EC PRIVATE KEY-----\n$",
            ),
            (
                r#"{{ genPrivateKey "ed25519" }}"#,
                r"(?s)^-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI.{43}\n-----END PRIVATE KEY-----\n$",
            ),
            (
                r#"{{ genPrivateKey "rsa" }}"#,
                r"(?s)^-----BEGIN RSA PRIVATE KEY-----\n.{3000,3300}\n-----END RSA PRIVATE KEY-----\n$",
            ),
            (
                r#"{{ $c := genCA "ca" 365 }}{{ $s := genSignedCert "x" (list "10.0.0.1" "::1") (list "a.b") 30 $c }}{{ $b := buildCustomCert (b64enc $s.Cert) (b64enc $s.Key) }}{{ eq $b.Cert $s.Cert }} {{ typeOf $s }}"#,
                "^true sprig.certificate$",
            ),
            (
                r#"{{ $k := genPrivateKey "ecdsa" }}{{ $c := genCAWithKey "ca" 1 $k }}{{ eq $k $c.Key }} {{ (genSignedCertWithKey "x" nil nil 1 $c $k).Key | eq $k }} {{ (genSelfSignedCertWithKey "x" nil nil 1 $k).Key | eq $k }}"#,
                "^true true true$",
            ),
            (
                r#"{{ $c := genSelfSignedCert "x" nil nil 1 }}{{ $c.Cert | trunc 27 }}"#,
                "^-----BEGIN CERTIFICATE-----$",
            ),
        ];
        for (template, shape) in cases {
            let text = render(template).unwrap();
            assert!(regex::Regex::new(shape).unwrap().is_match(&text), "{template}: {text}");
        }
    }

    #[test]
    fn a_seed_makes_keys_repeatable() {
        let template = r#"{{ (genCA "ca" 1).Cert }}{{ genPrivateKey "ecdsa" }}{{ genPrivateKey "ed25519" }}{{ genPrivateKey "dsa" }}{{ bcrypt "x" }}{{ $k := genPrivateKey "ecdsa" }}{{ (genCAWithKey "ca" 1 $k).Cert }}"#;
        let run = |seed| {
            let host = Seeded(RefCell::new(seed));
            render_with(template, &RenderLimits::default(), &host).unwrap()
        };
        assert_eq!(run(7), run(7));
    }
}

#[test]
fn hostile_calls_end_in_limits() {
    let doubled = "{{ $d := dict }}{{ range until 60 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}";
    let grown = "{{ $s := repeat 1000000 \"x\" }}";
    let cases = [
        "{{ repeat 1000000000 \"xxxxxxxx\" }}".to_owned(),
        "{{ until 1000000000 }}".to_owned(),
        "{{ until -1000000000 }}".to_owned(),
        "{{ untilStep 0 9223372036854775807 1 }}".to_owned(),
        "{{ seq 1000000000 }}".to_owned(),
        "{{ indent 1000000000 \"a\\nb\" }}".to_owned(),
        "{{ randAlphaNum 1000000000 }}".to_owned(),
        "{{ randBytes 1000000000 }}".to_owned(),
        format!("{grown}{{{{ replace \"x\" $s $s }}}}"),
        format!("{grown}{{{{ regexReplaceAll \"x\" $s $s }}}}"),
        format!("{grown}{{{{ wrapWith 1 $s $s }}}}"),
        format!("{grown}{{{{ join $s (splitList \"\" $s) }}}}"),
        format!("{doubled}{{{{ toJson $d }}}}"),
        format!("{doubled}{{{{ toYaml $d }}}}"),
        format!("{doubled}{{{{ toToml $d }}}}"),
        format!("{doubled}{{{{ deepCopy $d }}}}"),
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}{{ deepCopy $d }}".to_owned(),
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}{{ toToml $d }}".to_owned(),
    ];
    let limits = RenderLimits { value_bytes: 16 << 20, steps: 3_000_000, ..RenderLimits::default() };
    for template in cases {
        let mut set = TemplateSet::new(FuncMap::helm(&sprig::functions()), &limits);
        set.parse(FILE, &template).unwrap();
        let error = TemplateRenderer::new(&set, &limits, &NoHost).execute(FILE, &root()).unwrap_err();
        assert!(error.is_limit(), "{template}: {error}");
    }
}

#[test]
fn hostile_patterns_end_in_errors() {
    let deep = format!("{}a{}", "(".repeat(999), ")".repeat(999));
    let deeper = format!("{}a{}", "(".repeat(1100), ")".repeat(1100));
    let wide = r"\pL{1000}".repeat(50);
    let cases = [
        (deep.as_str(), None),
        (deeper.as_str(), Some("expression nests too deeply")),
        (wide.as_str(), Some("expression too large")),
        (r"((a{100}){100}){100}", Some("invalid repeat count")),
    ];
    for (pattern, want) in cases {
        let template = format!("{{{{ mustRegexMatch {pattern:?} \"a\" }}}}");
        let got = render(&template);
        match want {
            None => assert_eq!(got.as_deref(), Ok("true")),
            Some(want) => {
                assert!(got.as_ref().is_err_and(|error| error.contains(want)), "{pattern:.40}: {got:.200?}");
            }
        }
    }
}

#[test]
fn constraints_follow_masterminds() {
    let table = "
        >=1.2 1.3.0 T|>=1.2 1.3.0-rc1 F|>=1.2-0 1.3.0-rc1 T|^1.2.3 1.9.0 T|^1.2.3 2.0.0 F|~1.2 1.2.9 T|~1.2.3 1.3.0 F|
        1.x 1.5 T|1.2 - 1.4.5 1.4.5 T|1.2 - 1.4 1.4.9 T|>1.0, <2.0 , !=1.5 1.5.0 F|* 1.0.0-a F|* 1.0.0 T|*-0 1.0.0-a T|
        !=1.2 1.2.5 F|!=1.2.3 1.2.3 F|<=1.2 1.2.9 T|<1.2 1.2.0 F|>1.2 1.2.9 F|^0.0.3 0.0.4 F|^0.2 0.2.9 T|^0.2.3 0.3.0 F|
        ^0 0.9.0 T|~1 1.9.9 T|=1.2 1.2.5 T|1.2.3 1.2.3+b T|>= 1.19.0-0 v1.32.0-gke.1 T|>=1.2 <2 1.5.0 T|=>1.0 1.0.0 T|
        =<1.0 1.0.5 T|~>1.2 1.2.5 T|v1.2 1.2.0 T|1.2.3-alpha 1.2.3-alpha T|>1.2.3-alpha.2 1.2.3-alpha.10 T|
        <1.2.3 1.2.3-alpha F|1.* 1.9.9 T|X 3.0.0 T|>1 1.5.0 F|>=1.x 1.5.0 T|<2.x 1.9.9 T|~0 0.5.0 T|^1.x 1.5.0 T|
        >= 1.2.3, < 1.3.0-0 1.3.0-alpha F|!=1.x 1.5.0 F|~* 1.0.0 T|^* 0.5.0 F";
    for case in table.split('|').map(str::trim).filter(|case| !case.is_empty()) {
        let (rest, want) = case.rsplit_once(' ').unwrap();
        let (constraint, version) = rest.rsplit_once(' ').unwrap();
        let got = Constraints::parse(constraint).unwrap().check(&Version::parse(version).unwrap());
        assert_eq!(got, want == "T", "{case}");
    }
    let either = Constraints::parse("1.2.3||2").unwrap();
    assert!(either.check(&Version::parse("2.5.0").unwrap()));
    assert!(Version::parse_strict("1.2").is_err() && Version::parse_strict("1.2.3-a.1+b").is_ok());
}
