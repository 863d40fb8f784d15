//! Writing as Go does.

use serde_json::json;
use slipway_yaml::to_string;

#[test]
fn mappings_are_sorted_and_lists_stand_level() {
    let value = json!({"b": [1, {"d": 1, "c": "x\ny\n"}], "a": {"v10": 1, "v9": "yes"}, "e": {}});
    assert_eq!(
        to_string(&value).unwrap(),
        "a:\n  v9: \"yes\"\n  v10: 1\nb:\n- 1\n- c: |\n    x\n    y\n  d: 1\ne: {}\n"
    );
}
