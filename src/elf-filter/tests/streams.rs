//! Decoding returns every stream, whatever it contains and however it is divided into steps.

use elf_filter::{Direction, Filter};

/// Pseudo-random numbers, the same in every run (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll() as u8).collect()
    }
}

/// Filters a stream in steps of these sizes.
fn filter(direction: Direction, stream: &[u8], mut size: impl FnMut() -> usize) -> Vec<u8> {
    let (mut filter, mut out, mut rest) = (Filter::new(direction), Vec::new(), stream);
    while !rest.is_empty() {
        let (step, more) = rest.split_at(size().clamp(1, rest.len()));
        filter.push(step, false, &mut out);
        rest = more;
    }
    filter.push(&[], true, &mut out);
    out
}

fn at_once(direction: Direction, stream: &[u8]) -> Vec<u8> {
    let (mut filter, mut out) = (Filter::new(direction), Vec::new());
    filter.push(stream, true, &mut out);
    out
}

/// Asserts that a stream round-trips and that its steps do not matter. Returns the encoded stream.
fn round_trips(stream: &[u8], dice: &mut Dice) -> Vec<u8> {
    let packed = at_once(Direction::Encode, stream);
    assert_eq!(packed.len(), stream.len());
    let small = filter(Direction::Encode, stream, || 1 + dice.below(40));
    assert!(small == packed, "steps matter");
    assert!(at_once(Direction::Decode, &packed) == stream, "lost");
    let large = filter(Direction::Decode, &packed, || 1 + dice.below(70_000));
    assert!(large == stream, "lost in steps");
    packed
}

/// Returns the first 4096 bytes of a program with this number of bytes of code and then of data.
fn head(machine: u8, code: usize, data: usize) -> Vec<u8> {
    let mut head = vec![0; 4096];
    head[..6].copy_from_slice(b"\x7fELF\x02\x01");
    head[18] = machine;
    head[32] = 64;
    head[54] = 56;
    head[56] = 2;
    for (at, flags, start, size) in [(64, 5, 0, 4096 + code), (120, 4, 4096 + code, data)] {
        head[at] = 1;
        head[at + 4] = flags;
        head[at + 8..at + 16].copy_from_slice(&(start as u64).to_le_bytes());
        head[at + 32..at + 40].copy_from_slice(&(size as u64).to_le_bytes());
    }
    head
}

const X86_64: u8 = 62;
const ARM64: u8 = 183;

/// Returns calls of two functions and addresses of one datum, with different operands.
fn calls(count: usize) -> Vec<u8> {
    let mut code = Vec::new();
    for number in 0..count {
        let next = (4096 + code.len() + 5) as i32;
        let target = if number % 3 == 0 { 5000 } else { 9000 };
        code.push(0xe8);
        code.extend((target - next).to_le_bytes());
        // lea rax, [rip + …]
        let next = (4096 + code.len() + 7) as i32;
        code.extend([0x48, 0x8d, 0x05]);
        code.extend((123_456 - next).to_le_bytes());
    }
    code
}

/// Splits that code, encoded, into opcodes, operands of calls and operands of data.
fn parts(packed: &[u8], count: usize) -> [Vec<&[u8]>; 3] {
    let (rest, words) = packed[4096..].split_at(count * 4);
    let (calls, data) = words.split_at(count * 4);
    [rest, calls, data].map(|part| part.chunks_exact(4).collect())
}

fn different(words: &[&[u8]]) -> usize {
    words
        .iter()
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

#[test]
fn calls_of_one_function_have_equal_operands() {
    let code = calls(3000);
    let stream = [head(X86_64, code.len(), 0), code].concat();
    let whole: Vec<&[u8]> = stream[4096..].chunks_exact(12).collect();
    assert_eq!(different(&whole), 3000);
    let packed = round_trips(&stream, &mut Dice(1));
    let [rest, calls, data] = parts(&packed, 3000);
    assert_eq!(rest[0], b"\xe8\x48\x8d\x05");
    assert_eq!((different(&rest), different(&data)), (1, 1));
    // Both functions are new once. Every later call is to the most recent target or to the one before.
    let mut indices = calls[2..].to_vec();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices, [[0, 0, 0, 0], [1, 0, 0, 0]]);
    assert_eq!(packed[..4096], stream[..4096]);
}

/// The code is longer than a stretch and ends with an incomplete instruction.
#[test]
fn code_longer_than_a_stretch_round_trips() {
    let mut code = calls(60_000);
    code.push(0xe8);
    let stream = [head(X86_64, code.len(), 0), code].concat();
    let packed = round_trips(&stream, &mut Dice(7));
    assert_ne!(packed[4096..8192], stream[4096..8192]);
    let end = stream.len() - 4096;
    assert_ne!(packed[end..], stream[end..]);
    let cut = &stream[..stream.len() - 5000];
    round_trips(cut, &mut Dice(8));
}

