//! The content that the tests compress.

/// A text.
pub const TEXT: &[u8] = include_bytes!("text.txt");

/// Returns pseudo-random bytes, the same in every run.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Returns random bytes, runs, text and repeats, in pieces of random lengths.
pub fn mixture(length: usize, seed: u64) -> Vec<u8> {
    let mut dice = noise(8 * length, seed).into_iter();
    let mut below = |limit: usize| {
        let roll = dice
            .by_ref()
            .take(3)
            .fold(0, |sum, byte| sum << 8 | usize::from(byte));
        roll % limit
    };
    let mut content = Vec::with_capacity(length);
    while content.len() < length {
        let bits = 1 + below(14);
        let count = 1 + below(1 << bits);
        match below(5) {
            0 => content.extend(noise(count, seed + content.len() as u64)),
            1 => content.extend(std::iter::repeat_n(below(256) as u8, count)),
            2 => {
                let start = below(TEXT.len());
                content.extend(TEXT[start..].iter().take(count));
            }
            _ if content.is_empty() => {}
            _ => {
                let back = 1 + below(content.len().min(40_000));
                let start = content.len() - back;
                let repeated: Vec<u8> = content[start..]
                    .iter()
                    .copied()
                    .cycle()
                    .take(count)
                    .collect();
                content.extend(repeated);
            }
        }
    }
    content.truncate(length);
    content
}

/// Returns symbols that first occur after half a window of others: level 9 of Go 1.27 finds matches
/// of them, klauspost/compress does not.
pub fn late_symbols() -> Vec<u8> {
    let mut content = TEXT.repeat(4);
    let late = noise(500, 13).into_iter().map(|byte| 245 + byte % 11);
    content.extend(late.collect::<Vec<u8>>().repeat(60));
    content
}

/// Returns content of many kinds: noise, zeros, text, few symbols, long repeats, a program.
pub fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let text = TEXT.repeat(60);
    let few: Vec<u8> = noise(300_000, 5)
        .iter()
        .map(|byte| b"ab\ncd"[usize::from(byte % 5)])
        .collect();
    let mut mixed = noise(70_000, 7);
    mixed.extend(vec![0; 200_000]);
    mixed.extend_from_slice(&text[..90_000]);
    mixed.extend(noise(70_000, 7));
    // The same 40 000 bytes several times: farther apart than the window.
    let far = noise(40_000, 9).repeat(6);
    let near = noise(32_768, 11).repeat(6);
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let program = program[..program.len().min(1_200_000)].to_vec();
    vec![
        ("noise", noise(400_000, 3)),
        ("zeros", vec![0; 1_000_000]),
        ("text", text),
        ("few symbols", few),
        ("mixed", mixed),
        ("far repeats", far),
        ("near repeats", near),
        ("late symbols", late_symbols()),
        ("a program", program),
    ]
}
