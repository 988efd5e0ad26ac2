//! Lists of images: text files with one image in a line, as many projects publish them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::problem::{Problem, Problems};
use kubexm_types::ImageRef;

/// Maximum size of a list, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Reads a list. Blank lines and comments, which start with `#`, are ignored.
///
/// # Errors
/// The file cannot be read, or lines have another form; all of these lines.
pub fn load_image_list(path: &Path) -> Result<Vec<ImageRef>, Problems> {
    let file = path.display().to_string();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
    let too_large = || format!("is larger than {} MiB", LARGEST >> 20);
    match read {
        Err(error) => {
            let hint = "give a text file with one image in a line; paths start at the directory of the manifest";
            let message = format!("cannot be read: {error}");
            Err(Problems::whole_file(&file, message, Some(hint.to_owned())))
        }
        Ok(size) if size as u64 > LARGEST => Err(Problems::whole_file(&file, too_large(), None)),
        Ok(_) => parse(&file, &text),
    }
}

fn parse(file: &str, text: &str) -> Result<Vec<ImageRef>, Problems> {
    let (mut images, mut list) = (Vec::new(), Vec::new());
    for (line, content) in (1..).zip(text.lines()) {
        // The `#` of a comment stands at the start, or after a blank.
        let mut words = content
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'));
        let Some(first) = words.next() else {
            continue;
        };
        let parsed = match words.next() {
            None => ImageRef::parse(first).map_err(|error| error.to_string()),
            Some(_) => Err("expected one image in the line".to_owned()),
        };
        match parsed {
            Ok(image) => images.push(image),
            Err(message) => {
                let blanks = content.chars().take_while(|c| c.is_whitespace());
                list.push(Problem {
                    line,
                    column: blanks.count() as u64 + 1,
                    path: String::new(),
                    message,
                    hint: Some(
                        "write lines such as registry.k8s.io/pause:3.10; a comment starts with #"
                            .to_owned(),
                    ),
                });
            }
        }
    }
    if list.is_empty() {
        Ok(images)
    } else {
        let file = file.to_owned();
        Err(Problems { file, list })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_comments_and_problems_have_lines() {
        let text = "# of the vendor\n\nquay.io/a/b:1\r\n  nginx:1.29 # web\n\t\n";
        let images = parse("images.txt", text).unwrap();
        let images: Vec<String> = images.iter().map(ToString::to_string).collect();
        assert_eq!(images, ["quay.io/a/b:1", "docker.io/library/nginx:1.29"]);
        let problems = parse("images.txt", "nginx\nquay.io/a/b:1\n\n  a:1 b:2\n").unwrap_err();
        insta::assert_snapshot!(problems, @"
        images.txt:1:1: image 'nginx': expected a tag or a digest, as in registry.k8s.io/pause:3.10
          hint: write lines such as registry.k8s.io/pause:3.10; a comment starts with #
        images.txt:4:3: expected one image in the line
          hint: write lines such as registry.k8s.io/pause:3.10; a comment starts with #
        ");
        let missing = load_image_list(Path::new("/none/images.txt")).unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("/none/images.txt: cannot be read: "),
            "{missing}"
        );
    }

    #[test]
    fn manifest_names_lists_and_fields_of_images() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let manifest = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: b}\nspec:\n  architectures: [amd64]\n  images: [a.example/a:1]\n  imagesFrom: [images.txt]\n  imagePaths: [{kind: Foo, path: .spec.image}]\n";
        std::fs::write(at("bundle.yaml"), manifest).unwrap();
        std::fs::write(at("images.txt"), "a.example/b:1\na.example/a:1\n").unwrap();
        let read = crate::load_manifest(&at("bundle.yaml")).unwrap();
        let images: Vec<String> = read.images.iter().map(ToString::to_string).collect();
        assert_eq!(images, ["a.example/a:1", "a.example/b:1", "a.example/a:1"]);
        assert_eq!(read.image_paths, ["Foo:.spec.image".parse().unwrap()]);
        std::fs::write(at("images.txt"), "a.example/b:1\nb\n").unwrap();
        let problems = crate::load_manifest(&at("bundle.yaml"))
            .unwrap_err()
            .to_string();
        assert!(
            problems.contains("/images.txt:2:1: image 'b': "),
            "{problems}"
        );
        let wrong = manifest.replace(".spec.image", "spec/image");
        let problems = crate::parse_manifest("m", &wrong).unwrap_err().to_string();
        assert!(
            problems.contains("m:8:34: spec.imagePaths[0].path: "),
            "{problems}"
        );
    }
}
