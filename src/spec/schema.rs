//! What editors and beginners read: the JSON schema and a commented example.

/// JSON schema of `cluster.yaml` (draft 2020-12).
pub const CLUSTER: &str = include_str!("../../manifests/schema/cluster.json");

/// A `cluster.yaml` to start from.
pub const TEMPLATE: &str = include_str!("../../manifests/cluster-example.yaml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_valid_and_known_to_the_schema() {
        crate::spec::parse_cluster("example", TEMPLATE).unwrap();
        let schema: serde_json::Value = serde_json::from_str(CLUSTER).unwrap();
        let spec = &schema["properties"]["spec"]["properties"];
        for line in TEMPLATE.lines().skip_while(|line| *line != "spec:").skip(1) {
            let Some(field) = line.strip_prefix("  ").and_then(|l| l.split(':').next()) else {
                continue;
            };
            if field.starts_with([' ', '#', '-']) {
                continue;
            }
            assert!(spec.get(field).is_some(), "the schema lacks spec.{field}");
        }
    }

    /// Every field that the schema names is taken by the reader, and no other.
    #[test]
    fn schema_and_reader_know_the_same_fields() {
        let schema: serde_json::Value = serde_json::from_str(CLUSTER).unwrap();
        let text = TEMPLATE.replace("spec:\n", "spec:\n  unknownField: 1\n");
        let error = crate::spec::parse_cluster("example", &text).unwrap_err();
        let hint = error.list[0].hint.clone().unwrap();
        for field in schema["properties"]["spec"]["properties"]
            .as_object()
            .unwrap()
            .keys()
        {
            assert!(
                hint.contains(field.as_str()),
                "the reader does not know spec.{field}: {hint}"
            );
        }
    }
}
