//! The images that objects name.

use serde::Deserialize;

/// The images in the specification of an object that has pods, or is one.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Images {
    init_containers: Vec<Container>,
    containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
    volumes: Vec<ImageVolume>,
    template: Option<Template>,
    job_template: Option<Template>,
}

#[derive(Deserialize)]
struct Template {
    spec: Box<Images>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    image: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ImageVolume {
    image: ImageReference,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ImageReference {
    reference: String,
}

impl Images {
    /// Returns the names. Users of the cluster can write any text there.
    pub fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        let containers = [
            &self.init_containers,
            &self.containers,
            &self.ephemeral_containers,
        ];
        let containers = containers.into_iter().flatten();
        let own = containers.map(|container| container.image.as_str());
        let volumes = self.volumes.iter();
        let volumes = volumes.map(|volume| volume.image.reference.as_str());
        let templates = self.template.iter().chain(&self.job_template);
        let of_pods = templates.flat_map(|template| template.spec.names());
        let all = own.chain(volumes).chain(of_pods);
        Box::new(all.filter(|name| !name.is_empty()))
    }
}
