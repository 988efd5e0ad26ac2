//! Parsing of untrusted XML: no DTD, no entities except XML's own, limited depth and text size.

use std::io::BufRead;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// Maximum depth of elements; repository metadata and JUnit reports have a depth of four.
const DEEPEST: usize = 16;

/// A start tag, or an end tag with the text since the previous tag.
pub enum Piece<'a> {
    Open(&'a Tag<'a>),
    /// The name, and the text if the element contains nothing else.
    Close(&'a str, &'a str),
}

/// A start tag.
pub struct Tag<'a>(&'a BytesStart<'a>);

impl Tag<'_> {
    /// Returns the name without prefix.
    pub fn name(&self) -> &str {
        local(self.0.name().into_inner())
    }

    /// Returns an attribute by its name without prefix.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let mut attributes = self.0.attributes().flatten();
        let attribute = attributes.find(|a| local(a.key.into_inner()) == name)?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
        Some(value.into_owned())
    }
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// Calls `each` for all tags of a document. The text of an element has at most `longest` bytes.
///
/// # Errors
/// The document is not well-formed or incomplete, a text is longer, or `each` returns an error.
pub fn walk(
    source: impl BufRead,
    longest: usize,
    mut each: impl FnMut(Piece<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::from_reader(source);
    let (mut buffer, mut text, mut depth, mut seen) = (Vec::new(), String::new(), 0usize, false);
    loop {
        buffer.clear();
        let event = reader
            .read_event_into(&mut buffer)
            .map_err(|error| format!("it is not well-formed XML: {error}"))?;
        match event {
            Event::Start(tag) => {
                depth += 1;
                seen = true;
                if depth > DEEPEST {
                    return Err("its XML is nested too deeply".to_owned());
                }
                text.clear();
                each(Piece::Open(&Tag(&tag)))?;
            }
            Event::Empty(tag) => {
                let tag = Tag(&tag);
                text.clear();
                each(Piece::Open(&tag))?;
                each(Piece::Close(tag.name(), ""))?;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                each(Piece::Close(local(tag.name().into_inner()), text.trim()))?;
                text.clear();
            }
            Event::Text(part) => text.push_str(&part.xml10_content()),
            Event::CData(part) => text.push_str(&part.xml10_content()),
            Event::GeneralRef(reference) => text.push(character(&reference)?),
            Event::DocType(_) => return Err("it has a DTD, which is not allowed".to_owned()),
            Event::Eof if depth == 0 && seen => return Ok(()),
            Event::Eof => return Err("it ends too early: was it cut off?".to_owned()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
        }
        if text.len() > longest {
            return Err("a text in it is too long".to_owned());
        }
    }
}

fn character(reference: &quick_xml::events::BytesRef<'_>) -> Result<char, String> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Ok(character);
    }
    match reference.xml10_content().as_ref() {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(format!("it has the unknown entity '{shown}'"))
        }
    }
}
