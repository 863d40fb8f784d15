//! Signed commits, verified by the programs that define the formats.

use std::process::Command;

use slipway_git::{BranchLease, CheckoutBase, CheckoutRequest, CommitOutcome, GitError, SigningKey};

use crate::support::{Rig, branch, commit, operation, plain_git};

async fn signed(rig: &Rig, key: SigningKey) -> Result<String, GitError> {
    let request = CheckoutRequest {
        operation: operation("signed"),
        base: CheckoutBase::Branch(branch("main")),
        paths: Vec::new(),
    };
    let tree = rig.repository().check_out(&request).await?;
    std::fs::write(tree.directory().join("README"), "signed\n").unwrap();
    let mut wanted = commit("Signed", &["README"]);
    wanted.signing = Some(key);
    let CommitOutcome::Committed(id) = tree.commit(&wanted).await? else { panic!("nothing changed") };
    tree.push(&id, &branch("signed"), &BranchLease::Absent).await?;
    Ok(id.to_string())
}

#[tokio::test]
async fn an_ssh_key_signs_commits() {
    let rig = Rig::new();
    let key = rig.place.path().join("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "x", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    let private = std::fs::read_to_string(&key).unwrap();
    let id = signed(&rig, SigningKey::Ssh(private.into())).await.unwrap();
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let allowed = rig.place.path().join("allowed");
    std::fs::write(&allowed, format!("promoter@example.com {public}")).unwrap();
    let setting = format!("gpg.ssh.allowedSignersFile={}", allowed.display());
    rig.git(&rig.remote(), &["-c", &setting, "verify-commit", &id]);
}

#[tokio::test]
async fn an_openpgp_key_signs_commits() {
    let rig = Rig::new();
    let home = tempfile::Builder::new().prefix("gpg").tempdir().unwrap();
    let gpg = |args: &[&str]| {
        let output = Command::new("gpg")
            .args(["--batch", "--quiet", "--homedir"])
            .arg(home.path())
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    gpg(&[
        "--passphrase",
        "",
        "--quick-gen-key",
        "Promoter <promoter@example.com>",
        "ed25519",
        "sign",
        "never",
    ]);
    let private = gpg(&["--armor", "--export-secret-keys"]);
    let id = signed(&rig, SigningKey::OpenPgp(private.into())).await.unwrap();
    let verified = plain_git()
        .current_dir(rig.remote())
        .args(["verify-commit", &id])
        .env("GNUPGHOME", home.path())
        .output()
        .unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let _ = Command::new("gpgconf").arg("--homedir").arg(home.path()).args(["--kill", "all"]).status();
}

#[tokio::test]
async fn a_key_that_cannot_sign_is_an_error_without_the_key() {
    let rig = Rig::new();
    for key in [SigningKey::Ssh("sekret".to_owned().into()), SigningKey::OpenPgp("sekret".to_owned().into())]
    {
        let error = signed(&rig, key).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sekret"));
    }
}
