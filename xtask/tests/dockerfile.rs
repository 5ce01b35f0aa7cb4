//! The Dockerfile's stages. No container engine runs where these tests do, so what can be told from the text is.

use std::fs;
use std::path::Path;

/// One instruction, continuation lines joined: its name in upper case, and the rest.
type Instruction = (String, String);

fn instructions() -> Vec<Instruction> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Dockerfile");
    let text = fs::read_to_string(path).expect("the Dockerfile is readable").replace("\\\n", " ");
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            (name.to_uppercase(), rest.trim().to_owned())
        })
        .collect()
}

/// The stages, each from its `FROM` on.
fn stages() -> Vec<Vec<Instruction>> {
    let mut stages: Vec<Vec<Instruction>> = Vec::new();
    for instruction in instructions() {
        if instruction.0 == "FROM" {
            stages.push(Vec::new());
        }
        stages.last_mut().expect("the first instruction is FROM").push(instruction);
    }
    stages
}

#[test]
fn every_stage_has_a_name_and_a_pinned_image() {
    for stage in stages() {
        let (image, name) =
            stage[0].1.split_once(" AS ").unwrap_or_else(|| panic!("no name: {}", stage[0].1));
        let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("no tag: {image}"));
        assert_ne!(tag, "latest", "{name}");
    }
}

#[test]
fn the_image_runs_as_a_user_that_is_seen_not_to_be_root() {
    let stages = stages();
    let last = stages.last().unwrap();
    let users: Vec<_> =
        last.iter().filter(|(name, _)| name == "USER").map(|(_, user)| user.as_str()).collect();
    let user = users.last().expect("a USER");
    let id: u32 = user.split(':').next().unwrap().parse().expect("a number");
    assert_ne!(id, 0);
}

#[test]
fn the_image_holds_the_binary_and_nothing_of_the_build() {
    let stages = stages();
    let last = stages.last().unwrap();
    assert!(last[0].1.contains("distroless/static") || last[0].1.starts_with("scratch"), "{}", last[0].1);
    let copies: Vec<_> = last.iter().filter(|(name, _)| name == "COPY").collect();
    assert_eq!(copies.len(), 1);
    assert!(copies[0].1.starts_with("--from=build "), "{}", copies[0].1);
    assert!(!last.iter().any(|(name, _)| name == "RUN"), "the last stage has no shell");
}

#[test]
fn nothing_is_fetched_by_address_and_no_secret_is_in_it() {
    for (name, rest) in instructions() {
        assert_ne!(name, "ADD", "{rest}");
        for word in ["curl", "wget", "PASSWORD", "TOKEN", "SECRET"] {
            assert!(!rest.contains(word), "{name} {rest}");
        }
    }
}

#[test]
fn the_entry_is_the_operator_and_is_no_shell() {
    let all = instructions();
    let entry = all.iter().find(|(name, _)| name == "ENTRYPOINT").expect("an ENTRYPOINT");
    let words: Vec<String> = serde_json::from_str(&entry.1).expect("the exec form");
    assert_eq!(words, ["/rlscaler"]);
}
