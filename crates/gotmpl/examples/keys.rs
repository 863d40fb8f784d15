//! Measures what templates that make keys and certificates cost: `cargo run --release --example keys`.

use std::time::Instant;

use slipway_gotmpl::{FuncMap, GoValue, NoHost, RenderLimits, TemplateRenderer, TemplateSet, sprig};

const ROUNDS: u32 = 10;

fn main() {
    let limits = RenderLimits::default();
    for (name, template) in [
        ("genCA + genSignedCert", r#"{{ $c := genCA "ca" 365 }}{{ genSignedCert "x" nil nil 30 $c }}"#),
        ("genPrivateKey rsa", r#"{{ genPrivateKey "rsa" }}"#),
        ("genPrivateKey ecdsa", r#"{{ genPrivateKey "ecdsa" }}"#),
        ("genPrivateKey ed25519", r#"{{ genPrivateKey "ed25519" }}"#),
    ] {
        let mut set = TemplateSet::new(FuncMap::helm(&sprig::functions()), &limits);
        set.parse("t", template).expect("the template parses");
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            TemplateRenderer::new(&set, &limits, &NoHost).execute("t", &GoValue::map()).expect("it renders");
        }
        #[expect(clippy::print_stdout, reason = "an example")]
        {
            println!("{name}: {:?}", begun.elapsed() / ROUNDS);
        }
    }
}
