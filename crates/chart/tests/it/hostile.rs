//! Charts made to exhaust whoever renders them end in an error, within limits.

use std::io::Write as _;

use slipway_chart::{Chart, ChartFile, ChartInput, LoadOptions, Notices, RenderOptions, render};

const ABOUT: &str = "apiVersion: v2\nname: bad\nversion: 1.0.0\n";

fn load(files: &[(&str, &str)]) -> Result<Chart, slipway_chart::ChartError> {
    let files = [("Chart.yaml", ABOUT)].iter().chain(files);
    let files = files.map(|(name, text)| ChartFile { name: (*name).into(), data: text.as_bytes().into() });
    Chart::from_files(files.collect(), &LoadOptions::default(), &mut Notices::new())
}

/// What rendering says; the limits are small so that the test is fast, their order is the default's.
fn said(files: &[(&str, &str)]) -> String {
    let mut options = RenderOptions::default();
    options.limits.steps = 200_000;
    options.limits.value_bytes = 1 << 20;
    options.limits.total_bytes = 16 << 20;
    options.limits.template_depth = 1000;
    let rendered = load(files)
        .and_then(|chart| render(&chart, &serde_json::Map::new(), &options)?.to_template_output(&options));
    match rendered {
        Ok(output) => panic!("{files:?} gave {} bytes", output.len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn bombs_in_templates_end_in_an_error() {
    let nested =
        "{{ range until 5000 }}{{ range until 5000 }}{{ range until 5000 }}{{ end }}{{ end }}{{ end }}";
    let doubled = format!("{{{{ $x := \"xxxxxxxx\" }}}}{}", "{{ $x = print $x $x }}".repeat(64));
    let listed = format!("{{{{ $x := list 1 }}}}{}{{{{ len $x }}}}", "{{ $x = concat $x $x }}".repeat(64));
    let catted = format!("{{{{ $x := \"xxxxxxxx\" }}}}{}", "{{ $x = cat $x $x }}".repeat(64));
    let joined = format!("{{{{ $x := \"xxxxxxxx\" }}}}{}", "{{ $x = list $x $x | join \",\" }}".repeat(64));
    let held =
        format!("{{{{ $x := dict }}}}{}{{{{ toYaml $x }}}}", "{{ $x = dict \"a\" $x \"b\" $x }}".repeat(64));
    for template in [
        "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        "{{ $t := \"{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t \"Template\" .Template) }}",
        "{{ repeat 1000000000 \"x\" }}",
        "{{ repeat 1000000 (repeat 1000000 \"x\") }}",
        "{{ until 1000000000 }}",
        "{{ untilStep 0 1000000000 1 }}",
        "{{ range $i := until 1000000000 }}{{ $i }}{{ end }}",
        "{{ seq 1 1000000000 }}",
        "{{ indent 1000000000 \"x\" }}",
        "{{ nindent 100000000 \"x\\nx\\nx\" }}",
        "{{ nindent 1000000000 \"x\" }}",
        "{{ printf \"%1000000000d\" 1 }}{{ fail \"Go prints no more than %!(BADWIDTH)\" }}",
        "{{ printf \"%.1000000000f\" 1.0 }}{{ fail \"nor here\" }}",
        "{{ range until 5000 }}{{ bcrypt \"x\" }}{{ end }}",
        "{{ range until 5000 }}{{ htpasswd \"u\" \"x\" }}{{ end }}",
        "{{ range until 5000 }}{{ derivePassword 1 \"long\" \"p\" \"u\" \"s\" }}{{ end }}",
        "{{ range until 5000 }}{{ genPrivateKey \"rsa\" }}{{ end }}",
        "{{ range until 5000 }}{{ genPrivateKey \"dsa\" }}{{ end }}",
        "{{ range until 5000 }}{{ genCA \"x\" 1 }}{{ end }}",
        "{{ range until 5000 }}{{ genPrivateKey \"ecdsa\" }}{{ end }}",
        "{{ printf \"%1000000d%1000000d%1000000d%1000000d\" 1 2 3 4 5 }}",
        "{{ randAlphaNum 1000000000 }}",
        "{{ randBytes 1000000000 }}",
        "{{ wrapWith 1 (repeat 20000 \"x\") (repeat 20000 \"a \") }}",
        "{{ replace \"x\" (repeat 20000 \"y\") (repeat 20000 \"x\") }}",
        "{{ join (repeat 20000 \"-\") (until 20000) }}",
        "{{ regexReplaceAll \"x\" (repeat 20000 \"x\") (repeat 20000 \"y\") }}",
        "{{ regexMatch \"((((a{1,100}){1,100}){1,100}){1,100})\" \"a\" | ternary (fail \"no\") (fail \"no\") }}",
        "{{ mustRegexMatch \"(((((a{1,1000}){1,1000}){1,1000})))\" \"a\" }}",
        "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}{{ $d }}",
        "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}{{ mustToJson $d }}",
        // Encoders give nothing for what they cannot encode, as Helm's do.
        "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}{{ toYaml $d }}{{ toJson $d }}{{ fail \"went on\" }}",
        "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}{{ toToml $d }}",
        "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}{{ deepCopy $d | toString }}",
        "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}{{ merge (dict \"self\" (dict)) $d }}",
        nested,
        &doubled,
        &catted,
        &joined,
        &listed,
        &held,
    ] {
        let text = said(&[("templates/a.yaml", template)]);
        assert!(text.contains("bad/templates/a.yaml"), "{template}: {text}");
        assert!(text.len() < 200_000, "{template}: {} bytes", text.len());
    }
}

#[test]
fn bombs_in_files_end_in_an_error() {
    let deep = format!("a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let bomb: String = std::iter::once("a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned())
        .chain(('b'..='j').map(|name| {
            let before = char::from(name as u8 - 1);
            format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(","))
        }))
        .collect();
    let schema = r##"{"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}"##;
    for (name, text) in [
        ("values.yaml", deep.as_str()),
        ("values.yaml", &bomb),
        ("Chart.yaml", &bomb),
        ("values.schema.json", schema),
        ("templates/a.yaml", &deep),
        ("templates/a.yaml", &bomb),
    ] {
        let text = said(&[(name, text)]);
        assert!(!text.is_empty() && text.len() < 10_000, "{name}: {text}");
    }
}

#[test]
fn what_a_template_decodes_may_be_a_bomb_too() {
    let bomb = (1..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, at| {
        let before = at - 1;
        text + &format!("a{at}: &a{at} [*a{before}, *a{before}]\n")
    });
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    for (function, data) in
        [("fromYaml", &bomb), ("fromYaml", &deep), ("fromYamlArray", &deep), ("fromJsonArray", &deep)]
    {
        let template = format!("{{{{ .Files.Get \"data\" | {function} | toJson | trunc 2000 | fail }}}}");
        let text = said(&[("data", data), ("templates/a.yaml", &template)]);
        // Decoding functions give their error as a value, as Helm's do.
        assert!(text.contains("bad/templates/a.yaml") && text.len() < 10_000, "{function}: {text}");
        assert!(!text.contains("[[[["), "{function}: {text}");
    }
}

/// A gzipped tar with one entry of that name and size.
fn archive(name: &str, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(header.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 16];
    for _ in 0..size.div_ceil(1 << 16) {
        gzip.write_all(&zeros).unwrap();
    }
    gzip.finish().unwrap()
}

#[test]
fn archives_that_lead_astray_end_in_an_error() {
    for (name, size, expected) in [
        ("bad/../../etc/passwd", 1, "chart illegally references parent directory"),
        ("bad//etc/passwd", 1, "chart illegally contains absolute paths"),
        ("bad/zeros", 6 << 20, "is larger than the maximum file size"),
        ("bad/charts/../../../x", 1, "chart illegally references parent directory"),
    ] {
        let bytes = archive(name, size);
        let options = LoadOptions::default();
        let error = Chart::load_with(ChartInput::Archive(&bytes), &options, &mut Notices::new()).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}

/// What real Helm says of links that lead nowhere; it keeps a `..` directly under the root.
#[cfg(unix)]
#[test]
fn a_dangling_link_is_named_as_go_walks_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("chart/files")).unwrap();
    std::fs::write(root.join("chart/Chart.yaml"), ABOUT).unwrap();
    let names: Vec<_> = root.iter().skip(1).collect();
    let first = format!("/{}", names[0].to_string_lossy());
    for (up, expected) in [
        (1, root.join("chart/nowhere").display().to_string()),
        (names.len() + 1, format!("{first}/nowhere")),
        (names.len() + 2, format!("{first}/../nowhere")),
    ] {
        let link = root.join("chart/files/x");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("../".repeat(up) + "nowhere", &link).unwrap();
        let error = Chart::load(root.join("chart").as_path(), &LoadOptions::default()).unwrap_err();
        let expected = format!(
            "error evaluating symlink {}: lstat {expected}: no such file or directory",
            link.display()
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// Twenty directories that each link to the next one twice: a million paths to one file.
#[cfg(unix)]
#[test]
fn links_that_multiply_files_end_at_the_limit_of_bytes() {
    let root = tempfile::tempdir().unwrap();
    let chart = root.path().join("chart");
    std::fs::create_dir(&chart).unwrap();
    std::fs::write(chart.join("Chart.yaml"), ABOUT).unwrap();
    for level in 0..20 {
        let directory = root.path().join(format!("level-{level}"));
        std::fs::create_dir(&directory).unwrap();
        if level == 0 {
            std::fs::write(directory.join("file"), [b'x'; 64]).unwrap();
        } else {
            for link in ["a", "b"] {
                let next = root.path().join(format!("level-{}", level - 1));
                std::os::unix::fs::symlink(next, directory.join(link)).unwrap();
            }
        }
    }
    std::os::unix::fs::symlink(root.path().join("level-19"), chart.join("files")).unwrap();
    let mut options = LoadOptions::default();
    options.limits.directory = 1000;
    let error = Chart::load(chart.as_path(), &options).unwrap_err();
    assert_eq!(error.to_string(), "chart is larger than the maximum size 1000");
}
