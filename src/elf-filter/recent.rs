//! Functions that were called lately: whoever calls one again names it by how many others were called
//! since. Programs that have much code in common call their functions in the same order, wherever these
//! are in each; so the names of the calls are the same, too.

use super::Direction;

/// Functions that are remembered.
const KNOWN: u32 = 256;

/// Turns distances of `BITS` bits to functions into names, or distances that are set apart from those.
///
/// Each distance has one name, and none is lost: of distances that no call in a program can have, those
/// whose words the names have taken get the words that the known functions are not called by any more.
#[derive(Debug)]
pub struct Recent<const BITS: u32> {
    /// Places of functions, each once, the latest first.
    places: Vec<u32>,
}

impl<const BITS: u32> Recent<BITS> {
    const MASK: u32 = u32::MAX >> (32 - BITS);
    /// The distance whose word is 0: farther than any within the limit.
    const FARTHEST: u32 = 1 << (BITS - 1);
    /// Calls from and to places below this are turned: so no distance between two of them is one of the
    /// first from the farthest on.
    const LIMIT: u32 = Self::FARTHEST - KNOWN;

    /// Knows places that are no functions, which the first calls drive out.
    pub fn new() -> Self {
        Self {
            places: (0..KNOWN).collect(),
        }
    }

    /// What becomes of a distance, or the word of one, that counts from `next`.
    pub fn turn(&mut self, word: u32, next: u32, direction: Direction) -> u32 {
        if next >= Self::LIMIT {
            return word;
        }
        match direction {
            Direction::Pack => self.pack(word, next),
            Direction::Unpack => self.unpack(word, next),
        }
    }

    fn pack(&mut self, distance: u32, next: u32) -> u32 {
        let place = distance.wrapping_add(next) & Self::MASK;
        if let Some(name) = self.find(place) {
            self.call(name, place);
            return name as u32;
        }
        let word = distance ^ Self::FARTHEST;
        match self.places.get(word as usize) {
            Some(known) => (known.wrapping_sub(next) & Self::MASK) ^ Self::FARTHEST,
            None => {
                self.learn(place);
                word
            }
        }
    }

    fn unpack(&mut self, word: u32, next: u32) -> u32 {
        if let Some(place) = self.places.get(word as usize).copied() {
            self.call(word as usize, place);
            return place.wrapping_sub(next) & Self::MASK;
        }
        let distance = word ^ Self::FARTHEST;
        let place = distance.wrapping_add(next) & Self::MASK;
        match self.find(place) {
            Some(name) => name as u32 ^ Self::FARTHEST,
            None => {
                self.learn(place);
                distance
            }
        }
    }

    fn find(&self, place: u32) -> Option<usize> {
        self.places.iter().position(|known| *known == place)
    }

    /// Puts a known function first.
    fn call(&mut self, name: usize, place: u32) {
        self.places.copy_within(..name, 1);
        self.places[0] = place;
    }

    /// Puts another one first, and forgets the last.
    fn learn(&mut self, place: u32) {
        if place < Self::LIMIT {
            self.call(KNOWN as usize - 1, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every distance comes back, those that nobody would write among them.
    fn comes_back<const BITS: u32>() {
        let (mut there, mut back) = (Recent::<BITS>::new(), Recent::<BITS>::new());
        let (mask, farthest, limit) = (
            Recent::<BITS>::MASK,
            Recent::<BITS>::FARTHEST,
            Recent::<BITS>::LIMIT,
        );
        let mut dice = 7u64;
        let mut roll = |limit: u32| {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (dice >> 33) as u32 % limit
        };
        let mut named = 0;
        for _ in 0..200_000 {
            let next = match roll(20) {
                0 => limit - 1 - roll(3),
                1 => limit + roll(300),
                _ => roll(5000),
            };
            let distance = match roll(6) {
                0 => farthest.wrapping_add(roll(300)),
                1 => roll(300),
                2 => roll(farthest) * 2,
                _ => (roll(40) * 100).wrapping_sub(next),
            } & mask;
            let word = there.turn(distance, next, Direction::Pack);
            named += usize::from(word < KNOWN);
            assert_eq!(word & mask, word);
            assert_eq!(back.turn(word, next, Direction::Unpack), distance);
            assert_eq!(there.places, back.places);
        }
        assert!(named > 80_000, "{named}");
    }

    #[test]
    fn every_distance_comes_back() {
        comes_back::<32>();
        comes_back::<26>();
    }

    #[test]
    fn what_is_called_in_the_same_order_has_the_same_names() {
        let names = |functions: [u32; 4], next: u32| {
            let mut recent = Recent::<32>::new();
            let mut name = |place: u32, next: u32| {
                recent.turn(place.wrapping_sub(next), next, Direction::Pack)
            };
            for place in functions {
                name(place, next);
            }
            [3, 1, 1, 2, 0].map(|at: usize| name(functions[at], next + 64))
        };
        let one = names([5000, 70_000, 900, 123_456], 40_000);
        assert_eq!(one, [0, 2, 0, 2, 3]);
        assert_eq!(one, names([7777, 80_000, 1000, 654_321], 9000));
    }
}
