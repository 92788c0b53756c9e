//! The chat templates of the shared fixtures: every rendering byte for byte as HF transformers gives it, at a quarter of
//! the limits.

use akunu_testkit::{fixtures, quarter_of_limits};
use akunu_text::{ChatTemplate, Error};
use serde_json::Value;

#[test]
fn every_rendering_of_every_template() {
    let Some(folder) = fixtures::shared("chat_templates") else { return };
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "jinja"));
    paths.sort();
    let mut failures = Vec::new();
    let (mut rendered, mut refused) = (0, 0);
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let template = match ChatTemplate::new_within(&std::fs::read_to_string(&path).unwrap(), quarter_of_limits()) {
            Ok(template) => template,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        let cases: Value = serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
        for (case, content) in cases.as_object().unwrap() {
            let got = template.render(&content["input"], "<s>", "</s>");
            match (content.get("output").and_then(Value::as_str), content.get("error").and_then(Value::as_str), got) {
                (Some(expected), _, Ok(got)) if got == expected => rendered += 1,
                (Some(expected), _, got) => failures.push(match got {
                    Ok(got) => format!("{name} {case}\n  expected {expected:?}\n  got      {got:?}"),
                    Err(error) => format!("{name} {case}: {error}"),
                }),
                (None, Some(error), got) => match (error.strip_prefix("TemplateError: "), got) {
                    (Some(expected), Err(Error::TemplateRaised(got))) if got == expected => refused += 1,
                    (Some(expected), got) => {
                        failures.push(format!("{name} {case}: expected {expected:?}, got {got:?}"))
                    }
                    // Where the oracle fails for a reason of Python's, any answer will do.
                    (None, got) => println!("{name} {case}: oracle {error:?}, ours {:?}", got.map(|_| "text")),
                },
                (None, None, _) => failures.push(format!("{name} {case}: no expectation")),
            }
        }
    }
    println!("{rendered} rendered, {refused} refused as expected");
    assert!(rendered > 0 && refused > 0, "the folder has both kinds");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