#[test]
fn aarch64_calls_and_pages_have_equal_operands() {
    let mut code = Vec::new();
    for number in 0..3000u32 {
        let place = 4096 + number * 8;
        let words = (50_000u32.wrapping_sub(place) / 4) & 0x03ff_ffff;
        code.extend((0x9400_0000 | words).to_le_bytes());
        let pages = 77u32.wrapping_sub((place + 4) >> 12) & 0x001f_ffff;
        let adrp = 0x9000_0003 | (pages & 3) << 29 | (pages >> 2) << 5;
        code.extend(adrp.to_le_bytes());
    }
    let stream = [head(ARM64, code.len(), 0), code].concat();
    let packed = round_trips(&stream, &mut Dice(2));
    // The first call is new. Every later call is to the most recent target.
    let pairs: Vec<&[u8]> = packed[4096 + 8..].chunks_exact(8).collect();
    assert_eq!(different(&pairs), 1, "{pairs:x?}");
    assert_eq!(pairs[0][..4], 0x9400_0000u32.to_le_bytes());
}

#[test]
fn only_programs_at_block_boundaries_change() {
    let code = calls(100);
    let program = [head(X86_64, code.len(), 0), code].concat();
    let mut dice = Dice(3);
    for before in [0, 512, 512 * 7] {
        let stream = [dice.bytes(before), program.clone(), dice.bytes(5000)].concat();
        let packed = round_trips(&stream, &mut dice);
        assert_eq!(packed[..before + 4096], stream[..before + 4096]);
        assert_ne!(packed, stream);
        let end = before + program.len();
        assert_eq!(packed[end..], stream[end..]);
    }
    let odd = [vec![0; 100], program].concat();
    assert_eq!(round_trips(&odd, &mut dice), odd);
}

/// Returns Go's table with this number of functions and growing numbers.
fn table(functions: u32, dice: &mut Dice) -> Vec<u8> {
    let steps = dice.bytes(70_000);
    let list = 72 + steps.len();
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    for number in [u64::from(functions), 1, 0, 72, 72, 72, 72, list as u64] {
        table.extend(number.to_le_bytes());
    }
    table.extend(steps);
    let mut place = functions * 8 + 4;
    let (mut own, mut known) = (Vec::new(), Vec::new());
    for number in 0..functions {
        known.extend([number * 64, place].map(u32::to_le_bytes));
        let count = dice.below(6) as u32;
        let rest = dice.below(5);
        let mut words = vec![
            number * 64,
            number * 30,
            8,
            0,
            number * 50,
            number * 50 + 9,
            7,
        ];
        words.extend([count, 3, number, 0]);
        words.extend((0..count).map(|at| number * 50 + 10 + at));
        words.extend((0..rest).map(|_| dice.roll() as u32));
        place += words.len() as u32 * 4;
        own.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }
    table.extend(known.concat());
    table.extend([0; 4]);
    table.extend(own);
    table
}

#[test]
fn damaged_go_tables_round_trip() {
    let mut dice = Dice(4);
    for functions in [1, 2, 500, 20_000] {
        let table = table(functions, &mut dice);
        let code = calls(10);
        let stream = [head(X86_64, code.len(), table.len() + 1000), code, table].concat();
        let begin = 4096 + 120;
        // A table starts at a multiple of 16.
        let mut stream = [&stream[..begin], &[0; 8], &stream[begin..]].concat();
        let packed = round_trips(&stream, &mut dice);
        assert_ne!(packed[begin + 80..], stream[begin + 80..], "{functions}");
        for _ in 0..8 {
            let at = begin + dice.below(stream.len() - begin);
            stream[at] = dice.roll() as u8;
            let cut = if dice.below(3) == 0 {
                dice.below(stream.len())
            } else {
                stream.len()
            };
            round_trips(&stream[..cut], &mut dice);
        }
    }
}

#[test]
fn any_stream_round_trips() {
    let mut dice = Dice(5);
    for round in 0..300 {
        let (code, data) = (dice.below(6000), dice.below(3000));
        let mut stream = head([X86_64, ARM64][round % 2], code, data);
        stream.extend(dice.bytes(code + data + 700));
        // Opcodes are more frequent than in random bytes.
        for _ in 0..dice.below(400) {
            let at = dice.below(stream.len() - 4);
            stream[at] = [0xe8, 0xe9, 0x8d, 0x05, 0x0f, 0x94, 0x90, 0][dice.below(8)];
        }
        if round % 5 == 0 {
            let at = dice.below(200);
            stream[at] = dice.roll() as u8;
        }
        round_trips(&stream, &mut dice);
    }
    for length in [0, 1, 3, 4, 63, 511, 512, 513, 4095, 4096, 4097] {
        let stream = [head(X86_64, 300, 0), dice.bytes(400)].concat();
        round_trips(&stream[..length], &mut dice);
    }
}

/// Needs the lab's upstream (tests/lab/upstream/build), as `./test` builds it.
#[test]
#[ignore = "needs the programs that tests/lab/upstream/build makes"]
fn real_programs_round_trip() {
    let cache = std::env::var_os("KUBEXM_LAB_CACHE").map_or_else(
        || std::path::Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/kubexm-lab"),
        std::path::PathBuf::from,
    );
    let folder = cache.join("upstream/bin/kubernetes-1.36.3");
    let mut dice = Dice(6);
    for name in ["kubectl", "kube-proxy"] {
        let program = std::fs::read(folder.join(name)).unwrap();
        let packed = at_once(Direction::Encode, &program);
        let size = || 1 + dice.below(200_000);
        assert!(
            filter(Direction::Decode, &packed, size) == program,
            "{name}"
        );
        let changed = packed.iter().zip(&program).filter(|(a, b)| a != b).count();
        assert!(
            changed > program.len() / 10,
            "{name}: {changed} bytes changed"
        );
    }
}
