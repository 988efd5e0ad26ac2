//! A stream with programs: it comes back from what compresses better, in whatever steps, and so does what
//! lies in a bundle.
#![no_main]
use elf_filter::{Direction, Filter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for (there, back) in [
        (Direction::Encode, Direction::Decode),
        (Direction::Decode, Direction::Encode),
    ] {
        let turned = turned(data, data.len(), there);
        assert_eq!(turned.len(), data.len());
        let step = 1 + data.len() / 7;
        assert!(self::turned(&turned, step, back) == data);
    }
});

fn turned(stream: &[u8], step: usize, direction: Direction) -> Vec<u8> {
    let (mut filter, mut out) = (Filter::new(direction), Vec::new());
    for bytes in stream.chunks(step.max(1)) {
        filter.push(bytes, false, &mut out);
    }
    filter.push(&[], true, &mut out);
    out
}
