//! Sets of characters, and the map from a character to the class that a group of sets gives it.

use std::collections::HashMap;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use crate::error::excerpt;

/// A set of characters as sorted, disjoint, inclusive ranges of code points.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CharSet {
    ranges: Vec<(u32, u32)>,
}

impl CharSet {
    /// The set that `class` (`\p{L}`, `\s`, `[a-z&&[^x]]`, a single character) denotes in Unicode mode.
    pub fn parse(class: &str, ignore_case: bool) -> Result<Self, String> {
        let hir = regex_syntax::ParserBuilder::new()
            .case_insensitive(ignore_case)
            .nest_limit(16)
            .build()
            .parse(class)
            .map_err(|_| format!("the character class {}", excerpt(class)))?;
        let ranges = match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                class.ranges().iter().map(|r| (r.start() as u32, r.end() as u32)).collect()
            }
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|_| format!("the literal {}", excerpt(class)))?;
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(c), None) => vec![(c as u32, c as u32)],
                    _ => return Err(format!("the character class {}", excerpt(class))),
                }
            }
            _ => return Err(format!("the character class {}", excerpt(class))),
        };
        Ok(CharSet { ranges })
    }

    pub fn of_char(c: char, ignore_case: bool) -> Self {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
        if ignore_case {
            // Cannot fail: the case tables are compiled in. Without them the set is the plain character.
            let _ = class.try_case_fold_simple();
        }
        CharSet { ranges: class.ranges().iter().map(|r| (r.start() as u32, r.end() as u32)).collect() }
    }

    /// Everything that is not in this set.
    pub fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = 0u32;
        for &(start, end) in &self.ranges {
            if start > next {
                ranges.push((next, start - 1));
            }
            next = end + 1;
        }
        if next <= char::MAX as u32 {
            ranges.push((next, char::MAX as u32));
        }
        CharSet { ranges }
    }

    #[cfg(test)]
    pub fn contains(&self, c: char) -> bool {
        self.ranges.iter().any(|&(start, end)| (start..=end).contains(&(c as u32)))
    }
}

/// As many as a class has bits for.
pub(super) const MAX_SETS: usize = 128;
/// Characters per block of the two-level table.
const BLOCK: usize = 128;

/// Which class every character falls in: two characters share a class when no set tells them apart.
pub(crate) struct ClassMap {
    /// First class of each block, by `code / BLOCK`, as an index into `blocks`.
    index: Vec<u16>,
    blocks: Vec<[u8; BLOCK]>,
    ascii: Box<[u8; 128]>,
    /// `members[class]` has bit `i` set where the class lies in set `i`.
    members: Vec<u128>,
}

impl ClassMap {
    /// Partitions all characters by at most `MAX_SETS` sets, into at most 255 classes.
    pub fn new(sets: &[CharSet]) -> Result<Self, String> {
        // Every boundary toggles one set; between two boundaries the membership is constant.
        let mut toggles: Vec<(u32, usize)> = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            toggles.extend(set.ranges.iter().flat_map(|&(start, end)| [(start, i), (end + 1, i)]));
        }
        toggles.sort_unstable();

        let total = char::MAX as usize + 1;
        let mut class_of = vec![0u8; total];
        let mut by_members: HashMap<u128, u8> = HashMap::from([(0, 0)]);
        let mut members = vec![0u128];
        let mut current = 0u128;
        let mut at = 0usize;
        let mut i = 0;
        while at < total {
            while i < toggles.len() && toggles[i].0 as usize == at {
                current ^= 1 << toggles[i].1;
                i += 1;
            }
            let end = toggles.get(i).map_or(total, |t| (t.0 as usize).min(total));
            let class = match by_members.get(&current) {
                Some(&class) => class,
                None => {
                    let class = u8::try_from(members.len()).map_err(|_| "more than 255 classes of characters")?;
                    members.push(current);
                    by_members.insert(current, class);
                    class
                }
            };
            class_of[at..end].fill(class);
            at = end;
        }

        let mut blocks: Vec<[u8; BLOCK]> = Vec::new();
        let mut seen: HashMap<[u8; BLOCK], u16> = HashMap::new();
        let mut index = Vec::with_capacity(total / BLOCK);
        for chunk in class_of.chunks(BLOCK) {
            let mut block = [0u8; BLOCK];
            block[..chunk.len()].copy_from_slice(chunk);
            // At most 0x110000 / 128 = 8704 blocks, so the number fits.
            let number = *seen.entry(block).or_insert_with(|| {
                blocks.push(block);
                (blocks.len() - 1) as u16
            });
            index.push(number);
        }
        let ascii = Box::new(blocks[index[0] as usize]);
        Ok(ClassMap { index, blocks, ascii, members })
    }

    /// No sets: every character is in class 0.
    pub fn trivial() -> Self {
        ClassMap {
            index: vec![0; 0x110000 / BLOCK],
            blocks: vec![[0; BLOCK]],
            ascii: Box::new([0; 128]),
            members: vec![0],
        }
    }

    /// How many classes there are; classes are `0..count`.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    #[inline]
    pub fn class_of_ascii(&self, byte: u8) -> u8 {
        self.ascii[byte as usize & 127]
    }

    #[inline]
    pub fn class_of(&self, c: char) -> u8 {
        let code = c as usize;
        self.blocks[self.index[code / BLOCK] as usize][code % BLOCK]
    }

    /// Whether the characters of `class` lie in set number `set`.
    pub fn in_set(&self, class: usize, set: usize) -> bool {
        self.members[class] >> set & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_agree_with_sets_for_every_character() {
        let sets: Vec<CharSet> = [r"\p{L}", r"\s", "[^a-z]", r"\p{N}", r"[\p{Lu}\p{Lo}&&[^\p{Han}]]"]
            .map(|p| CharSet::parse(p, false).unwrap())
            .into();
        let map = ClassMap::new(&sets).unwrap();
        for c in (0..=0x3ffffu32).filter_map(char::from_u32) {
            for (i, set) in sets.iter().enumerate() {
                assert_eq!(map.in_set(map.class_of(c) as usize, i), set.contains(c), "{c:?} in set {i}");
            }
        }
    }

    #[test]
    fn complement_and_case() {
        assert!(CharSet::of_char('s', true).contains('ſ'));
        assert!(!CharSet::of_char('s', false).contains('S'));
        let not_space = CharSet::parse(r"\s", false).unwrap().complement();
        assert!(not_space.contains('a') && !not_space.contains('\u{85}') && not_space.contains(char::MAX));
        assert_eq!(not_space, CharSet::parse(r"\S", false).unwrap());
    }
}
